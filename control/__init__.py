"""The HTTP API: meters, usage, reports, deliveries, keys."""
