"""Meters in API v3: defined, tried, revised, and what they could not use."""
