"""The rows of a usage store, out and in, as lines of text: what archives are made of."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from meterline.backends.clickhouse.clients.lanes import Lane
from meterline.backends.clickhouse.connection import INSERT_SETTINGS, Connection
from meterline.backends.clickhouse.schema import TABLES_MADE

# Escaped, one row a line: it can be split anywhere, both engines stream it, and every type we have
# comes back as it was, bytes that are no text among them.
_FORM: Final = "TabSeparated"
LANE: Final = Lane("archive", 3, 1, form=_FORM)
_SETTINGS: Final[dict[str, Any]] = {"max_threads": 1, "max_block_size": 16_384}
_LOADING: Final[dict[str, Any]] = {**INSERT_SETTINGS, "max_partitions_per_insert_block": 0}
_NOT_KEPT: Final = frozenset({"installation"})  # the control store has the id
_COLUMNS: Final = """
SELECT table, name FROM system.columns
WHERE database = currentDatabase() AND default_kind NOT IN ('MATERIALIZED', 'ALIAS')
ORDER BY table, position"""
T = TypeVar("T")


class ClickHouseArchive:
    """All rows of a usage store that a moment of the control store speaks of."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lane = connection.lane(LANE)

    async def tables(self) -> dict[str, list[str]]:
        """The columns of each table; blocks come first, because they are dropped soonest."""
        found: dict[str, list[str]] = {}
        for table, name in await self._connection.servers[0].query(_COLUMNS, {}):
            if table in TABLES_MADE - _NOT_KEPT:
                found.setdefault(table, []).append(name)
        return dict(sorted(found.items(), key=lambda it: ("block" not in it[1], it[0])))

    async def rows(
        self,
        table: str,
        columns: Sequence[str],
        log: int,
        ends: Mapping[int, int],
        revision: int,
        blocks: Sequence[int],
        take: Callable[[bytes], T],
    ) -> AsyncGenerator[T, None]:
        """What `take` makes of the rows of a table, a piece of text after another. It is called in
        a thread. Of the log that is counted, slices below `ends` by partition; of meters, revisions
        up to one; of blocks, those named. Raises `Unavailable`.
        """
        bounds = {"log": log, "revision": revision, "blocks": list(blocks)}
        bounds["ends"] = [ends.get(number, 0) for number in range(max(ends, default=0) + 1)]
        conditions = []
        if "block" in columns:
            conditions.append("block IN {blocks:Array(UInt64)}")
        if "slice" in columns:
            # beyond the end of an array there is 0: nothing is sealed there
            sealed = "arrayElement({ends:Array(UInt64)}, toUInt32(partition) + 1)"
            conditions.append(f"(log != {{log:UInt16}} OR slice < {sealed})")
        if "revision" in columns:
            conditions.append("revision <= {revision:UInt32}")
        where = " AND ".join(conditions)
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {where}"  # noqa: S608 - our tables
        used = {name: value for name, value in bounds.items() if f"{{{name}:" in sql}
        async for made in self._lane.stream(sql, used, _SETTINGS, take):
            yield made

    async def put(self, table: str, columns: Sequence[str], lines: bytes) -> None:
        """Insert rows as `rows` gave them; whole lines. Raises `Unavailable`."""
        if "partition" not in columns:  # of a block: there they lie anywhere
            await self._load(self._lane, table, columns, lines)
            return
        at = columns.index("partition")
        rows = [lines] if len(self._lane.servers) == 1 else lines.split(b"\n")[:-1]
        for server, mine in await self._lane.by_server(rows, lambda row: int(row.split(b"\t")[at])):
            await self._load(server, table, columns, b"\n".join(mine))

    async def _load(
        self, server: Connection, table: str, columns: Sequence[str], lines: bytes
    ) -> None:
        settings = {**_LOADING, **server.always}
        await server.run(
            lambda client: client.raw_insert(table, list(columns), lines, settings, fmt=_FORM)
        )

    async def is_used(self) -> bool:
        """Whether any table has a row."""
        for table in sorted(TABLES_MADE):
            statement = f"SELECT 1 FROM {table} LIMIT 1"  # noqa: S608 - our tables
            if await self._connection.query(statement, {}):
                return True
        return False
