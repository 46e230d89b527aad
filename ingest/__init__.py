"""Ingest accepts events: validate them, pack them, append them to the log."""
