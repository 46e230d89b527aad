"""Usage queries in ClickHouse."""
