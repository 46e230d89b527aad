"""The embedded engine keeps no more than it is told to."""

from meterline.backends.clickhouse.connection import Connection
from meterline.limits import ENGINE_CACHE_BYTES


async def test_each_cache_has_its_bound(chdb_url: str) -> None:
    connection = Connection(chdb_url)
    asked = (
        "SELECT name, toUInt64(value) FROM system.server_settings"
        " WHERE name IN {names:Array(String)}"
    )
    rows = await connection.query(asked, {"names": [name for name, _ in ENGINE_CACHE_BYTES]})
    assert sorted(map(tuple, rows)) == sorted(ENGINE_CACHE_BYTES)
    await connection.close()
