"""Reports in API v1."""
