"""Deliveries in API v3: shown, pulled, replayed, corrected."""
