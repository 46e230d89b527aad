"""`ErasedRows` on ClickHouse and chDB.

Rows of cells are copied and then deleted, since the subject is a part of their identity. Raw
events, refused events and rejected values are rewritten where they lie. Both are mutations: parts
that have none of the rows are left alone.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from meterline.backends.clickhouse.blocks import erasure_sql as sql
from meterline.backends.clickhouse.blocks.upkeep import SETTINGS, counted, rewritten, run
from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import INSERT_SETTINGS, Connection
from meterline.backends.clickhouse.named_sql import TABLES
from meterline.ports import Unavailable
from meterline.usage import Erasure

_Place = tuple[int, int, int, int]
_BLOCKS: Final = tuple(
    name for name, text in TABLES.items() if "PARTITION BY block" in text and " subject " in text
)
_COPY: Final[dict[str, Any]] = {
    **SETTINGS,
    **INSERT_SETTINGS,
    "max_partitions_per_insert_block": 0,  # one for each month that the subject has usage in
}
_REWRITTEN: Final = (*sql.REDACTIONS, *sql.DELETIONS)
_NOTED: Final = """SELECT count() FROM system.mutations
WHERE database = currentDatabase() AND table IN {tables:Array(String)} AND is_done"""
_FORGET: Final = (
    "KILL MUTATION WHERE database = currentDatabase() AND table IN ({}) AND is_done SYNC"
)


class ClickHouseErasedRows:
    """See `meterline.usage.ErasedRows`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._parts = PartWatch(connection, sql.CELLS) if connection.embedded else None

    async def copy(self, erasure: Erasure) -> None:
        """See the port. On disk as a whole on return; of chDB it is looked at that it is."""
        parameters = sql.parameters_of(erasure)
        async with self._whole():
            for table in sql.CELLS:
                await run(self._connection, sql.copy_statement(table), parameters, _COPY)
        for table in sql.CELLS:
            ((rows, digest, copies, copied),) = await self._asked(
                sql.compared_statement(table), parameters
            )
            if (rows, digest) != (copies, copied):
                raise Unavailable(
                    f"usage store: {table} has {rows} rows to be erased, and {copies} copies"
                )

    async def refusals_of(
        self, erasure: Erasure, redriven: Sequence[tuple[_Place, str, str]]
    ) -> list[_Place]:
        """See the port."""
        if not redriven:
            return []
        parameters = sql.parameters_of(erasure)
        places = [place for place, _, _ in redriven]
        identities = [(source, id_) for _, source, id_ in redriven]
        rows = await self._asked(sql.REFUSALS, {**parameters, "places": places})
        sent = await self._asked(sql.SENT, {**parameters, "identities": identities})
        known, of_it = {tuple(row) for row in sent}, {tuple(row) for row in rows}
        return [
            place for place, *identity in redriven if place in of_it or tuple(identity) in known
        ]

    async def redact(self, erasure: Erasure) -> None:
        """See the port."""
        await self._rewrite(sql.REDACTIONS, erasure)

    async def delete(self, erasure: Erasure) -> None:
        """See the port."""
        await self._rewrite(sql.DELETIONS, erasure)

    async def blocks_with(self, erasure: Erasure) -> Collection[int]:
        """See the port."""
        rows = await self._asked(sql.blocks_statement(_BLOCKS), sql.parameters_of(erasure))
        return {number for (number,) in rows}

    async def forget(self) -> None:
        """See the port. What a mutation did is kept in a file of its table, with its condition."""
        if await counted(self._connection, _NOTED, {"tables": list(_REWRITTEN)}):
            tables = ", ".join(f"'{table}'" for table in _REWRITTEN)
            for server in self._connection.servers:
                await server.execute(_FORGET.format(tables))

    async def _rewrite(self, what: Mapping[str, tuple[str, str]], erasure: Erasure) -> None:
        parameters = sql.parameters_of(erasure)
        for table, (where, change) in what.items():
            found, mutation = sql.found_statement(table, where), sql.mutation(table, where, change)
            await rewritten(self._connection, table, found, mutation, parameters)

    async def _asked(self, statement: str, parameters: dict[str, Any]) -> Any:
        return await self._connection.query(statement, parameters, SETTINGS)

    @asynccontextmanager
    async def _whole(self) -> AsyncIterator[None]:
        before = 0 if self._parts is None else await self._parts.begin()
        yield
        if self._parts is not None:
            await self._parts.end(before)
