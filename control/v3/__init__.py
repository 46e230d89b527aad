"""API v3, one folder per resource."""
