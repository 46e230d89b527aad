"""API keys, subjects and the record of changes in API v3."""
