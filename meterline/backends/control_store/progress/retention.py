"""`RetentionLedger` over SQL: notices of what the usage store does not keep."""

from collections.abc import Mapping
from functools import partial

from sqlalchemy import delete, exists, func, select, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.meters.rows import folded, take_turn
from meterline.backends.control_store.progress import filling
from meterline.backends.control_store.progress.blocks import blocks_of
from meterline.backends.control_store.progress.partitions.growth import marks, partitions_of
from meterline.backends.control_store.progress.seal_sums import first_seals
from meterline.backends.control_store.store import SqlStore, fetch_int, read_by, reads, writes
from meterline.backends.control_store.tables.meters import (
    catalogue_version,
    fill_marks,
    logs,
    seal_sums,
    seals,
)
from meterline.backends.control_store.tables.reports import late_looks, reports
from meterline.backends.control_store.tables.retention import retention_notices
from meterline.limits import BLOCK_SLICES_MAX
from meterline.usage import (
    EVENTS,
    MINUTE_TABLES,
    Borders,
    Notice,
    Period,
    Reach,
    SealedEnd,
    borders,
    columns_of,
    kept_of,
    late_from_ms,
    next_sum,
    summed,
    why_minutes_stay,
)

_notices = retention_notices.c


class SqlRetention(SqlStore):
    """See `meterline.usage.RetentionLedger`."""

    notices = read_by(notices)

    @reads
    async def sealed_ends(self, connection: Connection, log: int) -> dict[int, SealedEnd]:
        """See the port."""
        found = {}
        for partition in range(await partitions_of(connection, log)):
            last = (
                select(seals.c.offset_end, seals.c.append_ms)
                .where(seals.c.log == log, seals.c.partition == partition)
                .order_by(seals.c.slice.desc())
                .limit(1)
            )
            row = (await connection.execute(last)).one_or_none()
            if row is not None:
                found[partition] = SealedEnd(row.offset_end, row.append_ms)
        return found

    @writes
    async def give_notice(
        self, connection: Connection, period: Period, reach: Reach, log: int, now_ms: int
    ) -> Notice | str:
        """See the port."""
        await take_turn(connection)  # a revision comes before this, and is filled, or after it
        before_ms, latest_ms = period.to_ms, reach.latest_ms
        if period.table in MINUTE_TABLES:
            need = await _minutes_needed(connection, period, reach.ends, log)
            before_ms, latest_ms = await _whole_slices_from(connection, period), period.to_ms - 1
        else:
            need = await _needed(connection, period, reach.ends, log)
        if need is not None:
            return need
        catalogue = await fetch_int(connection, select(catalogue_version.c.version))
        notice = Notice(period.table, period.name, before_ms, latest_ms, catalogue, now_ms)
        row = dict(zip(retention_notices.c.keys(), notice, strict=True))
        await connection.execute(
            insert(connection, retention_notices).values(row).on_conflict_do_nothing()
        )
        stands = select(retention_notices).where(
            _notices.table_name == period.table, _notices.period == period.name
        )
        return Notice._make((await connection.execute(stands)).one())

    @writes
    async def begin_drop(
        self, connection: Connection, period: Period, reach: Reach, log: int, now_ms: int
    ) -> bool:
        """See the port. Of other tables nothing is made again, so nothing is recorded."""
        if period.table not in MINUTE_TABLES:
            return True
        await take_turn(connection)
        if await _minutes_needed(connection, period, reach.ends, log) is not None:
            return False
        mine = _notices.table_name == period.table, _notices.period == period.name
        begun = update(retention_notices).where(*mine, _notices.begun_at_ms.is_(None))
        await connection.execute(begun.values(begun_at_ms=now_ms))
        return True

    async def sum_seals(self, log: int, before_ms: int, limit: int) -> int:
        """See the port."""
        made = count = 0
        partitions = await self.database.read(partial(partitions_of, log=log))
        for partition in range(partitions):
            while made < limit:
                added = await self.database.write(
                    partial(_sum_next, log=log, partition=partition, before_ms=before_ms)
                )
                if not added:
                    break
                made, count = made + 1, count + added
        return count


async def _needed(
    connection: Connection, period: Period, ends: Mapping[int, int], log: int
) -> str | None:
    """Why events of a period must be kept for now."""
    if period.table != EVENTS:
        return None
    live = folded.subquery("live")
    for partition in range(await partitions_of(connection, log)):
        lacking = filling.unfilled(log, partition, live.c.revision).with_only_columns(seals.c.slice)
        question = select(live.c.key).where(
            lacking.where(seals.c.append_ms < period.to_ms).exists()
        )
        meter = (await connection.execute(question.limit(1))).scalar_one_or_none()
        if meter is not None:
            return f"the meter {meter} is being filled from them"
    looked = await _looked(connection, log)
    if looked is not None and any(looked.get(n, 0) < end for n, end in ends.items()):
        return "late usage was not looked for in them yet; is a dispatcher running?"
    return None


async def _minutes_needed(
    connection: Connection, period: Period, ends: Mapping[int, int], log: int
) -> str | None:
    """Why minutes of a period must be kept for now. Nobody withdraws a block meanwhile."""
    await filling.lock(connection, log)
    live = folded.subquery("live")
    revisions = (await connection.execute(select(live.c.revision))).scalars().all()
    columns = columns_of(await blocks_of(connection, log))
    others = exists(select(logs.c.number).where(logs.c.number != log))
    alone = not (await connection.execute(select(others))).scalar_one()
    return why_minutes_stay(period.to_ms, ends, columns, revisions, alone=alone)


async def _whole_slices_from(connection: Connection, period: Period) -> int:
    """Slices that were appended at this instant or later have all their rows of a period, if any,
    a second time, along the log.
    """
    last = [
        select(func.coalesce(func.max(table.c.append_ms), -1))
        .where(table.c.late.is_(None))
        .scalar_subquery()
        for table in (seals, seal_sums)
    ]
    without = (await connection.execute(select(*last))).one()
    return max(late_from_ms(period.to_ms), *(int(at_ms) + 1 for at_ms in without))


async def _looked(connection: Connection, log: int) -> dict[int, int] | None:
    """By partition, up to where late usage was looked for; None where no report needs it."""
    reported = exists(select(reports.c.id).where(reports.c.deleted_at_ms.is_(None)))
    if not (await connection.execute(select(reported))).scalar_one():
        return None
    ends = select(late_looks.c.partition, late_looks.c.looked_end).where(late_looks.c.log == log)
    return {row.partition: row.looked_end for row in await connection.execute(ends)}


async def _sum_next(connection: Connection, log: int, partition: int, before_ms: int) -> int:
    """Replace the next seals of a partition by their sum; how many. Nobody makes or withdraws a
    block meanwhile, and nobody seals.
    """
    await filling.lock(connection, log)
    within = await _borders(connection, log, partition, before_ms)
    # One more than a sum may have of them, and the last one, which stays.
    first = await first_seals(connection, log, partition, 0, BLOCK_SLICES_MAX + 2)
    taken = next_sum(first, within)
    if not taken:
        return 0
    one = summed(taken)
    row = dict(zip(seal_sums.c.keys(), one, strict=True))
    await connection.execute(insert(connection, seal_sums).values(row))
    for table in (seals, fill_marks):
        mine = table.c.log == log, table.c.partition == partition, table.c.slice < one.end
        await connection.execute(delete(table).where(*mine))
    return len(taken)


async def _borders(connection: Connection, log: int, partition: int, before_ms: int) -> Borders:
    events = kept_of(await notices(connection)).get(EVENTS)
    if events is None:
        return Borders()
    live = folded.subquery("live")
    revisions = (await connection.execute(select(live.c.revision))).scalars().all()
    columns = columns_of(await blocks_of(connection, log))
    within = borders(columns, revisions, partition, min(before_ms, events.from_ms))
    passed = await marks(connection, log)
    within = within.parted(mark for (number, _), mark in passed.items() if number == partition)
    looked = await _looked(connection, log)
    if looked is None:
        return within
    end_max = looked.get(partition, 0)
    return within._replace(ends=tuple(min(end, end_max) for end in within.ends))
