"""`UsageHoldings` on ClickHouse and chDB."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from meterline.backends.clickhouse.blocks.sql import BY_NAME
from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.usage import Holdings

# Asked behind each answer: threads would cost more than they save.
_SETTINGS: Final = {"max_threads": 1}


class ClickHouseHoldings:
    """See `meterline.usage.integrity.UsageHoldings`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def holdings(self, log: int, slices: Mapping[int, int]) -> Holdings:
        """See the port."""
        parameters = {
            "log": log,
            "partitions": list(slices),
            "slices": list(slices.values()),
        }
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for what, name, number in await self._connection.query(
            QUERIES["holdings"], parameters, _SETTINGS
        ):
            found[what][name] = number
        tables: dict[str, int] = defaultdict(int)
        blocks: dict[int, dict[str, int]] = defaultdict(dict)
        for name, rows in found["rows"].items():
            table, _, partition = name.partition(" ")
            tables[table] += rows
            if table in BY_NAME:
                blocks[int(partition)][table] = rows
        accounts = {(int(partition), slice_) for partition, slice_ in found["account"].items()}
        return Holdings(tuple(sorted(found["id"])), tables, accounts, blocks)

    async def adopt(self, store_id: str) -> None:
        """See the port."""
        watch = PartWatch(self._connection, {"installation"})
        before = await watch.begin() if self._connection.embedded else 0
        await self._connection.execute("TRUNCATE TABLE installation")
        await self._connection.insert("installation", ("id",), [(store_id,)])
        if self._connection.embedded:
            await watch.end(before)
