"""What was inserted is no longer held by the client."""

import gc
import sys
from uuid import uuid4

from meterline.backends.clickhouse.store import ClickHouseUsageStore


async def test_rows_are_let_go_once_they_are_inserted(usage_store: ClickHouseUsageStore) -> None:
    """The client's own object of an insert refers to itself, so only the collector frees it."""
    connection, table = usage_store.connection, f"held_{uuid4().hex}"
    text = uuid4().bytes
    rows = [(number, text) for number in range(3)]
    await connection.execute(f"CREATE TABLE {table} (n UInt8, t String) ENGINE = Memory")
    gc.disable()
    try:
        before = sys.getrefcount(text)
        await connection.insert(table, ("n", "t"), rows)
        assert sys.getrefcount(text) == before
        assert await connection.query(f"SELECT count() FROM {table}", {}) == [(3,)]
    finally:
        gc.enable()
        await connection.execute(f"DROP TABLE {table}")
