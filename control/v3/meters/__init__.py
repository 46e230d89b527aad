"""Meters in API v3: create, preview and revise them, list rejected values."""
