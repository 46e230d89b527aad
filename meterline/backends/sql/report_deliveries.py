"""What is sent, in SQL: claims, ends of attempts, replays. Functions over a connection of one
transaction.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.backends.sql.engine import insert
from meterline.backends.sql.report_definitions import report_of, tell
from meterline.backends.sql.report_secrets import signing
from meterline.backends.sql.schema_reports import (
    report_attempts,
    report_bodies,
    report_deliveries,
    report_runs,
    reports,
)
from meterline.change import Action
from meterline.problem import Problem, ProblemType, not_found
from meterline.report import ReportState
from meterline.report_ports import AttemptEnd, Due, Parcel
from meterline.run import (
    DELIVERY_MOVES,
    Attempt,
    AttemptOutcome,
    DeliveryMove,
    DeliveryState,
    RunMove,
    RunState,
    delivery_sources,
    outcome_of,
    run_target,
)

_FAILED: Final = frozenset({DeliveryState.FAILED, DeliveryState.CANCELLED})
_ENDED: Final = _FAILED | {DeliveryState.DELIVERED}


async def due(connection: AsyncConnection, now_ms: int) -> list[Due]:
    """Active reports with something due, the longest waiting first."""
    first = (
        select(func.min(report_deliveries.c.due_at_ms))
        .where(
            report_deliveries.c.report_id == reports.c.id,
            report_deliveries.c.due_at_ms.is_not(None),
        )
        .correlate(reports)
        .scalar_subquery()
    )
    waiting = (
        select(reports.c.id, reports.c.endpoint, first.label("due_at_ms"))
        .where(reports.c.deleted_at_ms.is_(None), reports.c.state == ReportState.ACTIVE.value)
        .subquery("waiting")
    )
    question = (
        select(waiting)
        .where(waiting.c.due_at_ms <= now_ms)
        .order_by(waiting.c.due_at_ms, waiting.c.id)
    )
    return [Due(row.id, row.endpoint) for row in await connection.execute(question)]


async def claim(
    connection: AsyncConnection, report_id: str, now_ms: int, lease_until_ms: int, limit: int
) -> list[Parcel]:
    """Take due deliveries of an active report, each with a new attempt."""
    deliveries = report_deliveries.c
    free = (
        select(deliveries.id)
        .join(reports, reports.c.id == deliveries.report_id)
        .where(
            deliveries.report_id == report_id,
            deliveries.due_at_ms <= now_ms,
            reports.c.state == ReportState.ACTIVE.value,
            reports.c.deleted_at_ms.is_(None),
        )
        .order_by(deliveries.due_at_ms, deliveries.sequence)
        .limit(limit)
        .with_for_update(skip_locked=True, of=report_deliveries)
    )
    ids = (await connection.execute(free)).scalars().all()
    if not ids:
        return []
    # An attempt that is still open under an ended lease: its courier died, before or after sending.
    await connection.execute(
        update(report_attempts)
        .where(
            report_attempts.c.delivery_id.in_(ids),
            report_attempts.c.outcome == AttemptOutcome.SENDING.value,
        )
        .values(
            outcome=AttemptOutcome.LOST.value,
            reason="the courier ended before it recorded an answer; it may have arrived",
        )
    )
    await connection.execute(
        update(report_deliveries)
        .where(deliveries.id.in_(ids))
        .values(
            state=DeliveryState.SENDING.value,
            attempts=deliveries.attempts + 1,
            due_at_ms=lease_until_ms,
        )
    )
    secrets = await signing(connection, report_id, now_ms)
    parcels = await _parcels(connection, ids, secrets)
    attempts = [
        {
            "delivery_id": parcel.delivery_id,
            "number": parcel.attempt,
            "started_at_ms": now_ms,
            "outcome": AttemptOutcome.SENDING.value,
            "duration_ms": 0,
            "reason": "",
            "answer": b"",
        }
        for parcel in parcels
    ]
    await connection.execute(insert(connection, report_attempts), attempts)
    return parcels


async def _parcels(
    connection: AsyncConnection, ids: Sequence[str], secrets: tuple[bytes, ...]
) -> list[Parcel]:
    """The parcels of deliveries of one report, which are signed with these secrets."""
    deliveries, bodies = report_deliveries.c, report_bodies.c
    question = (
        select(
            deliveries.id,
            deliveries.run_id,
            deliveries.report_id,
            deliveries.attempts,
            deliveries.attempts_before,
            deliveries.created_at_ms,
            reports.c.namespace,
            reports.c.endpoint,
            reports.c.user_info_sealed,
            bodies.body,
        )
        .join(reports, reports.c.id == deliveries.report_id)
        .join(
            report_bodies,
            and_(
                bodies.run_id == deliveries.run_id,
                bodies.holder == deliveries.holder,
                bodies.number == deliveries.number,
            ),
        )
        .where(deliveries.id.in_(ids))
        .order_by(deliveries.sequence)
    )
    return [
        Parcel(
            delivery_id=row.id,
            run_id=row.run_id,
            report_id=row.report_id,
            namespace=row.namespace,
            attempt=int(row.attempts),
            attempts_before=int(row.attempts_before),
            created_at_ms=int(row.created_at_ms),
            endpoint=row.endpoint,
            signing_secrets_sealed=secrets,
            user_info_sealed=row.user_info_sealed,
            body=row.body,
        )
        for row in await connection.execute(question)
    ]


async def record(connection: AsyncConnection, ends: Sequence[AttemptEnd], now_ms: int) -> None:
    """Write the ends of attempts, move their deliveries and, after the last of a run, the run."""
    ids = sorted({end.attempt.delivery_id for end in ends})
    question = (
        select(
            report_deliveries.c.id,
            report_deliveries.c.run_id,
            report_deliveries.c.state,
            report_deliveries.c.attempts,
            report_deliveries.c.attempts_before,
        )
        .where(report_deliveries.c.id.in_(ids))
        .order_by(report_deliveries.c.id)
        .with_for_update()
    )
    there = {row.id: row for row in await connection.execute(question)}
    states = {name: DeliveryState(row.state) for name, row in there.items()}
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # by run: delivered, failed
    for end in ends:
        await _write_attempt(connection, end.attempt)
        row = there[end.attempt.delivery_id]
        before = states[row.id]
        if not _holds(end, before, int(row.attempts), int(row.attempts_before)):
            continue
        after = DELIVERY_MOVES[before, end.move]
        states[row.id] = after
        await _write_state(connection, end.attempt, after, now_ms)
        delivered, failed = _difference(before, after)
        counted[row.run_id][0] += delivered
        counted[row.run_id][1] += failed
    for run_id, (delivered, failed) in sorted(counted.items()):
        await _count(connection, run_id, delivered, failed, now_ms)


def _difference(before: DeliveryState, after: DeliveryState) -> tuple[int, int]:
    """What a move adds to the counts of delivered and of failed ones."""
    delivered = (after is DeliveryState.DELIVERED) - (before is DeliveryState.DELIVERED)
    return delivered, (after in _FAILED) - (before in _FAILED)


def _holds(end: AttemptEnd, before: DeliveryState, attempts: int, attempts_before: int) -> bool:
    if end.move is DeliveryMove.CONFIRM:
        return before is not DeliveryState.DELIVERED and end.attempt.number > attempts_before
    return (before, end.move) in DELIVERY_MOVES and end.attempt.number == attempts


async def _write_attempt(connection: AsyncConnection, attempt: Attempt) -> None:
    await connection.execute(
        update(report_attempts)
        .where(
            report_attempts.c.delivery_id == attempt.delivery_id,
            report_attempts.c.number == attempt.number,
        )
        .values(
            outcome=attempt.outcome.value,
            duration_ms=attempt.duration_ms,
            status=attempt.status,
            reason=attempt.reason,
            answer=attempt.answer,
            next_attempt_at_ms=attempt.next_attempt_at_ms,
        )
    )


async def _write_state(
    connection: AsyncConnection, attempt: Attempt, after: DeliveryState, now_ms: int
) -> None:
    ended = after in _ENDED
    await connection.execute(
        update(report_deliveries)
        .where(report_deliveries.c.id == attempt.delivery_id)
        .values(
            state=after.value,
            due_at_ms=None if ended else attempt.next_attempt_at_ms,
            ended_at_ms=now_ms if ended else None,
        )
    )


async def _count(
    connection: AsyncConnection, run_id: str, delivered: int, failed: int, now_ms: int
) -> None:
    if not delivered and not failed:
        return
    runs = report_runs.c
    statement = (
        update(report_runs)
        .where(runs.id == run_id)
        .values(delivered=runs.delivered + delivered, failed=runs.failed + failed)
        .returning(runs.delivered, runs.failed, runs.deliveries, runs.state)
    )
    row = (await connection.execute(statement)).one()
    ended = row.delivered + row.failed == row.deliveries
    by = outcome_of(row.delivered, row.deliveries) if ended else RunMove.REOPEN
    state = run_target(by)
    if RunState(row.state) is state:
        return
    await connection.execute(
        update(report_runs)
        .where(runs.id == run_id)
        .values(state=state.value, ended_at_ms=now_ms if ended else None)
    )


async def replay(
    connection: AsyncConnection, namespace: str, delivery_id: str, now_ms: int, author: str
) -> None:
    """Have a delivery sent again from its first retry on. Raises `Problem`."""
    deliveries = report_deliveries.c
    owner = (
        select(reports)
        .join(report_deliveries, deliveries.report_id == reports.c.id)
        .where(deliveries.id == delivery_id, reports.c.namespace == namespace)
        .with_for_update(of=reports)
    )
    report = (await connection.execute(owner)).one_or_none()
    if report is None:
        raise not_found("delivery", delivery_id)
    if report.deleted_at_ms is not None:
        detail = f"The report {report.slug!r} was deleted: nothing is sent for it any more."
        raise Problem(ProblemType.CONFLICT, detail)
    question = select(deliveries.run_id, deliveries.state, deliveries.subject).where(
        deliveries.id == delivery_id
    )
    row = (await connection.execute(question.with_for_update())).one()
    before = DeliveryState(row.state)
    if before is DeliveryState.PENDING:
        return
    if before not in delivery_sources(DeliveryMove.REPLAY):
        detail = "It is being sent just now; ask again when that attempt has ended."
        raise Problem(ProblemType.CONFLICT, detail)
    await reopen(connection, {delivery_id: (row.run_id, before)}, now_ms)
    await tell(connection, report_of(report), Action.REPLAY, now_ms, author, delivery_id)


async def reopen(
    connection: AsyncConnection, those: Mapping[str, tuple[str, DeliveryState]], now_ms: int
) -> None:
    """Send deliveries again as if for the first time, as soon as their reports may send: by id,
    their runs and states, which can be replayed. Their rows are locked.
    """
    after = DeliveryState.PENDING
    await connection.execute(
        update(report_deliveries)
        .where(report_deliveries.c.id.in_(those))
        .values(
            state=after.value,
            attempts_before=report_deliveries.c.attempts,
            replayed_at_ms=now_ms,
            due_at_ms=now_ms,
            ended_at_ms=None,
        )
    )
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # by run: delivered, failed
    for run_id, before in those.values():
        delivered, failed = _difference(before, after)
        counted[run_id][0] += delivered
        counted[run_id][1] += failed
    for run_id, (delivered, failed) in sorted(counted.items()):
        await _count(connection, run_id, delivered, failed, now_ms)
