"""Adapters: the only code that calls an external product (Kafka, ClickHouse, SQLite, ...)."""
