"""Runs in SQL: leases, staging, the decision. Functions over a connection of one transaction.

Every change is conditional on the state that it starts from, by the table of
`meterline.report.run`, so a holder that was thought dead changes nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Table, and_, case, delete, func, literal, select, update
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.reports.definitions import locked, report_of
from meterline.backends.control_store.reports.late import mark_overtaken
from meterline.backends.control_store.reports.requests import followed
from meterline.backends.control_store.reports.run_rows import (
    counted_text,
    manifest_row,
    question_row,
    run_of,
)
from meterline.backends.control_store.store import fetch_int
from meterline.backends.control_store.tables.erasures import erasures
from meterline.backends.control_store.tables.reports import (
    report_bodies,
    report_deliveries,
    report_runs,
    reports,
    run_corrections,
)
from meterline.delivery import DeliveryDraft, DeliveryState
from meterline.report import (
    Claim,
    LogEnds,
    Manifest,
    Run,
    RunMove,
    RunState,
    Trigger,
    run_sources,
    run_target,
)
from meterline.usage import ErasureState


class LeaseLost(Exception):
    """The run, its lease, the report's number or its definition is not what the claim found, or
    what was staged is gone: the transaction is undone.
    """


async def claim(
    connection: Connection, run_id: str, holder: str, now_ms: int, lease_until_ms: int
) -> Claim | None:
    """Take the lease of a run."""
    owner = select(report_runs.c.report_id).where(report_runs.c.id == run_id)
    report_id = (await connection.execute(owner)).scalar_one_or_none()
    if report_id is None:  # a late one that found nothing new
        return None
    report = await locked(connection, report_id)
    if report is None:
        return None
    run = await _leased(connection, run_id, holder, now_ms, lease_until_ms)
    if run is None:
        return None
    over = (ErasureState.SWITCHED.value, ErasureState.SETTLED.value, ErasureState.DONE.value)
    erased = select(func.count()).where(
        erasures.c.namespace == run.namespace, erasures.c.state.in_(over)
    )
    switched = await fetch_int(connection, erased)
    return Claim(run, report_of(report), holder, int(report.sequence_next), switched)


async def _leased(
    connection: Connection, run: str, holder: str, now_ms: int, lease_until_ms: int
) -> Run | None:
    """The caller holds the report's lock."""
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


async def release(connection: Connection, run_id: str, holder: str) -> None:
    """Give a lease back and drop what was staged under it."""
    statement = (
        update(report_runs)
        .where(_held(run_id, holder))
        .values(state=run_target(RunMove.RELEASE).value, lease_holder=None, lease_until_ms=None)
    )
    if (await connection.execute(statement)).rowcount:
        await _drop_staged(connection, run_id, lambda table: table.c.holder == holder)


async def stage(
    connection: Connection,
    claimed: Claim,
    drafts: Sequence[DeliveryDraft],
    lease_until_ms: int | None = None,
) -> bool:
    """Write bodies under the holder's name and hold the lease on; nothing once it is lost."""
    if not await _hold(connection, claimed, lease_until_ms):
        return False
    if not drafts:
        return True
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
            "failure": draft.failure,
        }
        for draft in drafts
    ]
    statement = insert(connection, report_bodies).on_conflict_do_nothing()
    await connection.execute(statement, rows)
    return True


async def _hold(connection: Connection, claimed: Claim, lease_until_ms: int | None) -> bool:
    if lease_until_ms is None:
        return await is_held(connection, claimed)
    renewed = (
        update(report_runs)
        .where(_held(claimed.run.id, claimed.holder))
        .values(lease_until_ms=lease_until_ms)
    )
    return (await connection.execute(renewed)).rowcount == 1


async def decide(
    connection: Connection,
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
    by = _decision(manifest)
    statement = (
        update(report_runs)
        .where(_held(claimed.run.id, claimed.holder))
        .values(
            state=run_target(by).value,
            lease_until_ms=None,
            meter_revision=meter_revision,
            decided_at_ms=now_ms,
            ended_at_ms=None if by is RunMove.DECIDE else now_ms,
            **question_row(claimed.report),
            **manifest_row(manifest),
        )
    )
    if not (await connection.execute(statement)).rowcount:
        raise LeaseLost
    # A lease that was given back and came again (a claim that took effect twice) is held, without
    # what was dropped with it.
    if await _appoint(connection, claimed, now_ms) != manifest.deliveries:
        raise LeaseLost
    if manifest.deliveries:
        await _count_failures(connection, claimed.run.id, manifest.deliveries, now_ms)
    if manifest.corrections and await _corrected(connection, claimed) != manifest.corrections:
        raise LeaseLost
    await mark_overtaken(connection, claimed.run, manifest.counted, now_ms)


def _decision(manifest: Manifest) -> RunMove:
    if manifest.deliveries:
        return RunMove.DECIDE
    return RunMove.RECORD if manifest.corrections else RunMove.DECIDE_EMPTY


async def _corrected(connection: Connection, claimed: Claim) -> int:
    """How many corrections of the run the holder staged."""
    rows = run_corrections.c
    question = select(func.count()).where(
        rows.run_id == claimed.run.id, rows.holder == claimed.holder
    )
    return await fetch_int(connection, question)


async def _appoint(connection: Connection, claimed: Claim, now_ms: int) -> int:
    """Make the staged bodies of the holder the deliveries of the run; how many. Those that could
    not be made have failed, and keep no bytes.
    """
    bodies = report_bodies.c
    mine = and_(bodies.run_id == claimed.run.id, bodies.holder == claimed.holder)
    made = bodies.failure.is_(None)
    row: dict[str, ColumnElement[Any]] = {
        "id": bodies.delivery_id,
        "run_id": bodies.run_id,
        "report_id": literal(claimed.report.id),
        "holder": bodies.holder,
        "subject": bodies.subject,
        "number": bodies.number,
        "sequence": bodies.sequence,
        "revision": literal(claimed.run.revision),
        "state": case((made, DeliveryState.PENDING.value), else_=DeliveryState.FAILED.value),
        "attempts": literal(0),
        "due_at_ms": case((made, literal(now_ms, BigInteger))),
        "ended_at_ms": case((bodies.failure.is_not(None), literal(now_ms, BigInteger))),
        "created_at_ms": literal(now_ms),
        "digest": bodies.digest,
        "usage_digest": bodies.usage_digest,
        "supersedes": bodies.supersedes,
        "failure": bodies.failure,
    }
    statement = insert(connection, report_deliveries)
    appointed = await connection.execute(
        statement.from_select(list(row), select(*row.values()).where(mine))
    )
    await _drop_staged(connection, claimed.run.id, lambda table: table.c.holder != claimed.holder)
    await connection.execute(delete(report_bodies).where(mine, bodies.failure.is_not(None)))
    return appointed.rowcount


async def _count_failures(
    connection: Connection, run_id: str, deliveries: int, now_ms: int
) -> None:
    """Deliveries that could not be made count as failed, and the run says why. Where there are no
    others, it has ended.
    """
    these = report_deliveries.c
    mine = and_(these.run_id == run_id, these.failure.is_not(None))
    failed = await fetch_int(connection, select(func.count()).where(mine))
    if not failed:
        return
    first = select(these.failure).where(mine).order_by(these.number).limit(1)
    why = (await connection.execute(first)).scalar_one()
    values: dict[str, object] = {
        "failed": failed,
        "reason": f"{failed} of {deliveries} deliveries could not be made. The first: {why}",
    }
    if failed == deliveries:
        values |= {"state": run_target(RunMove.NONE_DELIVERED).value, "ended_at_ms": now_ms}
    await connection.execute(update(report_runs).where(report_runs.c.id == run_id).values(values))


async def is_winner(connection: Connection, run: str, holder: str) -> bool:
    """Whether a run was decided by this holder."""
    question = select(report_runs.c.id).where(
        report_runs.c.id == run,
        report_runs.c.lease_holder == holder,
        report_runs.c.decided_at_ms.is_not(None),
    )
    return (await connection.execute(question)).one_or_none() is not None


async def close(
    connection: Connection,
    claimed: Claim,
    by: RunMove,
    reason: str,
    now_ms: int,
    counted: LogEnds | None = None,
) -> bool:
    """End a run without deliveries. Of a late one that found nothing new, nothing is left."""
    run = claimed.run
    statement = (
        update(report_runs)
        .where(_held(run.id, claimed.holder))
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
        await drop_staged(connection, run.id)
    if closed and by is RunMove.UNCHANGED:
        await _hold_good(connection, run, counted)
        if run.trigger is Trigger.LATE:
            await connection.execute(delete(report_runs).where(report_runs.c.id == run.id))
    return closed


async def _hold_good(connection: Connection, run: Run, counted: LogEnds | None) -> None:
    """The figures of the run before this one are found to hold good further down the log."""
    if counted is not None and (before := await followed(connection, run)) is not None:
        statement = update(report_runs).where(report_runs.c.id == before.id)
        await connection.execute(statement.values(counted=counted_text(counted)))


def _held(run: str, holder: str) -> ColumnElement[bool]:
    return and_(
        report_runs.c.id == run,
        report_runs.c.state == RunState.MATERIALIZING.value,
        report_runs.c.lease_holder == holder,
    )


async def is_held(connection: Connection, claimed: Claim) -> bool:
    """Whether a holder has its run still; then nobody takes it before the transaction ends."""
    question = select(report_runs.c.id).where(_held(claimed.run.id, claimed.holder))
    found = await connection.execute(question.with_for_update(read=True))
    return found.one_or_none() is not None


async def drop_staged(connection: Connection, run: str) -> None:
    """Drop all that was staged of a run, by whomever."""
    await _drop_staged(connection, run, lambda _: literal(value=True))


async def _drop_staged(
    connection: Connection, run: str, which: Callable[[Table], ColumnElement[bool]]
) -> None:
    for table in (report_bodies, run_corrections):
        await connection.execute(delete(table).where(table.c.run_id == run, which(table)))
