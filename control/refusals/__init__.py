"""Refused events, for all API versions: list, explain, redrive and dismiss."""
