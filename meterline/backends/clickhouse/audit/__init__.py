"""Recounts in ClickHouse."""
