"""Real Kafka, ClickHouse and PostgreSQL for the tests: a URL given, a container, or a process.

`python -m tests.services` starts all three and prints their URLs; `choose.open_service` is what the
fixtures of `tests/conftest.py` call.
"""
