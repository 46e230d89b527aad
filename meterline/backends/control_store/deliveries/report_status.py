"""ReportStatusStore over SQL: a few statements for any number of reports, each by an index."""

from collections.abc import Sequence

from sqlalchemy import func, select, true
from sqlalchemy.sql import ColumnElement

from meterline import limits
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.endpoints import healths
from meterline.backends.control_store.reports.run_rows import run_of, run_states
from meterline.backends.control_store.store import SqlStore, fetch_int, reads, value_of
from meterline.backends.control_store.tables.reports import (
    report_deliveries,
    report_last_errors,
    report_runs,
    reports,
)
from meterline.delivery import UNOBSERVED, DeliveryState, Health, Outstanding
from meterline.report import UNDECIDED, LastError, Report, ReportStatus, Run, RunState, Trigger

_runs = report_runs.c


class SqlReportStatusStore(SqlStore):
    """See `meterline.report.ReportStatusStore`."""

    @reads
    async def statuses(
        self, connection: Connection, reports: Sequence[Report]
    ) -> dict[str, ReportStatus]:
        """See the port."""
        return await _statuses(connection, reports) if reports else {}

    @reads
    async def outstanding(self, connection: Connection, report: Report, run_id: str) -> Outstanding:
        """See the port."""
        healths = await _healths(connection, [report])
        of_run = report_deliveries.c.run_id == run_id
        return Outstanding(await _retrying(connection, report.id, of_run), healths[report.id])


async def _statuses(connection: Connection, asked: Sequence[Report]) -> dict[str, ReportStatus]:
    ids = [report.id for report in asked]
    last = await _firsts(connection, ids, ~run_states(UNDECIDED), newest=True)
    by_schedule = _runs.trigger == Trigger.SCHEDULE.value
    following = await _firsts(connection, ids, run_states(UNDECIDED) & by_schedule, newest=False)
    errors = await _errors(connection, ids)
    owed = await _owed(connection, ids)
    healths = await _healths(connection, asked)
    ends = select(reports.c.id, reports.c.next_end_ms).where(reports.c.id.in_(ids))
    next_end_ms = {row.id: int(row.next_end_ms) for row in await connection.execute(ends)}
    found = {}
    for report in asked:
        count, since_ms = owed.get(report.id, (0, None))
        run = following.get(report.id)
        found[report.id] = ReportStatus(
            _unplanned(report, next_end_ms[report.id]) if run is None else (run.from_ms, run.to_ms),
            last.get(report.id),
            errors.get(report.id),
            count,
            since_ms,
            Outstanding(await _retrying(connection, report.id) if count else 0, healths[report.id]),
        )
    return found


def _unplanned(report: Report, next_end_ms: int) -> tuple[int, int]:
    """The first window without a run that will be made."""
    from_ms = next_end_ms - report.schedule.interval.length_ms
    from_ms = max(from_ms, report.skip_until_ms or 0)
    return from_ms, report.window_end_ms(from_ms)


async def _firsts(
    connection: Connection, ids: Sequence[str], which: ColumnElement[bool], *, newest: bool
) -> dict[str, Run]:
    """By report, the run of its newest or oldest window among some."""
    order = (_runs.to_ms, _runs.from_ms, _runs.revision)
    first = (
        select(_runs.id)
        .where(_runs.report_id == reports.c.id, which)
        .order_by(*(column.desc() if newest else column for column in order))
        .limit(1)
        .correlate(reports)
        .scalar_subquery()
    )
    names = select(first).where(reports.c.id.in_(ids))
    found = (await connection.execute(names)).scalars().all()
    question = select(report_runs).where(_runs.id.in_([name for name in found if name]))
    return {row.report_id: run_of(row) for row in await connection.execute(question)}


async def _owed(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """By report, how many deliveries are open and since when, by the counts of their runs."""
    left = func.sum(_runs.deliveries - _runs.delivered - _runs.failed)
    question = (
        select(_runs.report_id, left.label("left"), func.min(_runs.decided_at_ms).label("since_ms"))
        .where(_runs.report_id.in_(ids), run_states((RunState.DELIVERING,)))
        .group_by(_runs.report_id)
    )
    return {
        row.report_id: (int(row.left), int(row.since_ms))
        for row in await connection.execute(question)
    }


async def _retrying(
    connection: Connection, report_id: str, which: ColumnElement[bool] | None = None
) -> int:
    """How many deliveries of a report are tried again: counted to a bound, by the index."""
    deliveries = report_deliveries.c
    found = (
        select(deliveries.id)
        .where(
            deliveries.report_id == report_id,
            deliveries.state == DeliveryState.RETRYING.value,
            deliveries.due_at_ms.is_not(None),
            true() if which is None else which,
        )
        .limit(limits.RETRYING_COUNTED_MAX)
        .subquery()
    )
    return await fetch_int(connection, select(func.count()).select_from(found))


async def _healths(connection: Connection, asked: Sequence[Report]) -> dict[str, Health]:
    """By report, how its endpoint fares."""
    there = await healths(connection, {(report.namespace, report.endpoint) for report in asked})
    return {
        report.id: there.get((report.namespace, report.endpoint), UNOBSERVED) for report in asked
    }


async def _errors(connection: Connection, ids: Sequence[str]) -> dict[str, LastError]:
    question = select(report_last_errors).where(report_last_errors.c.report_id.in_(ids))
    return {row.report_id: value_of(LastError, row) for row in await connection.execute(question)}
