"""Runs that wait to be made, in SQL. Functions over a connection of one transaction."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, Text, bindparam, literal_column, or_, select, tuple_, update
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.definitions import readable, with_ids
from meterline.backends.control_store.reports.run_rows import run_of
from meterline.backends.control_store.tables.reports import report_runs, reports
from meterline.report import (
    UNDECIDED,
    ReportState,
    RunMove,
    Unreadable,
    WaitingRuns,
    run_sources,
    run_target,
)

# As words of the statement: a partial index is used where its condition is seen to hold.
_UNDECIDED_COLUMNS: Final[list[ColumnElement[str]]] = [
    literal_column(f"'{state.value}'") for state in UNDECIDED
]


def _oldest_undecided() -> Select[Any]:
    runs, other = report_runs.c, report_runs.alias("other")
    # One look into the index for each run that is passed: a page costs no more for all that waits
    # behind it.
    oldest = (
        select(other.c.id)
        .where(
            other.c.report_id == runs.report_id,
            other.c.trigger == runs.trigger,
            other.c.state.in_(_UNDECIDED_COLUMNS),
        )
        .order_by(other.c.to_ms, other.c.from_ms, other.c.revision)
        .limit(1)
        .correlate(report_runs)
        .scalar_subquery()
    )
    live = (
        select(reports.c.id)
        .where(
            reports.c.id == runs.report_id,
            reports.c.state != ReportState.PAUSED.value,
            reports.c.deleted_at_ms.is_(None),
        )
        .exists()
    )
    free = or_(runs.lease_until_ms.is_(None), runs.lease_until_ms <= bindparam("now_ms"))
    return (
        select(report_runs)
        .where(runs.state.in_(_UNDECIDED_COLUMNS), free, runs.id == oldest, live)
        .order_by(runs.report_id, runs.trigger)
        .limit(bindparam("most"))
    )


# Built once: each turn of each dispatcher asks.
_FRONT: Final = _oldest_undecided()
_AFTER: Final = _FRONT.where(
    tuple_(report_runs.c.report_id, report_runs.c.trigger)
    > tuple_(bindparam("after_report", type_=Text), bindparam("after_trigger", type_=Text))
)


async def undecided(
    connection: Connection, now_ms: int, limit: int, after: tuple[str, str] | None = None
) -> WaitingRuns:
    """The oldest undecided run of each report and trigger, where its lease is free, from the pair
    after that one, with the report; none of reports that are paused or gone.
    """
    question = _FRONT
    asked: dict[str, object] = {"now_ms": now_ms, "most": limit}
    if after is not None:
        report_id, trigger = after
        question = _AFTER
        asked |= {"after_report": report_id, "after_trigger": str(trigger)}
    rows = (await connection.execute(question, asked)).all()
    reports_of = await with_ids(connection, {str(row.report_id) for row in rows})
    page = WaitingRuns([], [], _last_of(rows) if len(rows) == limit else None)
    for row in rows:
        report = reports_of.get(row.report_id)
        if report is None:  # it was deleted meanwhile
            continue
        slug = report.report if isinstance(report, Unreadable) else report.slug
        run = readable(row, run_of, slug)
        if isinstance(report, Unreadable):
            page.unreadable.append(report)
        elif isinstance(run, Unreadable):
            page.unreadable.append(run)
        else:
            page.found.append((run, report))
    return page


def _last_of(rows: Sequence[Row[Any]]) -> tuple[str, str]:
    return str(rows[-1].report_id), str(rows[-1].trigger)


async def wait(connection: Connection, run_ids: Sequence[str]) -> None:
    """Scheduled runs are waiting from now on. Two dispatchers may see the same ones: what another
    has in hand is left to it, so that neither waits for the other.
    """
    runs = report_runs.c
    free = (
        select(runs.id)
        .where(runs.id.in_(run_ids), runs.state.in_([s.value for s in run_sources(RunMove.WAIT)]))
        .with_for_update(skip_locked=True)
    )
    found = [row.id for row in await connection.execute(free)]
    if found:
        state = run_target(RunMove.WAIT).value
        await connection.execute(update(report_runs).where(runs.id.in_(found)).values(state=state))
