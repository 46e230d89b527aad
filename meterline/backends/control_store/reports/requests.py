"""Runs that are asked for, in SQL: by hand, or for late usage. Functions over a connection of one
transaction.
"""

from sqlalchemy import select, update

from meterline.access import COMMAND, Action
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.reports.definitions import locked, tell
from meterline.backends.control_store.reports.run_rows import run_of, run_row, same_window
from meterline.backends.control_store.tables.reports import report_runs
from meterline.problem import not_found
from meterline.report import (
    UNDECIDED,
    LateWindow,
    Report,
    Run,
    RunMove,
    RunState,
    Trigger,
    run_id,
    run_sources,
    run_target,
)
from meterline.window import rfc3339


async def request(
    connection: Connection,
    report: Report,
    from_ms: int,
    to_ms: int,
    now_ms: int,
    *,
    revise: bool,
    author: str = COMMAND,
) -> tuple[Run, bool]:
    """The run of a window by hand, and whether it is new. Raises `Problem` (not found) for a report
    that was deleted meanwhile.
    """
    if await locked(connection, report.id) is None:
        raise not_found("report", report.slug)
    window = LateWindow(report.id, from_ms, to_ms)
    detail = f"{rfc3339(from_ms)} to {rfc3339(to_ms)}"
    there = await _runs_of(connection, window)
    # Revisions that found nothing to say are no answer to "the run of this window".
    relevant = [run for run in there if not _is_unchanged(run)]
    if (
        revise
        and relevant
        and relevant[0].trigger is Trigger.LATE
        and relevant[0].state in UNDECIDED
    ):
        await tell(connection, report, Action.RUN, now_ms, author, detail)
        return await _taken_over(connection, relevant[0], now_ms), False
    # Nor is one that nobody asked for and that has not said anything yet.
    relevant = [
        run for run in relevant if run.trigger is not Trigger.LATE or run.decided_at_ms is not None
    ]
    if relevant and relevant[0].decided_at_ms is None:
        if relevant[0].state in run_sources(RunMove.REVIVE):
            await tell(connection, report, Action.RUN, now_ms, author, detail)
            return await _revived(connection, relevant[0], now_ms), False
        return relevant[0], False
    if relevant and not revise:
        return relevant[0], False
    revision = there[0].revision + 1 if there else 1
    supersedes = relevant[0].id if relevant else None
    run = await _added(connection, report, window, revision, Trigger.MANUAL, now_ms, supersedes)
    if revision > 1:
        detail += f", revision {revision}"
    await tell(connection, report, Action.RUN, now_ms, author, detail)
    return run, True


async def _added(
    connection: Connection,
    report: Report,
    window: LateWindow,
    revision: int,
    trigger: Trigger,
    now_ms: int,
    supersedes: str | None,
    meter_revision: int | None = None,
) -> Run:
    run = Run(
        run_id(report.id, window.from_ms, window.to_ms, revision),
        report.id,
        report.namespace,
        window.from_ms,
        window.to_ms,
        revision,
        trigger,
        now_ms,
        RunState.WAITING,
        supersedes=supersedes,
        meter_revision=meter_revision,
    )
    await connection.execute(insert(connection, report_runs).values(run_row(run)))
    return run


def _is_unchanged(run: Run) -> bool:
    return run.state is RunState.SKIPPED and run.decided_at_ms is not None


async def _revived(connection: Connection, run: Run, now_ms: int) -> Run:
    target = run_target(RunMove.REVIVE).value
    return await _written(
        connection, run, state=target, reason="", asked_at_ms=now_ms, ended_at_ms=None
    )


async def _taken_over(connection: Connection, run: Run, now_ms: int) -> Run:
    """A late run that is asked for by hand: as if it had been from the beginning. Whoever makes it
    has lost it.
    """
    return await _written(
        connection,
        run,
        trigger=Trigger.MANUAL.value,
        state=RunState.WAITING.value,
        asked_at_ms=now_ms,
        meter_revision=None,
        lease_holder=None,
        lease_until_ms=None,
    )


async def _written(connection: Connection, run: Run, **values: object) -> Run:
    statement = update(report_runs).where(report_runs.c.id == run.id).values(values)
    row = (await connection.execute(statement.returning(report_runs))).one()
    return run_of(row)


async def _runs_of(connection: Connection, window: LateWindow | Run) -> list[Run]:
    """The runs of a window, the newest revision first."""
    runs = report_runs.c
    question = select(report_runs).where(same_window(runs, window)).order_by(runs.revision.desc())
    return [run_of(row) for row in await connection.execute(question)]


async def followed(connection: Connection, run: Run) -> Run | None:
    """The newest run of the window, before this revision, that says something."""
    there = await _runs_of(connection, run)
    return next(
        (it for it in there if it.manifest is not None and it.revision < run.revision), None
    )


async def revise(
    connection: Connection, report: Report, window: LateWindow, now_ms: int
) -> Run | None:
    """A late run of a window, by the meter revision of the last one; None where a run of it is
    undecided, or none is decided. The caller holds the report's lock.
    """
    there = await _runs_of(connection, window)
    before = next((run for run in there if run.manifest is not None), None)
    if before is None or any(run.state in UNDECIDED for run in there):
        return None
    revision, trigger = there[0].revision + 1, Trigger.LATE
    of_before = (before.id, before.meter_revision)
    return await _added(connection, report, window, revision, trigger, now_ms, *of_before)
