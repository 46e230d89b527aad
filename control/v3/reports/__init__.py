"""Reports and their runs in API v3."""
