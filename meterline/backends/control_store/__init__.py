"""The control store (SQLite or PostgreSQL): meters, reports, deliveries, keys, progress."""
