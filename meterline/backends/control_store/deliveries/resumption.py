"""Reports that are resumed, in SQL: what they owe is sent, or recorded as not asked for. Functions
over a connection of one transaction.
"""

from typing import Final

from sqlalchemy import Select, and_, exists, func, not_, select, update
from sqlalchemy.sql import ColumnElement

from meterline.access import COMMAND, Action
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.cancellation import (
    cancel_deliveries,
    failed_of_run,
    skip_runs,
)
from meterline.backends.control_store.deliveries.endpoints import renew
from meterline.backends.control_store.deliveries.results import again
from meterline.backends.control_store.reports.definitions import locked, report_of, tell
from meterline.backends.control_store.reports.run_rows import run_states
from meterline.backends.control_store.store import fetch_int
from meterline.backends.control_store.tables.reports import report_deliveries, report_runs, reports
from meterline.delivery import DeliveryState
from meterline.report import (
    NOT_ASKED_FOR,
    REPORT_MOVES,
    UNDECIDED,
    Owed,
    Report,
    ReportMove,
    Resumed,
    RunMove,
    RunState,
    run_target,
)

_runs = report_runs.c
_deliveries = report_deliveries.c
_Window = tuple[int, int]  # from, to


async def resume(
    connection: Connection,
    report_id: str,
    now_ms: int,
    *,
    owed: Owed = Owed.ALL,
    author: str = COMMAND,
) -> Resumed:
    """Make a paused or parked report active, with what is asked for of what it owes."""
    row = await locked(connection, report_id)
    if row is None:
        return Resumed()
    report = report_of(row)
    target = REPORT_MOVES.get((report.state, ReportMove.RESUME))
    if target is None:
        return Resumed()
    planned_until_ms = int(row.next_end_ms) - report.schedule.interval.length_ms
    missed = _Missed(report, planned_until_ms, now_ms)
    kept = await _newest(connection, report_id, missed) if owed is Owed.NEWEST else None
    skipped = cancelled = 0
    if owed is not Owed.ALL:
        others = _others(report_id, kept)
        skipped = await skip_runs(connection, others, NOT_ASKED_FOR, now_ms)
        cancelled = await cancel_deliveries(connection, report_id, others, NOT_ASKED_FOR, now_ms)
    if owed is Owed.ALL or kept is not None:
        await _send_failed(connection, report_id, kept, now_ms)
    keeps = missed.count if owed is Owed.ALL else int(kept is not None and kept == missed.newest)
    values: dict[str, object] = {"state": target.value, "state_reason": ""}
    if keeps < missed.count:
        values["skip_until_ms"] = missed.border_ms(missed.count - keeps)
    await connection.execute(update(reports).where(reports.c.id == report_id).values(values))
    await renew(connection, report_id, now_ms)
    resumed = Resumed(
        keeps + await _undecided(connection, report_id),
        missed.count - keeps + skipped,
        await _open(connection, report_id),
        cancelled,
    )
    await tell(connection, report, Action.RESUME, now_ms, author, f"{owed}: {resumed}")
    return resumed


class _Missed:
    """The windows of a report that have ended and have no run yet, but for those that an earlier
    resumption passed over.
    """

    def __init__(self, report: Report, planned_until_ms: int, now_ms: int) -> None:
        self._report = report
        self._from_ms = planned_until_ms
        passed_ms = min(report.skip_until_ms or 0, now_ms)
        self._passed = report.ended_windows(planned_until_ms, passed_ms)
        self.count = report.ended_windows(planned_until_ms, now_ms) - self._passed

    def border_ms(self, windows: int) -> int:
        """The end of so many of them."""
        return self._report.border_after_ms(self._from_ms, self._passed + windows)

    @property
    def newest(self) -> _Window | None:
        """The last one."""
        if not self.count:
            return None
        return self.border_ms(self.count - 1), self.border_ms(self.count)


async def _newest(connection: Connection, report_id: str, missed: _Missed) -> _Window | None:
    """The newest window of which anything is owed."""
    found = [] if missed.newest is None else [missed.newest]
    # Two questions, for each has an index of its own.
    for states in (UNDECIDED, (RunState.DELIVERING,)):
        question = (
            select(_runs.from_ms, _runs.to_ms)
            .where(_runs.report_id == report_id, run_states(states))
            .order_by(_runs.to_ms.desc(), _runs.from_ms.desc())
            .limit(1)
        )
        found += await _windows(connection, question)
    # A window whose deliveries were given up is owed, too.
    given_up = (
        select(_runs.from_ms, _runs.to_ms)
        .where(*_with_failures(report_id), exists().where(*_FAILED_OF_RUN))
        .order_by(_runs.to_ms.desc(), _runs.from_ms.desc())
        .limit(1)
    )
    found += await _windows(connection, given_up)
    return max(found, key=lambda window: (window[1], window[0]), default=None)


async def _windows(connection: Connection, question: Select[tuple[int, int]]) -> list[_Window]:
    return [(int(row.from_ms), int(row.to_ms)) for row in await connection.execute(question)]


def _with_failures(report_id: str) -> tuple[ColumnElement[bool], ...]:
    """The runs of a report of which a failed delivery can be sent again: they have their bytes."""
    return _runs.report_id == report_id, _runs.failed > 0, _runs.bytes_removed_to.is_(None)


# What failed, and has bytes to be sent. What was cancelled was not asked for: it stays so.
_FAILED_OF_RUN: Final = (
    _deliveries.run_id == _runs.id,
    _deliveries.state == DeliveryState.FAILED.value,
    _deliveries.failure.is_(None),
)


async def _send_failed(
    connection: Connection, report_id: str, kept: _Window | None, now_ms: int
) -> None:
    """Send what failed again as if for the first time: of one window, or of all.

    Set by set, not row by row: after a long outage there are many.
    """
    of_runs = and_(*_with_failures(report_id))
    if kept is not None:
        of_runs = and_(of_runs, _runs.from_ms == kept[0], _runs.to_ms == kept[1])
    failed = (
        _deliveries.run_id.in_(select(_runs.id).where(of_runs)),
        *_FAILED_OF_RUN[1:],
    )
    # In the order in which others lock, and before anything is decided by what the rows say.
    deliveries = select(_deliveries.id).where(*failed).order_by(_deliveries.id)
    runs = select(_runs.id).where(of_runs).order_by(_runs.id)
    for rows in (deliveries, runs):
        locked_rows = rows.with_for_update().subquery()
        await connection.execute(select(func.count()).select_from(locked_rows))
    await connection.execute(update(report_deliveries).where(*failed).values(again(now_ms)))
    sent_again = exists().where(
        _deliveries.run_id == _runs.id,
        _deliveries.state == DeliveryState.PENDING.value,
        _deliveries.replayed_at_ms == now_ms,
    )
    await connection.execute(
        update(report_runs)
        .where(of_runs, sent_again)
        .values(
            failed=failed_of_run(),
            state=run_target(RunMove.REOPEN).value,
            reason="",
            ended_at_ms=None,
        )
    )


def _others(report_id: str, kept: _Window | None) -> ColumnElement[bool]:
    """The runs of a report that are not of the window that is kept."""
    mine = _runs.report_id == report_id
    if kept is None:
        return mine
    return and_(mine, not_(and_(_runs.from_ms == kept[0], _runs.to_ms == kept[1])))


async def _undecided(connection: Connection, report_id: str) -> int:
    question = select(func.count()).where(_runs.report_id == report_id, run_states(UNDECIDED))
    return await fetch_int(connection, question)


async def _open(connection: Connection, report_id: str) -> int:
    """Deliveries that have not arrived, by the counts of their runs."""
    left = func.sum(_runs.deliveries - _runs.delivered - _runs.failed)
    question = select(left).where(_runs.report_id == report_id, run_states((RunState.DELIVERING,)))
    return int((await connection.execute(question)).scalar_one() or 0)
