"""Deliveries in API v3: list, pull and replay them, list corrections."""
