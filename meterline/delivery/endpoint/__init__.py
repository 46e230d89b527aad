"""Endpoints: their addresses, their health, and the text that explains it."""
