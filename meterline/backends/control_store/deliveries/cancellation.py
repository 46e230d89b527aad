"""What is open of a report is given up, in SQL: all of it, or some of its runs. Functions over a
connection of one transaction.
"""

from sqlalchemy import ScalarSelect, and_, case, func, select, update
from sqlalchemy.sql import ColumnElement

from meterline.access import COMMAND, Action
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.definitions import tell
from meterline.backends.control_store.reports.run_rows import run_states
from meterline.backends.control_store.reports.runs import drop_staged
from meterline.backends.control_store.tables.reports import report_deliveries, report_runs, reports
from meterline.delivery import DeliveryMove, DeliveryState, delivery_sources
from meterline.report import RunMove, RunState, run_sources, run_target

_runs = report_runs.c
_deliveries = report_deliveries.c


async def delete(
    connection: Connection, report_id: str, now_ms: int, *, author: str = COMMAND
) -> None:
    """End a report and everything of it that is open."""
    marked = (
        update(reports)
        .where(reports.c.id == report_id, reports.c.deleted_at_ms.is_(None))
        .values(deleted_at_ms=now_ms)
        .returning(reports)
    )
    row = (await connection.execute(marked)).one_or_none()
    if row is None:
        return
    await tell(connection, row, Action.DELETE, now_ms, author)
    mine, why = _runs.report_id == report_id, "the report was deleted"
    await skip_runs(connection, mine, why, now_ms)
    await cancel_deliveries(connection, report_id, mine, why, now_ms)


async def skip_runs(
    connection: Connection, which: ColumnElement[bool], why: str, now_ms: int
) -> int:
    """Skip those of some runs that are not made yet; how many."""
    making = select(_runs.id).where(which, _runs.state == RunState.MATERIALIZING.value)
    half_made = (await connection.execute(making)).scalars().all()
    statement = (
        update(report_runs)
        .where(which, run_states(run_sources(RunMove.CANCEL)))
        .values(
            state=run_target(RunMove.CANCEL).value,
            reason=why,
            ended_at_ms=now_ms,
            lease_holder=None,
            lease_until_ms=None,
        )
    )
    skipped = (await connection.execute(statement)).rowcount
    for run_id in half_made:
        await drop_staged(connection, run_id)
    return skipped


async def cancel_deliveries(
    connection: Connection, report_id: str, which: ColumnElement[bool], why: str, now_ms: int
) -> int:
    """Cancel what has not arrived of some runs of a report, and end these runs; how many."""
    delivering = and_(which, run_states((RunState.DELIVERING,)))
    open_states = [state.value for state in delivery_sources(DeliveryMove.CANCEL)]
    # Deliveries before runs, as where ends of attempts are recorded.
    cancelled = await connection.execute(
        update(report_deliveries)
        .where(
            _deliveries.report_id == report_id,  # with its state, for the index
            _deliveries.due_at_ms.is_not(None),
            _deliveries.state.in_(open_states),
            _deliveries.run_id.in_(select(_runs.id).where(delivering)),
        )
        .values(state=DeliveryState.CANCELLED.value, due_at_ms=None, ended_at_ms=now_ms)
    )
    outcome = case(
        (_runs.delivered == _runs.deliveries, run_target(RunMove.ALL_DELIVERED).value),
        (_runs.delivered > 0, run_target(RunMove.SOME_DELIVERED).value),
        else_=run_target(RunMove.NONE_DELIVERED).value,
    )
    await connection.execute(
        update(report_runs)
        .where(delivering)
        .values(failed=failed_of_run(), state=outcome, reason=why, ended_at_ms=now_ms)
    )
    return cancelled.rowcount


def failed_of_run() -> ScalarSelect[int]:
    """How many deliveries of a run ended without having arrived."""
    return (
        select(func.count())
        .where(
            _deliveries.run_id == _runs.id,
            _deliveries.state.in_([DeliveryState.FAILED.value, DeliveryState.CANCELLED.value]),
        )
        .correlate(report_runs)
        .scalar_subquery()
    )
