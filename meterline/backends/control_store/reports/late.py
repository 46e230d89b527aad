"""LateStore over SQL: how far the log was looked at, and the windows that late events touch."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Row, and_, func, or_, select, tuple_, update
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.reports.definitions import BAD_ROW, locked, report_of
from meterline.backends.control_store.reports.requests import revise
from meterline.backends.control_store.reports.run_rows import counted_of, same_window
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_int,
    read_by,
    reads,
    value_of,
    writes,
)
from meterline.backends.control_store.tables.meters import logs, seals
from meterline.backends.control_store.tables.reports import (
    late_looks,
    late_windows,
    report_runs,
    reports,
)
from meterline.limits import LATE_SLICES_MAX, LATE_WINDOWS_MARKED_MAX, PLAN_FAILED_REST_MS
from meterline.report import (
    UNDECIDED,
    DecidedWindow,
    LateWindow,
    LogEnds,
    ReportState,
    Run,
    Unreadable,
)
from meterline.usage import Stretch
from meterline.window import DAY_MS

_runs = report_runs.c
_windows = late_windows.c


async def _looked(connection: Connection, log: int) -> dict[int, int]:
    """By partition, up to where the log was looked at."""
    question = select(late_looks.c.partition, late_looks.c.looked_end).where(
        late_looks.c.log == log
    )
    return {int(row.partition): int(row.looked_end) for row in await connection.execute(question)}


class SqlLateStore(SqlStore):
    """See `meterline.report.LateStore`."""

    looked = read_by(_looked)

    @reads
    async def unlooked(
        self, connection: Connection, log: int, partitions: int, events_max: int
    ) -> list[Stretch]:
        """See the port."""
        looked = await _looked(connection, log)
        registered = select(func.coalesce(func.max(logs.c.partitions), 0)).where(
            logs.c.number == log
        )
        there = max(partitions, await fetch_int(connection, registered))
        found = []
        for partition in range(there):
            first = looked.get(partition, 0)
            end = await _sealed_end(connection, (log, partition), first, events_max)
            if end is not None:
                found.append(Stretch(partition, first, end))
        return found

    @writes
    async def begin_look(self, connection: Connection, log: int, ends: Mapping[int, int]) -> None:
        """See the port."""
        # Runs that are being decided hold it shared: they come before this, and are found, or
        # after it, and see it.
        lock = select(logs.c.number).where(logs.c.number == log).with_for_update()
        await connection.execute(lock)
        await _put(connection, log, ends, "begun_end")

    @writes
    async def end_look(self, connection: Connection, log: int, ends: Mapping[int, int]) -> None:
        """See the port."""
        await _put(connection, log, ends, "looked_end")

    @reads
    async def reported_meters(self, connection: Connection) -> set[str]:
        """See the port."""
        question = select(reports.c.meter_id).where(reports.c.deleted_at_ms.is_(None)).distinct()
        return set((await connection.execute(question)).scalars())

    @reads
    async def decided_windows(
        self,
        connection: Connection,
        meter_ids: Collection[str],
        from_ms: int,
        to_ms: int,
        since_ms: int,
        limit: int,
        after: DecidedWindow | None = None,
    ) -> list[DecidedWindow]:
        """See the port."""
        order = (_runs.report_id, _runs.from_ms, _runs.to_ms)
        question = (
            select(*order, reports.c.meter_id, _runs.counted)
            .join(reports, reports.c.id == _runs.report_id)
            .where(
                reports.c.meter_id.in_(meter_ids),
                reports.c.deleted_at_ms.is_(None),
                _reaches_into(from_ms, to_ms),
                _is_newest_decided(),
                ~_was_decided_before(since_ms),
            )
            .order_by(*order)
            .limit(limit)
        )
        if after is not None:
            place = (after.report_id, after.from_ms, after.to_ms)
            question = question.where(tuple_(*order) > tuple_(*place))
        rows = await connection.execute(question)
        return [value_of(DecidedWindow, row, counted=_counted(row)) for row in rows]

    async def mark(self, windows: Sequence[DecidedWindow], due_at_ms: int) -> None:
        """See the port."""
        keys = sorted({(it.report_id, it.from_ms, it.to_ms) for it in windows})
        for start in range(0, len(keys), LATE_WINDOWS_MARKED_MAX):
            chunk = keys[start : start + LATE_WINDOWS_MARKED_MAX]
            await self.database.write(partial(_mark, keys=chunk, due_at_ms=due_at_ms))

    @reads
    async def due_windows(
        self, connection: Connection, now_ms: int, pause_ms: int, limit: int
    ) -> list[LateWindow]:
        """See the port."""
        open_run = (
            select(_runs.id)
            .where(same_window(_runs, _windows), _runs.state.in_(UNDECIDED))
            .correlate(late_windows)
            .exists()
        )
        question = (
            select(_windows.report_id, _windows.from_ms, _windows.to_ms)
            .join(reports, reports.c.id == _windows.report_id)
            .where(
                _windows.due_at_ms <= now_ms,
                _windows.revised_at_ms <= now_ms - pause_ms,
                reports.c.deleted_at_ms.is_(None),
                reports.c.state != ReportState.PAUSED.value,
                ~open_run,
            )
            .order_by(_windows.due_at_ms, _windows.report_id, _windows.from_ms)
            .limit(limit)
        )
        found = await connection.execute(question)
        return [value_of(LateWindow, row) for row in found]

    @writes
    async def revise_late(
        self, connection: Connection, window: LateWindow, now_ms: int
    ) -> Run | Unreadable | None:
        """See the port."""
        row = await locked(connection, window.report_id)
        if row is None:
            return None
        due = (
            select(_windows.due_at_ms)
            .where(same_window(_windows, window), _windows.due_at_ms <= now_ms)
            .with_for_update()
        )
        if (await connection.execute(due)).one_or_none() is None:
            return None
        of_window = update(late_windows).where(same_window(_windows, window))
        try:
            run = await revise(connection, report_of(row), window, now_ms)
        except BAD_ROW as error:  # it lets those of others go first
            await connection.execute(of_window.values(due_at_ms=now_ms + PLAN_FAILED_REST_MS))
            return Unreadable(window.report_id, row.namespace, row.slug, repr(error))
        if run is not None:
            await connection.execute(of_window.values(due_at_ms=None, revised_at_ms=now_ms))
        return run


async def mark_overtaken(
    connection: Connection, run: Run, counted: LogEnds | None, now_ms: int
) -> None:
    """Mark the window of a run that is being decided, where somebody began to look at more of the
    log than the run had counted: it may not have been found.
    """
    if counted is None:
        return
    lock = select(logs.c.number).where(logs.c.number == counted.log).with_for_update(read=True)
    await connection.execute(lock)
    begun = select(late_looks.c.partition, late_looks.c.begun_end).where(
        late_looks.c.log == counted.log
    )
    for row in await connection.execute(begun):
        if int(row.begun_end) > counted.end(counted.log, int(row.partition)):
            await _mark(connection, [(run.report_id, run.from_ms, run.to_ms)], now_ms)
            return


def _counted(row: Row[*tuple[Any, ...]]) -> LogEnds | None:
    """How far a run had counted. Where that cannot be read, all usage is late for it: whoever
    revises it finds whether it is.
    """
    try:
        return counted_of(row.counted)
    except BAD_ROW:
        return None


async def _sealed_end(
    connection: Connection, place: tuple[int, int], first: int, events_max: int
) -> int | None:
    """Where the next slices of a partition end; None where none is sealed."""
    question = (
        select(seals.c.offset_end, seals.c.events)
        .where(seals.c.log == place[0], seals.c.partition == place[1], seals.c.slice >= first)
        .order_by(seals.c.slice)
        .limit(LATE_SLICES_MAX)
    )
    end: int | None = None
    events = 0
    for row in await connection.execute(question):
        events += int(row.events)
        if end is not None and events > events_max:
            break
        end = int(row.offset_end)
    return end


async def _put(connection: Connection, log: int, ends: Mapping[int, int], column: str) -> None:
    for partition, end in sorted(ends.items()):
        row = {"log": log, "partition": partition, "begun_end": 0, "looked_end": 0}
        statement = insert(connection, late_looks).values({**row, column: end})
        greater = statement.excluded[column] > late_looks.c[column]
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=[late_looks.c.log, late_looks.c.partition],
                set_={column: statement.excluded[column]},
                where=greater,
            )
        )


async def _mark(
    connection: Connection, keys: Sequence[tuple[str, int, int]], due_at_ms: int
) -> None:
    names = ("report_id", "from_ms", "to_ms")
    rows = [
        {**dict(zip(names, key, strict=True)), "due_at_ms": due_at_ms, "revised_at_ms": 0}
        for key in keys
    ]
    statement = insert(connection, late_windows)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=[_windows[name] for name in names],
            set_={"due_at_ms": statement.excluded.due_at_ms},
            where=_windows.due_at_ms.is_(None),
        ),
        rows,
    )


def _reaches_into(from_ms: int, to_ms: int) -> ColumnElement[bool]:
    """Windows that overlap a span: of one index those that end within a day of it, of another the
    few that are longer than that.
    """
    return or_(
        and_(_runs.to_ms > from_ms, _runs.to_ms <= to_ms + DAY_MS, _runs.from_ms < to_ms),
        and_(
            _runs.to_ms - _runs.from_ms > DAY_MS,
            _runs.from_ms < to_ms,
            _runs.to_ms > to_ms + DAY_MS,
        ),
    )


def _is_newest_decided() -> ColumnElement[bool]:
    newer = report_runs.alias("newer")
    exists = (
        select(newer.c.id)
        .where(
            same_window(newer.c, _runs),
            newer.c.revision > _runs.revision,
            newer.c.digest.is_not(None),
        )
        .correlate(report_runs)
        .exists()
    )
    return and_(_runs.digest.is_not(None), ~exists)


def _was_decided_before(since_ms: int) -> ColumnElement[bool]:
    older = report_runs.alias("older")
    return (
        select(older.c.id)
        .where(same_window(older.c, _runs), older.c.decided_at_ms < since_ms)
        .correlate(report_runs)
        .exists()
    )
