"""Clients of ClickHouse: how they reach a server, and what they read a piece at a time."""
