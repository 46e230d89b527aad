"""`UsageHoldings` and `UsagePeriods` on ClickHouse and chDB."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from meterline.backends.clickhouse.blocks.sql import BY_NAME
from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.usage import (
    EVENTS,
    MINUTE_TABLES,
    REJECTS,
    SEEN,
    Holdings,
    Life,
    Period,
    Reach,
)

_BY_PERIOD: Final = (EVENTS, REJECTS, SEEN, *MINUTE_TABLES)
_YEAR_CHARS: Final = 4  # of `2026`
_MONTH_CHARS: Final = 6  # of `202601`; a week is named by its Monday, as `20260105`

# Asked behind each answer: threads would cost more than they save.
_SETTINGS: Final = {"max_threads": 1}


class ClickHouseHoldings:
    """See `meterline.usage.integrity.UsageHoldings`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def holdings(
        self, log: int, slices: Mapping[int, int], after: Mapping[str, str]
    ) -> Holdings:
        """See the port."""
        parameters = {
            "log": log,
            "partitions": list(slices),
            "slices": list(slices.values()),
            "tables": list(after),
            "after": list(after.values()),
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
        ((server, up_s),) = found["life"].items()
        return Holdings(tuple(sorted(found["id"])), tables, accounts, blocks, Life(server, up_s))

    async def adopt(self, store_id: str) -> None:
        """See the port."""
        watch = PartWatch(self._connection, {"installation"})
        before = await watch.begin() if self._connection.embedded else 0
        await self._connection.execute("TRUNCATE TABLE installation")
        await self._connection.insert("installation", ("id",), [(store_id,)])
        if self._connection.embedded:
            await watch.end(before)


class ClickHousePeriods:
    """See `meterline.usage.UsagePeriods`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def periods(self) -> list[Period]:
        """See the port."""
        rows = await self._connection.query(QUERIES["periods"], {"tables": list(_BY_PERIOD)})
        return [Period(table, name, *period_bounds(name)) for table, name in rows]

    async def reach(self, period: Period, log: int) -> Reach:
        """See the port."""
        statement = QUERIES[f"reach_{period.table}"]
        rows = await self._connection.query(statement, {"period": period.name})
        ends = {partition: offset + 1 for of, partition, offset, _ in rows if of == log}
        return Reach(ends, max((latest_ms for *_, latest_ms in rows), default=0))

    async def drop(self, period: Period) -> None:
        """See the port."""
        assert period.table in _BY_PERIOD, "the others are not partitioned by time"
        # The server's own bound protects tables from hands; here the size was decided elsewhere.
        await self._connection.execute(
            f"ALTER TABLE {period.table} DROP PARTITION ID '{period.name}'"
            " SETTINGS max_partition_size_to_drop = 0"
        )


def period_bounds(name: str) -> tuple[int, int]:
    """The times of a partition, from its id: a year, a month, or a week from Monday on, of UTC."""
    if len(name) == _YEAR_CHARS:
        begin = datetime.strptime(name, "%Y").replace(tzinfo=UTC)
        end = begin.replace(year=begin.year + 1)
    elif len(name) == _MONTH_CHARS:
        begin = datetime.strptime(name, "%Y%m").replace(tzinfo=UTC)
        end = (begin + timedelta(days=31)).replace(day=1)
    else:
        begin = datetime.strptime(name, "%Y%m%d").replace(tzinfo=UTC)
        end = begin + timedelta(days=7)
    return int(begin.timestamp()) * 1_000, int(end.timestamp()) * 1_000
