"""Endpoints: their addresses, how they fare, and that in words."""
