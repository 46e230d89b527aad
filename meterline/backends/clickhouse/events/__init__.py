"""Events in ClickHouse: listed, found again, late ones."""
