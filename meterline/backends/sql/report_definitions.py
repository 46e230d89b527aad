"""Reports themselves in SQL: their rows, their plan, their end. Functions over a connection of
one transaction.
"""

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import Row, Select, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.backends.sql.engine import insert
from meterline.backends.sql.report_run_rows import run_row
from meterline.backends.sql.schema import meters
from meterline.backends.sql.schema_reports import report_deliveries, report_runs, reports
from meterline.number import from_json_float
from meterline.problem import Problem, ProblemType, not_found
from meterline.report import REPORT_MOVES, Interval, Report, ReportMove, ReportState, Schedule
from meterline.report_filter import filter_document, parse_filter
from meterline.report_ports import Plan
from meterline.run import (
    DeliveryMove,
    DeliveryState,
    Run,
    RunMove,
    RunState,
    delivery_sources,
    outcome_of,
    run_sources,
    run_target,
)

_filter_decoder = msgspec.json.Decoder(float_hook=from_json_float)
_live = select(reports).where(reports.c.deleted_at_ms.is_(None))


async def create(connection: AsyncConnection, report: Report, planned_until_ms: int) -> None:
    """Insert a report. Raises `Problem`: not found for its meter, conflict for its slug."""
    # Shared lock: the meter cannot be deleted before this report is there to be seen.
    meter = (
        select(meters.c.id)
        .where(meters.c.id == report.meter_id, meters.c.deleted_at_ms.is_(None))
        .with_for_update(read=True)
    )
    if (await connection.execute(meter)).one_or_none() is None:
        raise not_found("meter", report.meter_id)
    row = {
        "id": report.id,
        "namespace": report.namespace,
        "slug": report.slug,
        "meter_id": report.meter_id,
        "interval": report.schedule.interval.value,
        "start_at_ms": report.schedule.start_at_ms,
        "group_by": msgspec.json.encode(report.group_by).decode(),
        "filter": msgspec.json.encode(filter_document(report.filter)).decode(),
        "endpoint": report.endpoint,
        "signing_secret_sealed": report.signing_secret_sealed,
        "user_info_sealed": report.user_info_sealed,
        "state": report.state.value,
        "state_reason": report.state_reason,
        "created_at_ms": report.created_at_ms,
        "next_end_ms": planned_until_ms + report.schedule.interval.length_ms,
        "sequence_next": 1,
    }
    # Any conflict: the id is a new one, or this very report, repeated.
    statement = insert(connection, reports).values(row).on_conflict_do_nothing()
    if (await connection.execute(statement)).rowcount:
        return
    there = (await connection.execute(_live.where(reports.c.id == report.id))).one_or_none()
    if there is None or report_of(there) != report:
        detail = f"There is a report with the slug {report.slug!r} already; choose another slug."
        raise Problem(ProblemType.CONFLICT, detail)


async def found(connection: AsyncConnection, namespace: str, id_or_slug: str) -> Report | None:
    """A live report; an id wins over a slug."""
    is_id = reports.c.id == id_or_slug.upper()
    question = (
        _live.where(reports.c.namespace == namespace, or_(is_id, reports.c.slug == id_or_slug))
        .order_by(is_id.desc())
        .limit(1)
    )
    row = (await connection.execute(question)).one_or_none()
    return None if row is None else report_of(row)


async def listed(connection: AsyncConnection, namespace: str) -> list[Report]:
    """Live reports of a namespace by creation."""
    question = _live.where(reports.c.namespace == namespace)
    return await _reports(connection, question.order_by(reports.c.created_at_ms, reports.c.id))


async def with_ids(connection: AsyncConnection, ids: Collection[str]) -> list[Report]:
    """The live ones of these reports."""
    return await _reports(connection, _live.where(reports.c.id.in_(ids)))


async def plans(connection: AsyncConnection, window_end_max_ms: int, limit: int) -> list[Plan]:
    """Reports whose next window has ended."""
    question = (
        _live.where(
            reports.c.state != ReportState.PAUSED.value, reports.c.next_end_ms <= window_end_max_ms
        )
        .order_by(reports.c.next_end_ms, reports.c.id)
        .limit(limit)
    )
    found_plans = []
    for row in await connection.execute(question):
        report = report_of(row)
        found_plans.append(Plan(report, int(row.next_end_ms) - report.schedule.interval.length_ms))
    return found_plans


async def plan(
    connection: AsyncConnection, report_id: str, runs: Sequence[Run], planned_until_ms: int
) -> None:
    """Add runs and move the plan forward; nothing for a deleted report."""
    report = await locked(connection, report_id)
    if report is None:
        return
    if runs:
        statement = insert(connection, report_runs).on_conflict_do_nothing()
        await connection.execute(statement, [run_row(run) for run in runs])
    next_end_ms = planned_until_ms + report_of(report).schedule.interval.length_ms
    await connection.execute(
        update(reports)
        .where(reports.c.id == report_id, reports.c.next_end_ms < next_end_ms)
        .values(next_end_ms=next_end_ms)
    )


async def locked(connection: AsyncConnection, report_id: str) -> Row[tuple[object, ...]] | None:
    """The row of a live report, locked until the transaction ends: changes of one report's runs
    take turns.
    """
    question = _live.where(reports.c.id == report_id).with_for_update()
    return (await connection.execute(question)).one_or_none()


async def resume(connection: AsyncConnection, report_id: str) -> None:
    """Active again, from any state that can be resumed."""
    sources = [state for state, by in REPORT_MOVES if by is ReportMove.RESUME]
    await connection.execute(
        update(reports)
        .where(reports.c.id == report_id, reports.c.state.in_([s.value for s in sources]))
        .values(state=ReportState.ACTIVE.value, state_reason="")
    )


async def park(connection: AsyncConnection, namespace: str, endpoint: str, reason: str) -> None:
    """Park the active reports with an endpoint."""
    await connection.execute(
        update(reports)
        .where(
            reports.c.namespace == namespace,
            reports.c.endpoint == endpoint,
            reports.c.state == ReportState.ACTIVE.value,
            reports.c.deleted_at_ms.is_(None),
        )
        .values(state=ReportState.PARKED.value, state_reason=reason)
    )


async def delete(connection: AsyncConnection, report_id: str, now_ms: int) -> None:
    """End a report and everything of it that is open."""
    marked = await connection.execute(
        update(reports)
        .where(reports.c.id == report_id, reports.c.deleted_at_ms.is_(None))
        .values(deleted_at_ms=now_ms)
    )
    if not marked.rowcount:
        return
    why = "the report was deleted"
    await connection.execute(
        update(report_runs)
        .where(
            report_runs.c.report_id == report_id,
            report_runs.c.state.in_([s.value for s in run_sources(RunMove.CANCEL)]),
        )
        .values(
            state=run_target(RunMove.CANCEL).value,
            reason=why,
            ended_at_ms=now_ms,
            lease_until_ms=None,
        )
    )
    await connection.execute(
        update(report_deliveries)
        .where(
            report_deliveries.c.report_id == report_id,
            report_deliveries.c.state.in_([s.value for s in delivery_sources(DeliveryMove.CANCEL)]),
        )
        .values(state=DeliveryState.CANCELLED.value, due_at_ms=None, ended_at_ms=now_ms)
    )
    # No delivery of these runs is open any more: what was not delivered never will be.
    delivering = select(report_runs.c.id, report_runs.c.delivered, report_runs.c.deliveries).where(
        report_runs.c.report_id == report_id, report_runs.c.state == RunState.DELIVERING.value
    )
    for run in (await connection.execute(delivering.with_for_update())).all():
        await connection.execute(
            update(report_runs)
            .where(report_runs.c.id == run.id)
            .values(
                state=run_target(outcome_of(run.delivered, run.deliveries)).value,
                failed=run.deliveries - run.delivered,
                reason=why,
                ended_at_ms=now_ms,
            )
        )


def report_of(row: Row[tuple[object, ...]]) -> Report:
    """The report of a row."""
    filter_, faults = parse_filter(_filter_decoder.decode(row.filter))
    assert not faults, "only what was parsed is stored"
    return Report(
        id=row.id,
        namespace=row.namespace,
        slug=row.slug,
        meter_id=row.meter_id,
        schedule=Schedule(Interval(row.interval), int(row.start_at_ms)),
        group_by=msgspec.json.decode(row.group_by, type=tuple[str, ...]),
        endpoint=row.endpoint,
        signing_secret_sealed=row.signing_secret_sealed,
        created_at_ms=int(row.created_at_ms),
        filter=filter_,
        user_info_sealed=row.user_info_sealed,
        state=ReportState(row.state),
        state_reason=row.state_reason,
    )


async def _reports(
    connection: AsyncConnection, question: Select[tuple[object, ...]]
) -> list[Report]:
    return [report_of(row) for row in await connection.execute(question)]
