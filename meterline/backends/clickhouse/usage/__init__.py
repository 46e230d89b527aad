"""Usage questions in ClickHouse."""
