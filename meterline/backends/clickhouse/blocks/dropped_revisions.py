"""`RevisionRows` on ClickHouse and chDB: rows of revisions that are not kept.

Rows in slices are deleted by a mutation: parts that have none of them are left alone. It is done
once for all revisions that are due, and months after the last of their rows was written.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from meterline.backends.clickhouse.blocks.upkeep import SETTINGS, rewritten
from meterline.backends.clickhouse.bounds import UPKEEP
from meterline.backends.clickhouse.connection import Connection
from meterline.usage import SliceId, SliceRows

_COUNTED: Final = ("tallies", "members", "rejected")  # by seals
TABLES: Final = (*_COUNTED, "late_tallies", "late_members")
# What other tables of blocks have of a revision is derived from these.
_BLOCKS: Final = ("hours", "member_hours")
_MINE: Final = "revision IN {revisions:Array(UInt32)}"


class ClickHouseRevisionRows:
    """See `meterline.usage.RevisionRows`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection.lane(UPKEEP)

    async def rows_by_slice(self, revision: int, after: SliceId, limit: int) -> list[SliceRows]:
        """See the port. All tables are ordered by revision, so only its rows are read."""
        counts = [
            f"SELECT log, partition, slice, {', '.join(_one(table))} FROM {table} FINAL"  # noqa: S608
            " WHERE revision = {revision:UInt32} AND (log, partition, slice)"
            " > ({log:UInt16}, {partition:UInt16}, {slice:UInt64})"
            " GROUP BY log, partition, slice"
            for table in _COUNTED
        ]
        sums = ", ".join(f"sum({table})" for table in _COUNTED)
        sql = (
            f"SELECT log, partition, slice, {sums} FROM ({' UNION ALL '.join(counts)})"  # noqa: S608
            f" GROUP BY log, partition, slice ORDER BY log, partition, slice LIMIT {limit}"
        )
        parameters = {"revision": revision, **after._asdict()}
        return [SliceRows(*row) for row in await self._asked(sql, parameters)]

    async def delete_rows(self, revisions: Collection[int]) -> bool:
        """See the port."""
        parameters = {"revisions": sorted(revisions)}
        some = False
        for table in TABLES:
            found = f"SELECT count() FROM {table} WHERE {_MINE}"  # noqa: S608
            sql = f"ALTER TABLE {table} DELETE WHERE {_MINE} SETTINGS mutations_sync = 2"
            some |= await rewritten(self._connection, table, found, sql, parameters)
        return some

    async def blocks_with(self, revisions: Collection[int]) -> Collection[int]:
        """See the port."""
        parts = [f"SELECT DISTINCT block FROM {table} WHERE {_MINE}" for table in _BLOCKS]  # noqa: S608
        rows = await self._asked(" UNION DISTINCT ".join(parts), {"revisions": sorted(revisions)})
        return {number for (number,) in rows}

    async def _asked(self, sql: str, parameters: dict[str, Any]) -> Sequence[Sequence[Any]]:
        return await self._connection.query(sql, parameters, SETTINGS)


def _one(table: str) -> list[str]:
    """The counts of a table, and nothing of the others."""
    return [f"{'count()' if name == table else 'toUInt64(0)'} AS {name}" for name in _COUNTED]
