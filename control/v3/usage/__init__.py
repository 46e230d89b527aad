"""Usage in API v3, and the events behind it."""
