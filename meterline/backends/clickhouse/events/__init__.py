"""Events in ClickHouse: list events, find one, find late ones."""
