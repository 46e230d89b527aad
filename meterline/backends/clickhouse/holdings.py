"""`UsageHoldings` and `UsagePeriods` on ClickHouse and chDB."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from meterline.backends.clickhouse.blocks.sql import BY_NAME
from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import Connection, Rows
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.usage.slices import slices_from
from meterline.usage import (
    BY_PERIOD,
    NEWEST_SLICES,
    Holdings,
    Life,
    Period,
    Reach,
    id_of,
    store_of,
)

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
        servers = self._connection.servers
        asked = [server.query(QUERIES["holdings"], parameters, _SETTINGS) for server in servers]
        found = [_found(rows) for rows in await asyncio.gather(*asked)]
        ids = [sorted(of_server["id"]) for of_server in found]
        await self._connection.check_whole(ids)
        tables: dict[str, int] = defaultdict(int)
        blocks: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for name, rows in _pairs(found, "rows"):
            table, _, partition = name.partition(" ")
            tables[table] += rows
            if table in BY_NAME:
                blocks[int(partition)][table] += rows
        accounts = {(int(partition), slice_) for partition, slice_ in _pairs(found, "account")}
        lives = list(_pairs(found, "life"))
        life = Life(", ".join(of for of, _ in lives), min(up_s for _, up_s in lives))
        return Holdings(store_of(ids), tables, accounts, blocks, life)

    async def newest(self, log: int, after: Mapping[int, int]) -> dict[int, list[int]]:
        """See `meterline.usage.NewestSlices`."""
        parameters = {"log": log, "most": NEWEST_SLICES}
        behind = slices_from({number: last + 1 for number, last in after.items()})
        question = QUERIES["newest_slices"].replace("{wanted}", behind)
        found: dict[int, list[int]] = defaultdict(list)
        for server in self._connection.servers:
            for partition, slice_ in await server.query(question, parameters):
                found[partition].append(slice_)
        return found

    async def revision_above(self, revision: int) -> int | None:
        """See `meterline.usage.NewestRevision`."""
        parameters = {"revision": revision}
        servers = self._connection.servers
        asked = [server.query(QUERIES["newest_revision"], parameters) for server in servers]
        newest = max(rows[0][0] for rows in await asyncio.gather(*asked))
        return newest if newest > revision else None

    async def adopt(self, store_id: str) -> None:
        """See the port."""
        for server in self._connection.servers:
            await server.execute("TRUNCATE TABLE installation")
        await self.name(store_id)

    async def name(self, store_id: str) -> None:
        """See the port."""
        servers = self._connection.servers
        watch = PartWatch(self._connection, {"installation"})
        before = await watch.begin() if self._connection.embedded else 0
        for number, server in enumerate(servers):
            known_by = id_of(store_id, number, len(servers))
            await server.insert_selected(QUERIES["name_store"], {"id": known_by}, {})
        if self._connection.embedded:
            await watch.end(before)

    async def name_servers(self, store_id: str) -> None:
        """Servers were added: each is known by the id of the store, its number, and how many they
        are. A process that knows of fewer finds another id from now on.
        """
        servers = self._connection.servers
        # The last one first, and a new id before the old one goes: wherever this ends early, as at
        # a full disk, the ids that are there still tell the store.
        for number in reversed(range(len(servers) if len(servers) > 1 else 0)):
            server, known_by = servers[number], id_of(store_id, number, len(servers))
            there = {one for (one,) in await server.query("SELECT id FROM installation", {})}
            if known_by not in there:
                await server.insert("installation", ("id",), [(known_by,)])
            if there - {known_by}:
                await server.execute(
                    f"ALTER TABLE installation DELETE WHERE id != '{known_by}'"
                    " SETTINGS mutations_sync = 2"
                )


class ClickHousePeriods:
    """See `meterline.usage.UsagePeriods`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def periods(self) -> list[Period]:
        """See the port."""
        found: set[tuple[str, str]] = set()
        for server in self._connection.servers:
            rows = await server.query(QUERIES["periods"], {"tables": list(BY_PERIOD)})
            found |= {(table, name) for table, name in rows}
        return [Period(table, name, *period_bounds(name)) for table, name in sorted(found)]

    async def reach(self, period: Period, log: int) -> Reach:
        """See the port."""
        statement = QUERIES[f"reach_{period.table}"]
        rows = await self._connection.query(statement, {"period": period.name})
        ends = {partition: offset + 1 for of, partition, offset, _ in rows if of == log}
        return Reach(ends, max((latest_ms for *_, latest_ms in rows), default=0))

    async def drop(self, period: Period) -> None:
        """See the port."""
        assert period.table in BY_PERIOD, "the others are not partitioned by time"
        # The server's own bound protects tables from hands; here the size was decided elsewhere.
        for server in self._connection.servers:
            await server.execute(
                f"ALTER TABLE {period.table} DROP PARTITION ID '{period.name}'"
                " SETTINGS max_partition_size_to_drop = 0"
            )


def _found(rows: Rows) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for what, name, number in rows:
        found[what][name] = number
    return found


def _pairs(found: Sequence[Mapping[str, Mapping[str, int]]], what: str) -> list[tuple[str, int]]:
    return [pair for of_server in found for pair in of_server.get(what, {}).items()]


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
