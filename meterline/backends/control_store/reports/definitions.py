"""Reports themselves in SQL: their rows, their plan, their changes, their end. Functions over a
connection of one transaction.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Row, Select, and_, func, or_, select, tuple_, update
from sqlalchemy.sql import ColumnElement

from meterline.access import COMMAND, DISPATCHER, Action, Change, Kind, members_text
from meterline.backends.control_store.access.change_members import of_report
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.meters.revision_rows import hold_dimensions
from meterline.backends.control_store.meters.rows import take_turn
from meterline.backends.control_store.reports.run_rows import (
    filter_of,
    group_by_of,
    question_row,
    run_row,
)
from meterline.backends.control_store.store import fetch_int, fetch_one, json_text, row_of, value_of
from meterline.backends.control_store.tables.meters import meters
from meterline.backends.control_store.tables.reports import report_runs, reports
from meterline.delivery import SealedHeaders
from meterline.limits import CHANGE_DETAIL_CHARS_MAX, REPORTS_MAX
from meterline.problem import Fault, conflict, invalid, not_found
from meterline.report import (
    REPORT_MOVES,
    DuePlans,
    Interval,
    Plan,
    Report,
    ReportChange,
    ReportMove,
    ReportState,
    Run,
    Schedule,
    Takeover,
    Unreadable,
    changed,
    in_force,
)

_T = TypeVar("_T")
BAD_ROW: Final = (ValueError, TypeError, AssertionError, LookupError)  # nothing can be made of it
_live = select(reports).where(reports.c.deleted_at_ms.is_(None))


async def create(
    connection: Connection, report: Report, planned_until_ms: int, *, author: str = COMMAND
) -> None:
    """Insert a report. Raises `Problem`: not found for its meter, conflict for its slug or for
    the number of reports.
    """
    await _check_room(connection, report)
    # Shared lock: the meter cannot be deleted before this report is there to be seen.
    meter = (
        select(meters.c.id)
        .where(meters.c.id == report.meter_id, meters.c.deleted_at_ms.is_(None))
        .with_for_update(read=True)
    )
    if (await connection.execute(meter)).one_or_none() is None:
        raise not_found("meter", report.meter_id)
    await hold_dimensions(connection, report.meter_id, report.group_by)
    ahead = {"next_end_ms": report.window_end_ms(planned_until_ms), "sequence_next": 1}
    row = row_of(report, reports, **_definition_row(report), **ahead)
    # Any conflict: the id is a new one, or this very report, repeated.
    statement = insert(connection, reports).values(row).on_conflict_do_nothing()
    if (await connection.execute(statement)).rowcount:
        await tell(connection, report, Action.CREATE, report.created_at_ms, author)
        return
    there = (await connection.execute(_live.where(reports.c.id == report.id))).one_or_none()
    if there is None or report_of(there) != report:
        raise conflict(
            f"There is a report with the slug {report.slug!r} already; choose another slug."
        )


async def _check_room(connection: Connection, report: Report) -> None:
    """Raise `Problem` (conflict) where the namespace has all the reports that it may have besides
    this one. Two that are created at once take turns, so that the bound holds.
    """
    # The turn of the catalogue comes before any row of it, as where meters are changed.
    await take_turn(connection)
    others = select(func.count()).where(
        reports.c.namespace == report.namespace,
        reports.c.deleted_at_ms.is_(None),
        reports.c.id != report.id,  # this very report, repeated
    )
    if await fetch_int(connection, others) >= REPORTS_MAX:
        raise conflict(
            f"The namespace has {REPORTS_MAX} reports, and can have no more: delete one first. One"
            " report covers all subjects of a meter; a filter of usage and subjects narrows it."
        )


def _definition_row(report: Report) -> dict[str, object]:
    """The columns that an update may change."""
    takeover = report.takeover
    return {
        "interval": report.schedule.interval.value,
        "start_at_ms": report.schedule.start_at_ms,
        "takeover_interval": None if takeover is None else takeover.schedule.interval.value,
        "takeover_start_at_ms": None if takeover is None else takeover.schedule.start_at_ms,
        "takeover_at_ms": None if takeover is None else takeover.at_ms,
        **question_row(report),
        "endpoint": report.endpoint,
        "user_info_sealed": report.user_info_sealed,
        "headers_sealed": report.headers.sealed,
        "header_names": json_text(report.headers.names),
        "revisions": report.revisions.value,
        "grace_ms": report.grace_ms,
        "updated_at_ms": report.updated_at_ms,
    }


async def update_definition(
    connection: Connection,
    report_id: str,
    change: ReportChange,
    now_ms: int,
    *,
    author: str = COMMAND,
    dry_run: bool = False,
) -> Report:
    """Change what a report says of the runs to come. Raises `Problem`. With `dry_run` nothing is
    written.
    """
    row = await locked(connection, report_id)
    if row is None:
        raise not_found("report", report_id)
    before = report_of(row)
    planned_until_ms = int(row.next_end_ms) - before.schedule.interval.length_ms
    try:
        after = changed(before, change, planned_until_ms, now_ms)
    except ValueError as error:
        raise invalid(Fault("schedule", str(error))) from error
    if after is before:
        return before
    if after.group_by != before.group_by:
        await hold_dimensions(connection, after.meter_id, after.group_by)
    if dry_run:
        return after
    values = {**_definition_row(after), "next_end_ms": after.window_end_ms(planned_until_ms)}
    await connection.execute(update(reports).where(reports.c.id == report_id).values(values))
    parts = {
        "schedule": after.schedule != before.schedule or after.takeover != before.takeover,
        "grouping": after.group_by != before.group_by,
        "filter": after.filter != before.filter,
        "endpoint": after.endpoint != before.endpoint,
        "revisions": after.revisions != before.revisions,
        "grace": after.grace_ms != before.grace_ms,
        "credentials": after.user_info_sealed != before.user_info_sealed,
        "headers": after.headers != before.headers,
    }
    detail = ", ".join(name for name, differs in parts.items() if differs)
    members = members_text(of_report(before), of_report(after))
    await tell(connection, after, Action.UPDATE, now_ms, author, detail, members)
    return after


async def found(connection: Connection, namespace: str, id_or_slug: str) -> Report | None:
    """A live report; an id wins over a slug."""
    is_id = reports.c.id == id_or_slug.upper()
    question = (
        _live.where(reports.c.namespace == namespace, or_(is_id, reports.c.slug == id_or_slug))
        .order_by(is_id.desc())
        .limit(1)
    )
    return await fetch_one(connection, question, report_of)


async def listed(
    connection: Connection,
    namespace: str,
    limit: int | None = None,
    after: tuple[int, str] | None = None,
) -> list[Report]:
    """Live reports of a namespace by creation."""
    order = (reports.c.created_at_ms, reports.c.id)
    question = _live.where(reports.c.namespace == namespace)
    if after is not None:
        question = question.where(tuple_(*order) > tuple_(*after))
    return await _reports(connection, question.order_by(*order).limit(limit))


async def with_ids(connection: Connection, ids: Collection[str]) -> dict[str, Report | Unreadable]:
    """The live ones of these reports, by id."""
    rows = await connection.execute(_live.where(reports.c.id.in_(ids)))
    return {str(row.id): readable(row, report_of, str(row.slug)) for row in rows}


def readable(row: Row[Any], made: Callable[[Row[Any]], _T], slug: str) -> _T | Unreadable:
    """What is made of the row of a report or of its run, where it can be."""
    try:
        return made(row)
    except BAD_ROW as error:
        members = row._mapping  # noqa: SLF001 - its name in SQLAlchemy
        report_id = members.get("report_id", members["id"])
        return Unreadable(str(report_id), str(members["namespace"]), slug, repr(error))


async def plans(connection: Connection, window_end_max_ms: int, limit: int) -> DuePlans:
    """Reports whose next window has ended."""
    question = (
        _live.where(
            reports.c.state != ReportState.PAUSED.value, reports.c.next_end_ms <= window_end_max_ms
        )
        .order_by(reports.c.next_end_ms, reports.c.id)
        .limit(limit)
    )
    due = DuePlans([], [])
    for row in await connection.execute(question):
        plan_or_why = readable(row, _plan_of, str(row.slug))
        if isinstance(plan_or_why, Unreadable):
            due.unreadable.append(plan_or_why)
        else:
            due.found.append(plan_or_why)
    return due


def _plan_of(row: Row[Any]) -> Plan:
    report = report_of(row)
    return Plan(report, int(row.next_end_ms) - report.schedule.interval.length_ms)


async def plan(
    connection: Connection, report: Report, runs: Sequence[Run], planned_until_ms: int
) -> None:
    """Add runs and move the plan forward; nothing for a report that was deleted, or has another
    definition by now: its windows may be others.
    """
    row = await locked(connection, report.id)
    if row is None or int(row.updated_at_ms) != report.updated_at_ms:
        return
    if row.skip_until_ms != report.skip_until_ms:  # resumed meanwhile, without what it owed
        return
    if runs:
        statement = insert(connection, report_runs).on_conflict_do_nothing()
        await connection.execute(statement, [run_row(run) for run in runs])
    there = report_of(row)
    if planned_until_ms <= int(row.next_end_ms) - there.schedule.interval.length_ms:
        return
    after = in_force(there, planned_until_ms)
    await connection.execute(
        update(reports)
        .where(reports.c.id == report.id)
        .values(
            **_definition_row(after),
            next_end_ms=after.window_end_ms(planned_until_ms),
        )
    )


async def locked(connection: Connection, report_id: str) -> Row[tuple[object, ...]] | None:
    """The row of a live report, locked until the transaction ends: changes of one report's runs
    take turns. Rows that refer to it may be written meanwhile: dispatchers record what they sent.
    """
    question = _live.where(reports.c.id == report_id).with_for_update(key_share=True)
    return (await connection.execute(question)).one_or_none()


_ACTIONS: Final = {ReportMove.PAUSE: Action.PAUSE, ReportMove.PARK: Action.PARK}


async def pause(
    connection: Connection, report_id: str, now_ms: int, *, author: str = COMMAND
) -> None:
    """Pause a report; one that is paused stays as it is."""
    await _move(connection, reports.c.id == report_id, ReportMove.PAUSE, "", now_ms, author)


async def park(
    connection: Connection,
    namespace: str,
    endpoint: str,
    reason: str,
    now_ms: int,
    *,
    author: str = DISPATCHER,
) -> None:
    """Park the active reports with an endpoint."""
    which = and_(reports.c.namespace == namespace, reports.c.endpoint == endpoint)
    await _move(connection, which, ReportMove.PARK, reason, now_ms, author)


async def _move(
    connection: Connection,
    which: ColumnElement[bool],
    by: ReportMove,
    reason: str,
    now_ms: int,
    author: str,
) -> None:
    sources = [state.value for state, move_ in REPORT_MOVES if move_ is by]
    (target,) = {state for (_, move_), state in REPORT_MOVES.items() if move_ is by}
    statement = (
        update(reports)
        .where(which, reports.c.deleted_at_ms.is_(None), reports.c.state.in_(sources))
        .values(state=target.value, state_reason=reason)
    )
    for row in (await connection.execute(statement.returning(reports))).all():
        detail = reason[:CHANGE_DETAIL_CHARS_MAX]
        await tell(connection, row, _ACTIONS[by], now_ms, author, detail)


def report_of(row: Row[tuple[object, ...]]) -> Report:
    """The report of a row."""
    takeover = None
    if row.takeover_at_ms is not None:
        follower = Schedule(Interval(row.takeover_interval), row.takeover_start_at_ms)
        takeover = Takeover(follower, row.takeover_at_ms)
    return value_of(
        Report,
        row,
        schedule=Schedule(Interval(row.interval), row.start_at_ms),
        group_by=group_by_of(row.group_by),
        filter=filter_of(row.filter),
        takeover=takeover,
        headers=SealedHeaders(group_by_of(row.header_names), row.headers_sealed),
    )


async def _reports(connection: Connection, question: Select[tuple[object, ...]]) -> list[Report]:
    return [report_of(row) for row in await connection.execute(question)]


async def tell(
    connection: Connection,
    report: Report | Row[Any],
    action: Action,
    now_ms: int,
    author: str,
    detail: str = "",
    members: str = "",
) -> None:
    """Record a change of a report. Its row will do: one that cannot be read is changed, too."""
    of = (report.namespace, now_ms, author, action, Kind.REPORT, report.id, report.slug)
    await record_change(connection, Change(*of, detail, members))
