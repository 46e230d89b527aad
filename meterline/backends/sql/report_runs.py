"""Runs in SQL: leases, staging, the decision. Functions over a connection of one transaction.

Every change is conditional on the state that it starts from, by the table of `meterline.run`, so
a holder that was thought dead changes nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import and_, delete, func, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ColumnElement

from meterline.backends.sql.engine import insert
from meterline.backends.sql.report_definitions import tell
from meterline.backends.sql.report_run_rows import manifest_row, run_of, run_row
from meterline.backends.sql.schema_reports import (
    report_bodies,
    report_deliveries,
    report_runs,
    reports,
)
from meterline.change import Action
from meterline.report import Report, ReportState
from meterline.report_ports import Booked, Claim
from meterline.run import (
    UNDECIDED,
    DeliveryDraft,
    DeliveryState,
    Manifest,
    Run,
    RunMove,
    RunState,
    Trigger,
    run_id,
    run_sources,
    run_target,
)
from meterline.window import rfc3339

_UNDECIDED: Final = [state.value for state in UNDECIDED]


class LeaseLost(Exception):
    """The run, its lease, the report's number or its definition is not what the claim found: the
    transaction is undone.
    """


async def ask(
    connection: AsyncConnection,
    report: Report,
    window: tuple[int, int],
    now_ms: int,
    author: str,
    *,
    revise: bool,
) -> tuple[Run, bool]:
    """The run of a window by hand, and whether it is new; the caller holds the report's lock."""
    from_ms, to_ms = window
    detail = f"{rfc3339(from_ms)} to {rfc3339(to_ms)}"
    question = (
        select(report_runs)
        .where(
            report_runs.c.report_id == report.id,
            report_runs.c.from_ms == from_ms,
            report_runs.c.to_ms == to_ms,
        )
        .order_by(report_runs.c.revision.desc())
    )
    there = [run_of(row) for row in await connection.execute(question)]
    # Revisions that found nothing to say are no answer to "the run of this window".
    told = [run for run in there if not _is_unchanged(run)]
    if told and told[0].decided_at_ms is None:
        if told[0].state in run_sources(RunMove.REVIVE):
            await tell(connection, report, Action.RUN, now_ms, author, detail)
            return await _revived(connection, told[0], now_ms), False
        return told[0], False
    if told and not revise:
        return told[0], False
    revision = there[0].revision + 1 if there else 1
    run = Run(
        run_id(report.id, from_ms, to_ms, revision),
        report.id,
        report.namespace,
        from_ms,
        to_ms,
        revision,
        Trigger.MANUAL,
        now_ms,
        RunState.WAITING,
        supersedes=told[0].id if told else None,
    )
    await connection.execute(insert(connection, report_runs).values(run_row(run)))
    if revision > 1:
        detail += f", revision {revision}"
    await tell(connection, report, Action.RUN, now_ms, author, detail)
    return run, True


def _is_unchanged(run: Run) -> bool:
    return run.state is RunState.SKIPPED and run.decided_at_ms is not None


async def _revived(connection: AsyncConnection, run: Run, now_ms: int) -> Run:
    values = {
        "state": run_target(RunMove.REVIVE).value,
        "reason": "",
        "asked_at_ms": now_ms,
        "ended_at_ms": None,
    }
    statement = update(report_runs).where(report_runs.c.id == run.id).values(values)
    row = (await connection.execute(statement.returning(report_runs))).one()
    return run_of(row)


async def undecided(connection: AsyncConnection, now_ms: int, limit: int) -> list[Run]:
    """The oldest undecided run of each report and trigger, where its lease is free; none of paused
    reports.
    """
    paused = select(reports.c.id).where(reports.c.state == ReportState.PAUSED.value)
    place = func.row_number().over(
        partition_by=(report_runs.c.report_id, report_runs.c.trigger),
        order_by=(report_runs.c.to_ms, report_runs.c.from_ms, report_runs.c.revision),
    )
    ranked = (
        select(report_runs, place.label("place"))
        .where(report_runs.c.state.in_(_UNDECIDED), report_runs.c.report_id.not_in(paused))
        .subquery("ranked")
    )
    question = (
        select(ranked)
        .where(
            ranked.c.place == 1,
            or_(ranked.c.lease_until_ms.is_(None), ranked.c.lease_until_ms <= now_ms),
        )
        .order_by(ranked.c.to_ms, ranked.c.id)
        .limit(limit)
    )
    return [run_of(row) for row in await connection.execute(question)]


async def move(connection: AsyncConnection, run: str, by: RunMove, values: dict[str, Any]) -> bool:
    """Move a run by the table; False where it is in no state that the move starts from."""
    statement = (
        update(report_runs)
        .where(report_runs.c.id == run, report_runs.c.state.in_([s.value for s in run_sources(by)]))
        .values(state=run_target(by).value, **values)
    )
    return (await connection.execute(statement)).rowcount == 1


async def claim(
    connection: AsyncConnection, run: str, holder: str, now_ms: int, lease_until_ms: int
) -> Run | None:
    """Take the lease of a run; the caller holds the report's lock."""
    other = report_runs.alias("other")
    busy = (
        select(other.c.id)
        .where(
            other.c.report_id == report_runs.c.report_id,
            other.c.state == RunState.MATERIALIZING.value,
            other.c.lease_until_ms > now_ms,
        )
        .correlate(report_runs)
        .exists()
    )
    statement = (
        update(report_runs)
        .where(
            report_runs.c.id == run,
            report_runs.c.state.in_([s.value for s in run_sources(RunMove.CLAIM)]),
            ~busy,
        )
        .values(
            state=run_target(RunMove.CLAIM).value,
            lease_holder=holder,
            lease_until_ms=lease_until_ms,
        )
        .returning(report_runs)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else run_of(row)


async def release(connection: AsyncConnection, run: str, holder: str) -> None:
    """Give a lease back and drop what was staged under it."""
    statement = (
        update(report_runs)
        .where(_held(run, holder))
        .values(state=run_target(RunMove.RELEASE).value, lease_holder=None, lease_until_ms=None)
    )
    if (await connection.execute(statement)).rowcount:
        await _drop_bodies(connection, run, report_bodies.c.holder == holder)


async def stage(
    connection: AsyncConnection, claimed: Claim, drafts: Sequence[DeliveryDraft]
) -> None:
    """Write bodies under the holder's name."""
    rows = [
        {
            "run_id": claimed.run.id,
            "holder": claimed.holder,
            "number": draft.number,
            "delivery_id": draft.id,
            "subject": draft.subject,
            "sequence": draft.sequence,
            "digest": draft.digest,
            "usage_digest": draft.usage_digest,
            "supersedes": draft.supersedes,
            "body": draft.body,
        }
        for draft in drafts
    ]
    statement = insert(connection, report_bodies).on_conflict_do_nothing()
    await connection.execute(statement, rows)


async def decide(
    connection: AsyncConnection,
    claimed: Claim,
    meter_revision: int,
    manifest: Manifest,
    now_ms: int,
) -> None:
    """Name the winner, write the manifest, take the numbers. Raises `LeaseLost`."""
    # The report's row first, as everywhere: two transactions never wait for each other.
    number = update(reports).where(
        reports.c.id == claimed.report.id,
        reports.c.deleted_at_ms.is_(None),
        reports.c.sequence_next == claimed.sequence_next,
        reports.c.updated_at_ms == claimed.report.updated_at_ms,
    )
    taken = number.values(sequence_next=claimed.sequence_next + manifest.deliveries)
    if not (await connection.execute(taken)).rowcount:
        raise LeaseLost
    empty = not manifest.deliveries
    by = RunMove.DECIDE_EMPTY if empty else RunMove.DECIDE
    statement = (
        update(report_runs)
        .where(_held(claimed.run.id, claimed.holder))
        .values(
            state=run_target(by).value,
            lease_until_ms=None,
            meter_revision=meter_revision,
            decided_at_ms=now_ms,
            ended_at_ms=now_ms if empty else None,
            **manifest_row(manifest),
        )
    )
    if not (await connection.execute(statement)).rowcount:
        raise LeaseLost
    await _appoint(connection, claimed, manifest, now_ms)


async def _appoint(
    connection: AsyncConnection, claimed: Claim, manifest: Manifest, now_ms: int
) -> None:
    """Make the staged bodies of the holder the deliveries of the run."""
    bodies = report_bodies.c
    source = select(
        bodies.delivery_id,
        bodies.run_id,
        literal(claimed.report.id),
        bodies.holder,
        bodies.subject,
        bodies.number,
        bodies.sequence,
        literal(claimed.run.revision),
        literal(DeliveryState.PENDING.value),
        literal(0),
        literal(now_ms),
        literal(now_ms),
        bodies.digest,
        bodies.usage_digest,
        bodies.supersedes,
    ).where(bodies.run_id == claimed.run.id, bodies.holder == claimed.holder)
    names = [
        "id",
        "run_id",
        "report_id",
        "holder",
        "subject",
        "number",
        "sequence",
        "revision",
        "state",
        "attempts",
        "due_at_ms",
        "created_at_ms",
        "digest",
        "usage_digest",
        "supersedes",
    ]
    made = await connection.execute(
        insert(connection, report_deliveries).from_select(names, source)
    )
    assert made.rowcount == manifest.deliveries, "all was staged before it was decided"
    await _drop_bodies(connection, claimed.run.id, bodies.holder != claimed.holder)


async def is_winner(connection: AsyncConnection, run: str, holder: str) -> bool:
    """Whether a run was decided by this holder."""
    question = select(report_runs.c.id).where(
        report_runs.c.id == run,
        report_runs.c.lease_holder == holder,
        report_runs.c.decided_at_ms.is_not(None),
    )
    return (await connection.execute(question)).one_or_none() is not None


async def close(
    connection: AsyncConnection, claimed: Claim, by: RunMove, reason: str, now_ms: int
) -> bool:
    """End a run without deliveries."""
    statement = (
        update(report_runs)
        .where(_held(claimed.run.id, claimed.holder))
        .values(
            state=run_target(by).value,
            reason=reason,
            lease_until_ms=None,
            ended_at_ms=now_ms,
            # What was refused has not been decided: it can be asked for again.
            decided_at_ms=now_ms if by is RunMove.UNCHANGED else None,
        )
    )
    closed = (await connection.execute(statement)).rowcount == 1
    if closed:
        await _drop_bodies(connection, claimed.run.id, literal(value=True))
    return closed


async def booked(connection: AsyncConnection, run: Run) -> dict[str, Booked]:
    """By subject, the newest deliveries of earlier revisions of the window."""
    question = (
        select(
            report_deliveries.c.subject,
            report_deliveries.c.id,
            report_deliveries.c.usage_digest,
        )
        .join(report_runs, report_runs.c.id == report_deliveries.c.run_id)
        .where(
            report_runs.c.report_id == run.report_id,
            report_runs.c.from_ms == run.from_ms,
            report_runs.c.to_ms == run.to_ms,
            report_runs.c.revision < run.revision,
        )
        .order_by(report_deliveries.c.revision)  # so that the last one stays
    )
    rows = await connection.execute(question)
    return {row.subject: Booked(row.id, row.usage_digest) for row in rows}


def _held(run: str, holder: str) -> ColumnElement[bool]:
    return and_(
        report_runs.c.id == run,
        report_runs.c.state == RunState.MATERIALIZING.value,
        report_runs.c.lease_holder == holder,
    )


async def _drop_bodies(connection: AsyncConnection, run: str, which: ColumnElement[bool]) -> None:
    await connection.execute(delete(report_bodies).where(report_bodies.c.run_id == run, which))
