"""How logs are laid out, and how far they are with it. Functions over a connection of one
transaction.
"""

from collections.abc import Sequence

from sqlalchemy import Column, Table, func, select, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert, put
from meterline.backends.control_store.tables.meters import (
    completeness,
    flushed,
    log_growths,
    log_marks,
    logs,
    seal_sums,
    seals,
)
from meterline.event import Growth, Layout
from meterline.problem import conflict

_GROWTH = (log_growths.c.partitions_before, log_growths.c.partitions, log_growths.c.first_offset)


async def layout(connection: Connection, log: int) -> Layout:
    """See `ProgressStore.layout`."""
    growths = select(*_GROWTH).where(log_growths.c.log == log).order_by(log_growths.c.partitions)
    found = tuple(Growth._make(row) for row in await connection.execute(growths))
    return Layout(await partitions_of(connection, log), found)


async def partitions_of(connection: Connection, log: int) -> int:
    """How many partitions a log has; 0 where it is not known."""
    question = select(func.coalesce(func.max(logs.c.partitions), 0)).where(logs.c.number == log)
    return int((await connection.execute(question)).scalar_one())


async def begin(connection: Connection, log: int, wanted: Layout, now_ms: int) -> None:
    """See `ProgressStore.begin_growth`."""
    lock = select(logs.c.number).where(logs.c.number == log).with_for_update()
    await connection.execute(lock)
    growth, there = wanted.growths[-1], await layout(connection, log)
    if there.growths and there.partitions == wanted.partitions:
        return
    if there != Layout(growth.before, wanted.growths[:-1]):
        raise conflict(f"The log has {there.partitions} partitions now: ask again.")
    if there.uncounted(await marks(connection, log)):
        raise conflict("The log has not ended to get more partitions yet: wait until it has.")
    if growth.first <= await _counted_end(connection, log):
        raise conflict("Offsets of new partitions must be greater than all that are counted.")
    row = {
        "log": log,
        "partitions": growth.partitions,
        "partitions_before": growth.before,
        "first_offset": growth.first,
        "begun_ms": now_ms,
    }
    await put(connection, log_growths, [row])
    change = update(logs).where(logs.c.number == log).values(partitions=growth.partitions)
    await connection.execute(change)
    await _inherit(connection, completeness, log, growth)
    await _inherit(connection, flushed, log, growth, flushed.c.offset_end)


async def _counted_end(connection: Connection, log: int) -> int:
    """The greatest end of what is counted or sealed, of all partitions."""
    ends = []
    for of in (flushed.c, seals.c, seal_sums.c):
        question = select(func.coalesce(func.max(of.offset_end), 0)).where(of.log == log)
        ends.append(int((await connection.execute(question)).scalar_one()))
    return max(ends)


async def _inherit(
    connection: Connection,
    table: Table,
    log: int,
    growth: Growth,
    begins: Column[int] | None = None,
) -> None:
    """New partitions are as far as their parents are, or where they begin."""
    rows = (await connection.execute(select(table).where(table.c.log == log))).mappings().all()
    heirs = range(growth.before, growth.partitions)
    first = {} if begins is None else {begins.name: growth.first}
    made = [
        {**row, "partition": heir, **first}
        for row in rows
        for heir in heirs
        if heir % growth.before == row["partition"]
    ]
    if made:
        await put(connection, table, made)


async def pass_mark(
    connection: Connection, log: int, partition: int, partitions: int, offset: int
) -> None:
    """See `ProgressStore.pass_mark`."""
    names: Sequence[str] = log_marks.c.keys()
    row = dict(zip(names, (log, partition, partitions, offset), strict=True))
    await connection.execute(insert(connection, log_marks).values(row).on_conflict_do_nothing())


async def marks(connection: Connection, log: int) -> dict[tuple[int, int], int]:
    """See `ProgressStore.marks`."""
    of = log_marks.c
    question = select(of.partition, of.partitions, of.record_offset).where(of.log == log)
    rows = await connection.execute(question)
    return {(int(one), int(number)): int(offset) for one, number, offset in rows}
