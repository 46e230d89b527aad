"""What came of sending, in SQL: ends of attempts, replays. Functions over a connection of one
transaction.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, select, update
from sqlalchemy.sql import ColumnElement

from meterline.access import COMMAND, Action
from meterline.backends.control_store.among import among
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.endpoints import hear
from meterline.backends.control_store.engine import put
from meterline.backends.control_store.one_step import Change, Question
from meterline.backends.control_store.reports.definitions import tell
from meterline.backends.control_store.reports.listing import delivery
from meterline.backends.control_store.tables.reports import (
    report_attempts,
    report_deliveries,
    report_last_errors,
    report_runs,
    reports,
)
from meterline.delivery import (
    DELIVERY_MOVES,
    Attempt,
    AttemptEnd,
    AttemptOutcome,
    Delivery,
    DeliveryMove,
    DeliveryState,
    EndpointChange,
    HealthTerms,
)
from meterline.problem import conflict, not_found
from meterline.report import RunMove, RunState, outcome_of, run_target

_FAILED: Final = frozenset({DeliveryState.FAILED, DeliveryState.CANCELLED})
_ENDED: Final = _FAILED | {DeliveryState.DELIVERED}
_ATTEMPT_ENDS: Final = (
    "started_at_ms",  # a claim may have waited for its place
    "outcome",
    "duration_ms",
    "status",
    "reason",
    "answer",
    "next_attempt_at_ms",
)
# Built once: to build a statement takes SQLAlchemy as long as to execute it.
_SENT: Final = Question(
    select(
        report_deliveries.c.id,
        report_deliveries.c.run_id,
        report_deliveries.c.report_id,
        report_deliveries.c.state,
        report_deliveries.c.attempts,
        report_deliveries.c.attempts_before,
    )
    .where(among(report_deliveries.c.id, "ids"))
    .order_by(report_deliveries.c.id)
    .with_for_update()
)
_END_ATTEMPTS: Final = Change(report_attempts, ("delivery_id", "number"), _ATTEMPT_ENDS)
_END: Final = (
    update(report_deliveries)
    .where(among(report_deliveries.c.id, "ids"))
    .values(state=bindparam("state"), due_at_ms=None, ended_at_ms=bindparam("ended_at_ms"))
)
_LATER: Final = Change(report_deliveries, ("id",), ("state", "due_at_ms", "ended_at_ms"))
_runs = report_runs.c
_ADD: Final = (
    update(report_runs)
    .where(_runs.id == bindparam("of_id"))
    .values(
        delivered=_runs.delivered + bindparam("more_delivered"),
        failed=_runs.failed + bindparam("more_failed"),
    )
)
_COUNTS: Final = select(
    _runs.id, _runs.state, _runs.reason, _runs.delivered, _runs.failed, _runs.deliveries
).where(among(_runs.id, "ids"))
_MOVE: Final = (
    update(report_runs)
    .where(_runs.id == bindparam("of_id"))
    .values({name: bindparam(name) for name in ("state", "reason", "ended_at_ms")})
)


def in_hand(state: DeliveryState, due_at_ms: int | None, now_ms: int) -> bool:
    """Whether a dispatcher has a delivery: what is being sent is due again when its lease ends."""
    return state is DeliveryState.SENDING and due_at_ms is not None and due_at_ms > now_ms


async def write_lost(connection: Connection, ids: Sequence[str]) -> None:
    """An attempt that is still open under an ended lease: its dispatcher died, before or after
    sending.
    """
    reason = "the dispatcher ended before it recorded an answer; it may have arrived"
    of_them = report_attempts.c.delivery_id.in_(ids)
    await end_open(connection, of_them, AttemptOutcome.LOST, reason)


async def end_open(
    connection: Connection, which: ColumnElement[bool], outcome: AttemptOutcome, reason: str
) -> None:
    """Those of some attempts that are still open end so."""
    await connection.execute(
        update(report_attempts)
        .where(which, report_attempts.c.outcome == AttemptOutcome.SENDING.value)
        .values(outcome=outcome.value, reason=reason)
    )


async def record(
    connection: Connection,
    ends: Sequence[AttemptEnd],
    now_ms: int,
    terms: HealthTerms | None = None,
) -> list[EndpointChange]:
    """Write the ends of attempts, move their deliveries and, after the last of a run, the run. What
    they tell of endpoints is kept too, and returned where it puts one down or up.
    """
    ids = sorted({end.attempt.delivery_id for end in ends})
    there = {row.id: row for row in await _SENT.rows(connection, {"ids": ids})}
    states = {name: DeliveryState(row.state) for name, row in there.items()}
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # by run: delivered, failed
    moved: dict[str, Attempt] = {}  # by delivery: the attempt that moved it last
    for end in ends:
        row = there[end.attempt.delivery_id]
        before = states[row.id]
        if not _holds(end, before, row.attempts, row.attempts_before):
            continue
        after = DELIVERY_MOVES[before, end.move]
        states[row.id] = after
        moved[row.id] = end.attempt
        delivered, failed = _difference(before, after)
        counted[row.run_id][0] += delivered
        counted[row.run_id][1] += failed
    await _write_attempts(connection, [end.attempt for end in ends])
    await _write_states(connection, moved, states, now_ms)
    await _count(connection, counted, now_ms)
    failures = [it.attempt for it in ends if it.move is not DeliveryMove.CONFIRM]
    await _put_errors(connection, [(there[it.delivery_id].report_id, it) for it in failures])
    observed = [end.observed for end in ends if end.observed is not None]
    return await hear(connection, observed, now_ms, terms or HealthTerms())


def _difference(before: DeliveryState, after: DeliveryState) -> tuple[int, int]:
    """What a move adds to the counts of delivered and of failed ones."""
    delivered = (after is DeliveryState.DELIVERED) - (before is DeliveryState.DELIVERED)
    return delivered, (after in _FAILED) - (before in _FAILED)


def _holds(end: AttemptEnd, before: DeliveryState, attempts: int, attempts_before: int) -> bool:
    if end.move is DeliveryMove.CONFIRM:
        return before is not DeliveryState.DELIVERED and end.attempt.number > attempts_before
    return (before, end.move) in DELIVERY_MOVES and end.attempt.number == attempts


async def _put_errors(connection: Connection, failed: Sequence[tuple[str, Attempt]]) -> None:
    """Keep the newest of attempts that did not arrive, each with the id of its report."""
    newest = dict(sorted(failed, key=lambda one: one[1].started_at_ms))  # the last one stays
    rows = [
        {
            "report_id": report_id,
            "delivery_id": attempt.delivery_id,
            "at_ms": attempt.started_at_ms,
            "outcome": attempt.outcome.value,
            "status": attempt.status,
            "reason": attempt.reason,
        }
        for report_id, attempt in sorted(newest.items())  # one order: nobody waits for another
    ]
    if rows:
        await put(connection, report_last_errors, rows, "at_ms")


async def _write_attempts(connection: Connection, attempts: Sequence[Attempt]) -> None:
    rows = {
        (it.delivery_id, it.number): (
            it.delivery_id,
            it.number,
            it.started_at_ms,
            it.outcome.value,
            it.duration_ms,
            it.status,
            it.reason,
            it.answer,
            it.next_attempt_at_ms,
        )
        for it in attempts
    }
    await _END_ATTEMPTS.make(connection, list(rows.values()))


async def _write_states(
    connection: Connection,
    moved: Mapping[str, Attempt],
    states: Mapping[str, DeliveryState],
    now_ms: int,
) -> None:
    """Those that ended are alike: one statement for each state that they ended in."""
    ended: dict[str, list[str]] = defaultdict(list)
    later = []
    for name, attempt in sorted(moved.items()):
        state = states[name]
        if state in _ENDED:
            ended[state.value].append(name)
        else:
            later.append((name, state.value, attempt.next_attempt_at_ms, None))
    for value, ids in ended.items():
        await connection.execute(_END, {"ids": ids, "state": value, "ended_at_ms": now_ms})
    if later:
        await _LATER.make(connection, later)


async def _count(connection: Connection, counted: Mapping[str, Sequence[int]], now_ms: int) -> None:
    """Add to what runs count, by run: delivered, failed. The last of a run ends it, and one that is
    open again is not ended any more.
    """
    more = [
        {"of_id": name, "more_delivered": delivered, "more_failed": failed}
        for name, (delivered, failed) in sorted(counted.items())  # one order for all that write
        if delivered or failed
    ]
    if not more:
        return
    await connection.execute(_ADD, more)
    moves = []
    for row in await connection.execute(_COUNTS, {"ids": [it["of_id"] for it in more]}):
        ended = row.delivered + row.failed == row.deliveries
        by = outcome_of(row.delivered, row.deliveries) if ended else RunMove.REOPEN
        state = run_target(by)
        if RunState(row.state) is state:
            continue
        # why it ended before does not hold any more
        reason = row.reason if ended else ""
        ended_at_ms = now_ms if ended else None
        moves.append(
            {"of_id": row.id, "state": state.value, "reason": reason, "ended_at_ms": ended_at_ms}
        )
    if moves:
        await connection.execute(_MOVE, moves)


async def _mind_bytes(connection: Connection, run_id: str) -> None:
    """Raise `Problem` where the bytes of a run are going or gone; else they stay until the
    transaction ends.
    """
    question = select(report_runs.c.bytes_removed_to).where(report_runs.c.id == run_id)
    if (await connection.execute(question.with_for_update())).scalar_one() is not None:
        raise conflict(
            "The body of this delivery was removed; only its digest is kept. To send its figures"
            " again, request a revision of the window (`run-report` with `revise`)."
        )


async def replay(
    connection: Connection,
    namespace: str,
    delivery_id: str,
    now_ms: int,
    *,
    author: str = COMMAND,
) -> Delivery:
    """Have a delivery sent again from its first retry on: as it is then. Raises `Problem`."""
    await _replay(connection, namespace, delivery_id, now_ms, author)
    found = await delivery(connection, namespace, delivery_id)
    assert found is not None, "it was there a statement ago, and is locked"
    return found


async def _replay(
    connection: Connection, namespace: str, delivery_id: str, now_ms: int, author: str
) -> None:
    deliveries = report_deliveries.c
    owner = (
        select(reports)
        .join(report_deliveries, deliveries.report_id == reports.c.id)
        .where(deliveries.id == delivery_id, reports.c.namespace == namespace)
        .with_for_update(of=reports, key_share=True)  # who records refers to it, and must not wait
    )
    report = (await connection.execute(owner)).one_or_none()
    if report is None:
        raise not_found("delivery", delivery_id)
    if report.deleted_at_ms is not None:
        raise conflict(f"The report {report.slug!r} was deleted: nothing is sent for it any more.")
    question = select(
        deliveries.run_id, deliveries.state, deliveries.due_at_ms, deliveries.failure
    ).where(deliveries.id == delivery_id)
    row = (await connection.execute(question.with_for_update())).one()
    if row.failure is not None:
        raise conflict(f"It has no body. {row.failure}")
    before = DeliveryState(row.state)
    if before is DeliveryState.PENDING:
        return
    if in_hand(before, row.due_at_ms, now_ms):
        raise conflict("It is being sent just now; ask again when that attempt has ended.")
    await _mind_bytes(connection, row.run_id)
    await reopen(connection, {delivery_id: (row.run_id, before)}, now_ms)
    await tell(connection, report, Action.REPLAY, now_ms, author, delivery_id)


def again(now_ms: int) -> dict[str, object]:
    """The columns of a delivery that is sent again as if for the first time."""
    return {
        "state": DeliveryState.PENDING.value,
        "attempts_before": report_deliveries.c.attempts,
        "replayed_at_ms": now_ms,
        "due_at_ms": now_ms,
        "ended_at_ms": None,
    }


async def reopen(
    connection: Connection, those: Mapping[str, tuple[str, DeliveryState]], now_ms: int
) -> None:
    """Send deliveries again as if for the first time, as soon as their reports may send: by id,
    their runs and states, which can be replayed. Their rows are locked. Those being sent are in
    nobody's hand.
    """
    after = DeliveryState.PENDING
    lost = [name for name, (_, before) in those.items() if before is DeliveryState.SENDING]
    if lost:
        await write_lost(connection, lost)
    await connection.execute(
        update(report_deliveries).where(report_deliveries.c.id.in_(those)).values(again(now_ms))
    )
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # by run: delivered, failed
    for run_id, before in those.values():
        delivered, failed = _difference(before, after)
        counted[run_id][0] += delivered
        counted[run_id][1] += failed
    await _count(connection, counted, now_ms)
