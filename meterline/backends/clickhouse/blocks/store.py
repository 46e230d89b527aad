"""`BlockRows` on ClickHouse and chDB."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Any, Final

from meterline.backends.clickhouse.blocks import sql, upkeep
from meterline.backends.clickhouse.bounds import UPKEEP
from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import INSERT_SETTINGS, Connection
from meterline.limits import BLOCK_INSERT_ROWS
from meterline.usage import Block, Due, Erasure, Held, Masks, Unsealed

SETTINGS: Final[dict[str, Any]] = {**upkeep.SETTINGS, "optimize_aggregation_in_order": 1}
_WRITE: Final[dict[str, Any]] = {
    **SETTINGS,
    **INSERT_SETTINGS,
    "max_insert_threads": 1,
    "max_insert_block_size": BLOCK_INSERT_ROWS,
    "min_insert_block_size_rows": BLOCK_INSERT_ROWS,
    "min_insert_block_size_bytes": 0,
}
NAMES: Final = tuple(table.name for table in sql.TABLES)
_COUNTS: Final = (
    "SELECT toUInt64(partition), table, sum(rows) FROM system.parts"
    " WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)}"
    " GROUP BY partition, table"
)


class ClickHouseBlockRows:
    """See `meterline.usage.BlockRows`. Blocks are made without what the masks hide, and without
    revisions that are not kept; with an erasure of others under its pseudonym.
    """

    def __init__(
        self,
        connection: Connection,
        masks: Masks | None = None,
        erasure: Erasure | None = None,
        unsealed: Unsealed | None = None,
    ) -> None:
        self._connection = connection.lane(UPKEEP)
        self._masks = masks
        self._erasure = erasure
        self._unsealed = unsealed
        self._parts = PartWatch(connection, NAMES) if connection.embedded else None

    async def make(self, block: Block, sources: Sequence[int]) -> None:
        """See the port. On disk as a whole on return; of chDB it is looked at that it is."""
        async with self._whole():
            left = await self._left()
            for table in sql.TABLES:
                made = self._statement(block, sources, table, left)
                await self._write(f"meterline-{block.number}-{table.name}", *made)

    async def _left(self) -> sql.Left:
        """Which rows are not read, from now on or longer."""
        hidden = () if self._masks is None else await self._masks.all()
        revisions = () if self._unsealed is None else await self._unsealed.revisions()
        return sql.Left(hidden, revisions)

    def _statement(
        self, block: Block, sources: Sequence[int], table: sql.Table, left: sql.Left
    ) -> tuple[str, dict[str, Any]]:
        if sources and self._erasure is not None:
            return sql.renewed_statement(block.number, sources, table, self._erasure)
        if sources:
            return sql.merged_statement(block.number, sources, table, left)
        if table in (sql.HOURS, sql.MEMBER_HOURS):
            return sql.made_statement(block, table, left)
        return sql.derived_statement(block.number, table)

    async def due(self, block: Block, sources: Sequence[int]) -> Due:
        """See the port."""
        left = await self._left()
        of_all = dict(await self._asked(*sql.due_of_all(block.number, left)))
        if sources:
            found = await self._asked(*sql.due_of_sources(sources, self._erasure, left))
            weights = {name: weight for name, _, weight in found}
            return Due(weights | of_all, rows={name: rows for name, rows, _ in found})
        of_tallies = sql.due_statement(block, members=False, left=left)
        ((tallies, hours, days),) = await self._asked(*of_tallies)
        of_members = sql.due_statement(block, members=True, left=left)
        ((members, by_hour, by_day),) = await self._asked(*of_members)
        ((events,),) = await self._asked(*sql.due_of_slices(block))
        weights = {"hours": hours, "days": days, "member_hours": by_hour, "member_days": by_day}
        return Due(weights | of_all, tallies, members, events)

    async def held(self, number: int) -> Mapping[str, Held]:
        """See the port."""
        rows = await self._asked(*sql.held_statement(number, await self._left()))
        return {name: Held(*counts) for name, *counts in rows}

    async def recount(self, block: Block) -> Mapping[str, int]:
        """See the port."""
        digests, left = {}, await self._left()
        for table in sql.TABLES:
            base = sql.base_of(table)
            if base is table:
                statement = sql.recount_statement(block, table, left)
                ((digests[table.name],),) = await self._asked(*statement)
            else:
                digests[table.name] = digests[base.name]
        return digests

    async def drop(self, numbers: Collection[int]) -> None:
        """See the port. Dropping a partition that is not there is no error."""
        for number in numbers:
            for server, name in product(self._connection.servers, NAMES):
                await server.execute(
                    f"ALTER TABLE {name} DROP PARTITION {int(number)}"
                    " SETTINGS max_partition_size_to_drop = 0"
                )

    async def counts(self) -> Mapping[int, Mapping[str, int]]:
        """See the port."""
        found: dict[int, dict[str, int]] = defaultdict(dict)
        for server in self._connection.servers:
            for number, table, rows in await server.query(_COUNTS, {"tables": [*NAMES]}, SETTINGS):
                found[number][table] = found[number].get(table, 0) + rows
        return found

    async def _asked(self, statement: str, parameters: dict[str, Any]) -> Any:
        return await self._connection.query(statement, parameters, SETTINGS)

    async def _write(self, name: str, statement: str, parameters: dict[str, Any]) -> None:
        """A server does not run two statements of one name at once: so the second one finds what
        the first wrote, and writes nothing. chDB has no names, and nobody sends it one twice.
        """
        named = {**_WRITE, "query_id": name}
        await self._connection.insert_selected(statement, parameters, named)

    @asynccontextmanager
    async def _whole(self) -> AsyncIterator[None]:
        before = 0 if self._parts is None else await self._parts.begin()
        yield
        if self._parts is not None:
            await self._parts.end(before)
