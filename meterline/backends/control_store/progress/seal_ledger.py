"""`SealLedger` over SQL: which usage store is counted into, and what its sealed slices wrote."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import and_, case, delete, exists, func, literal, or_, select, union_all, update
from sqlalchemy.sql import ColumnElement, Select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.progress.erasures import begin_again
from meterline.backends.control_store.progress.seal_sums import seal_rows
from meterline.backends.control_store.store import SqlStore, fetch_int, reads, writes
from meterline.backends.control_store.tables.blocks import blocks
from meterline.backends.control_store.tables.meters import (
    completeness,
    fill_bounds,
    fill_marks,
    flushed,
    logs,
    seal_sums,
    seals,
    slice_differences,
    usage_store,
)
from meterline.backends.control_store.tables.retention import (
    retention_notices,
    revision_notices,
)
from meterline.usage import (
    COUNTED_STATES,
    EVENTS,
    MEMBERS,
    MINUTE_TABLES,
    REJECTS,
    SEEN,
    TALLIES,
    Kept,
    Sealed,
    SealedRows,
    kept_of,
)

# Members of `SealedRows` in their order: the table of the usage store, and its rows in a seal.
_SUMMED = (
    (EVENTS, "events"),
    (REJECTS, "rejects"),
    (TALLIES, "tallies"),
    (MEMBERS, "members"),
    ("rejected", "rejected"),
    (SEEN, "events"),
)
_OF_ONE_STORE = (
    seals,
    seal_sums,
    fill_bounds,
    fill_marks,
    completeness,
    flushed,
    blocks,
    slice_differences,
    retention_notices,
)
_ROWS: Final = msgspec.json.Decoder(dict[str, int])
_ID = select(usage_store.c.id)
_UNSEALED: Final = (
    select(func.count())
    .select_from(revision_notices)
    .where(revision_notices.c.lessened_at_ms.is_not(None))
)


class SqlSealLedger(SqlStore):
    """See `meterline.usage.integrity.SealLedger`."""

    @reads
    async def sealed(self, connection: Connection, log: int, after: Mapping[int, int]) -> Sealed:
        """See the port."""
        kept = kept_of(await notices(connection))
        # Before the seals: of what is lessened in between, all are read again then.
        unsealed = await fetch_int(connection, _UNSEALED)
        # One statement, so that no seal is read both by itself and in a sum, or not at all.
        all_ = union_all(*(_behind(rows, log, after) for rows in seal_rows())).subquery("sealed")
        question = select(
            all_.c.partition,
            func.max(all_.c.slice),
            func.sum(all_.c.slices),
            *(func.sum(_of_kept(table, all_.c, name, kept)) for table, name in _SUMMED),
        ).group_by(all_.c.partition)
        store_id = (await connection.execute(_ID)).scalar_one_or_none()
        rows = await connection.execute(question)
        sums = [SealedRows._make(map(int, row)) for row in rows]
        counted = select(blocks.c.number, blocks.c.row_counts).where(
            blocks.c.log == log,
            blocks.c.state.in_(COUNTED_STATES),
        )
        read = {
            row.number: _ROWS.decode(row.row_counts) for row in await connection.execute(counted)
        }
        return Sealed(store_id, sums, read, kept, unsealed)

    @reads
    async def counted(self, connection: Connection) -> bool:
        """See the port."""
        question = select(exists().where(flushed.c.offset_end > 0) | exists(select(seals.c.slice)))
        return bool((await connection.execute(question)).scalar_one())

    @reads
    async def knows_log(self, connection: Connection, log_id: str | None = None) -> bool:
        """Whether this log, or any log at all, was registered here."""
        where = literal(value=True) if log_id is None else logs.c.id == log_id
        question = select(exists(select(logs.c.number).where(where)))
        return bool((await connection.execute(question)).scalar_one())

    @writes
    async def bind(self, connection: Connection, store_id: str, lost: str | None = None) -> str:
        """See the port."""
        if lost is not None:
            change = update(usage_store).where(usage_store.c.id == lost).values(id=store_id)
            if (await connection.execute(change)).rowcount:
                for table in _OF_ONE_STORE:
                    await connection.execute(delete(table))
                await begin_again(connection)
        row = {"one": 1, "id": store_id}
        await connection.execute(
            insert(connection, usage_store).values(row).on_conflict_do_nothing()
        )
        kept: str = (await connection.execute(_ID)).scalar_one()
        return kept


def _behind(rows: Select[Any], log: int, after: Mapping[int, int]) -> Select[Any]:
    """Those of a log, behind the slices named, and of partitions that it got since."""
    those = rows.selected_columns
    if not after:
        return rows.where(those.log == log)
    # The log in each part: SQLite finds each by the key only if all of it is there.
    parts = [
        and_(those.log == log, those.partition == partition, those.slice > slice_)
        for partition, slice_ in sorted(after.items())
    ]
    newer = and_(those.log == log, those.partition > max(after))
    return rows.where(or_(*parts, newer))


def _of_kept(
    table: str, those: ReadOnlyColumnCollection[str, Any], name: str, kept: Mapping[str, Kept]
) -> ColumnElement[int]:
    """The rows of slices in a table, 0 where some of them are not kept. Of usage by minute, at
    least so many: late rows may not be kept, of whatever table.
    """
    rows: ColumnElement[int] = those[name]
    if table not in kept:
        return rows
    is_kept = those.begin_ms >= kept[table].from_ms
    if table in MINUTE_TABLES:
        is_kept, rows = and_(is_kept, rows > those.late), rows - those.late
    return case((is_kept, rows), else_=0)
