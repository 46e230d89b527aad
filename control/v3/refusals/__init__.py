"""Refused events in API v3."""
