"""Blocks in ClickHouse: their rows are made, merged, counted back and dropped."""
