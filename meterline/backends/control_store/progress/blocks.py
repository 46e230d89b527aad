"""`BlockLedger` over SQL: which blocks there are, and which of them are read."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Row,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.progress import filling
from meterline.backends.control_store.progress.erased import is_unsettled
from meterline.backends.control_store.progress.partitions.growth import partitions_of
from meterline.backends.control_store.progress.seal_sums import all_seals, append_ms_before
from meterline.backends.control_store.store import SqlStore, fetch_int, json_text, reads, writes
from meterline.backends.control_store.tables.blocks import blocks
from meterline.backends.control_store.tables.meters import logs, seal_sums, seals
from meterline.backends.control_store.tables.retention import retention_notices
from meterline.usage import (
    COUNTED_STATES,
    MINUTE_TABLES,
    Block,
    BlockState,
    Dropped,
    Seal,
    Stretches,
    dropped_of,
    may_be_made_again,
    may_be_readable,
    withdrawn,
)
from meterline.window import MINUTE_MS

_STRETCHES: Final = msgspec.json.Decoder(Stretches)
_ROWS: Final = msgspec.json.Decoder(dict[str, int])
# Put together once: it follows every answer. One in the making may be a record that a late
# statement wrote again: it has no rows.
_KEPT: Final = select(
    select(func.count())
    .select_from(blocks)
    .where(
        blocks.c.number.in_(bindparam("numbers", expanding=True)),
        blocks.c.state.in_(COUNTED_STATES),
    )
    .scalar_subquery(),
    select(func.coalesce(func.max(retention_notices.c.latest_ms), -1))
    .where(retention_notices.c.table_name.in_(MINUTE_TABLES))
    .scalar_subquery(),
)


class SqlBlockLedger(SqlStore):
    """See `meterline.usage.BlockLedger`."""

    @reads
    async def blocks(self, connection: Connection, log: int) -> list[Block]:
        """See the port."""
        return await blocks_of(connection, log)

    @reads
    async def alone(self, connection: Connection, log: int) -> bool:
        """See the port."""
        others = exists(select(logs.c.number).where(logs.c.number != log))
        return not (await connection.execute(select(others))).scalar_one()

    @writes
    async def begin(self, connection: Connection, block: Block) -> None:
        """See the port."""
        row = {
            "number": block.number,
            "log": block.log,
            "stretches": json_text(block.stretches),
            "revision_after": block.after,
            "revision_upto": block.upto,
            "begin_ms": block.begin_ms,
            "end_ms": block.end_ms,
            "state": BlockState.MAKING,
            "changed_at_ms": block.made_at_ms,
        }
        await connection.execute(insert(connection, blocks).values(row).on_conflict_do_nothing())

    @writes
    async def publish(
        self,
        connection: Connection,
        block: Block,
        rows: Mapping[str, int],
        sources: Collection[int],
        now_ms: int,
    ) -> bool:
        """See the port."""
        await filling.lock(connection, block.log)
        if await is_unsettled(connection):
            return False
        return await publish(connection, block, rows, sources, now_ms)

    @writes
    async def give_up(self, connection: Connection, numbers: Collection[int], now_ms: int) -> None:
        """See the port."""
        await _move(connection, numbers, BlockState.GONE, now_ms, unless=BlockState.READABLE)

    @reads
    async def kept(
        self, connection: Connection, numbers: Collection[int], dropped_before: int = 0
    ) -> bool:
        """See the port."""
        answer = await connection.execute(_KEPT, {"numbers": list(numbers)})
        count, latest_ms = answer.one()
        return bool(count == len(set(numbers)) and (latest_ms + 1) // MINUTE_MS <= dropped_before)

    @reads
    async def dropped_minutes(self, connection: Connection) -> tuple[Dropped, ...]:
        """See the port."""
        return dropped_of(await notices(connection))

    @writes
    async def forget(self, connection: Connection, numbers: Collection[int]) -> None:
        """See the port."""
        those = and_(blocks.c.number.in_(numbers), blocks.c.state == BlockState.GONE)
        await connection.execute(delete(blocks).where(those))

    @reads
    async def numbers(self, connection: Connection) -> set[int]:
        """See the port."""
        return set((await connection.execute(select(blocks.c.number))).scalars())

    @writes
    async def withdraw(
        self, connection: Connection, log: int, numbers: Collection[int], now_ms: int
    ) -> bool:
        """See the port."""
        await filling.lock(connection, log)  # whoever gives notice of minutes takes it, too
        there = await blocks_of(connection, log)
        gone = {*numbers, *withdrawn(there, numbers)}
        newest = await fetch_int(connection, select(func.coalesce(func.max(logs.c.number), 0)))
        dropped = dropped_of(await notices(connection)) if log == newest else ()
        read = (it for it in there if it.number in gone and it.state in COUNTED_STATES)
        if not all(may_be_made_again(it, dropped) for it in read):
            return False
        await _move(connection, gone, BlockState.GONE, now_ms)
        return True

    @reads
    async def sealed_after(
        self, connection: Connection, log: int, partition: int, offset: int, limit: int
    ) -> list[Seal]:
        """See the port."""
        return await all_seals(connection, log, partition, offset, limit)

    @reads
    async def late_kept_from(
        self, connection: Connection, log: int, ends: Mapping[int, int]
    ) -> int | None:
        """See the port."""
        for partition, end in ends.items():
            mine = seals.c.log == log, seals.c.partition == partition
            last = select(func.max(seals.c.slice)).where(*mine).scalar_subquery()
            those = or_(seals.c.slice >= end, seals.c.slice == last), seals.c.late.is_(None)
            without = exists(select(seals.c.slice).where(*mine, *those))
            if (await connection.execute(select(without))).scalar_one():
                return None
        return min([await append_ms_before(connection, log, *end) for end in ends.items()])

    @reads
    async def events_within(self, connection: Connection, log: int, stretches: Stretches) -> int:
        """See the port."""
        parts = [
            select(func.coalesce(func.sum(table.c.events), 0))
            .where(_within(table, log, stretches))
            .scalar_subquery()
            for table in (seals, seal_sums)
        ]
        return await fetch_int(connection, select(parts[0] + parts[1]))

    @reads
    async def lacking(
        self, connection: Connection, log: int, stretches: Stretches, revisions: Sequence[int]
    ) -> int | None:
        """See the port."""
        bounds = await filling.bounds(connection, log, revisions)
        for revision in revisions:
            behind = [
                it._replace(first=max(it.first, bounds.get((it.partition, revision), 0)))
                for it in stretches
            ]
            left = tuple(it for it in behind if it.first < it.end)
            if not left:
                continue
            those = filling.is_unfilled(log, revision), _within(seals, log, left)
            unfilled = exists(select(seals.c.slice).where(*those))
            if (await connection.execute(select(unfilled))).scalar_one():
                return revision
        return None


async def publish(
    connection: Connection,
    block: Block,
    rows: Mapping[str, int],
    sources: Collection[int],
    now_ms: int,
) -> bool:
    """Make a block readable. The caller holds the log's lock (`filling.lock`)."""
    there = await blocks_of(connection, block.log)
    partitions = await partitions_of(connection, block.log)
    if not may_be_readable(block, there, sources, partitions):
        return False
    made = update(blocks).where(
        blocks.c.number == block.number,
        blocks.c.state == BlockState.MAKING,  # whoever gives it up takes no turn
    )
    read = made.values(
        state=BlockState.READABLE, changed_at_ms=now_ms, row_counts=json_text(dict(rows))
    )
    if not (await connection.execute(read)).rowcount:
        return False
    await _move(connection, sources, BlockState.REPLACED, now_ms)
    return True


def _within(table: Table, log: int, stretches: Stretches) -> ColumnElement[bool]:
    """Whether a seal is of a slice in the stretches, or a sum of such seals."""
    # The log in each part: SQLite finds each by the key only if all of it is there.
    return or_(
        *(
            and_(
                table.c.log == log,
                table.c.partition == stretch.partition,
                table.c.slice >= stretch.first,
                table.c.slice < stretch.end,
            )
            for stretch in stretches
        )
    )


async def _move(
    connection: Connection,
    numbers: Collection[int],
    state: BlockState,
    now_ms: int,
    unless: BlockState | None = None,
) -> None:
    change = update(blocks).where(blocks.c.number.in_(numbers), blocks.c.state != state)
    if unless is not None:
        change = change.where(blocks.c.state != unless)
    await connection.execute(change.values(state=state, changed_at_ms=now_ms))


async def blocks_of(connection: Connection, log: int) -> list[Block]:
    """All blocks of a log that have a record, by number."""
    question = select(blocks).where(blocks.c.log == log).order_by(blocks.c.number)
    return [_block(row) for row in await connection.execute(question)]


def _block(row: Row[*tuple[Any, ...]]) -> Block:
    return Block(
        row.number,
        row.log,
        _STRETCHES.decode(row.stretches),
        row.revision_after,
        row.revision_upto,
        row.begin_ms,
        row.end_ms,
        BlockState(row.state),
        row.changed_at_ms,
        None if row.row_counts is None else _ROWS.decode(row.row_counts),
    )
