"""API v3, by what it is about."""
