"""What is to be sent, in SQL: what is due, claims of it, and claims that are undone. Functions over
a connection of one transaction.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import accumulate, zip_longest
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Integer,
    Row,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql import ColumnElement

from meterline import limits
from meterline.backends.control_store.among import among
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.endpoints import (
    HEALTH_COLUMNS,
    give_probe_back,
    health_of,
    take_probes,
)
from meterline.backends.control_store.deliveries.results import end_open, write_lost
from meterline.backends.control_store.one_step import Change, Question
from meterline.backends.control_store.reports.listing import bodies as bodies_of
from meterline.backends.control_store.tables.reports import (
    BODY_OF_DELIVERY,
    report_attempts,
    report_bodies,
    report_deliveries,
    report_endpoints,
    report_secrets,
    reports,
)
from meterline.delivery import AttemptOutcome, ClaimedDelivery, DeliveryState, Due, SendGrant
from meterline.report import ReportState

_deliveries = report_deliveries.c

_BYTES: Final = func.length(report_bodies.c.body, type_=Integer)


def _free_in(state: DeliveryState) -> Question:
    """Due deliveries of an active report in a state, locked. Those that another dispatcher is just
    taking are left to it. Of deliveries that are due at once the order is that of their ids, which
    are hashes: whichever of a run's subjects a receiver fails for, they are spread over the run.
    It is the index's order, so small bodies can come along: nothing is sorted.
    """
    body = case((_BYTES <= limits.BODY_SMALL_BYTES_MAX, report_bodies.c.body))
    return Question(
        select(
            _deliveries.id,
            _deliveries.run_id,
            _deliveries.report_id,
            _deliveries.attempts,
            _deliveries.attempts_before,
            func.coalesce(_deliveries.replayed_at_ms, _deliveries.created_at_ms).label("since_ms"),
            _deliveries.due_at_ms,
            _BYTES.label("bytes"),
            body.label("body"),
        )
        .join(reports, reports.c.id == _deliveries.report_id)
        .join(report_bodies, BODY_OF_DELIVERY)
        .where(
            _deliveries.report_id == bindparam("of_report"),
            _deliveries.state == state.value,
            _deliveries.due_at_ms <= bindparam("now_ms"),
            reports.c.state == ReportState.ACTIVE.value,
            reports.c.deleted_at_ms.is_(None),
        )
        .order_by(_deliveries.due_at_ms, _deliveries.id)
        .limit(bindparam("most"))
        .with_for_update(skip_locked=True, of=report_deliveries)
    )


def _earliest(state: DeliveryState) -> ScalarSelect[Any]:
    """When the first of a report's deliveries in a state is due: one look into the index."""
    return (
        select(func.min(report_deliveries.c.due_at_ms))
        .where(
            report_deliveries.c.report_id == reports.c.id,
            report_deliveries.c.state == state.value,
            report_deliveries.c.due_at_ms.is_not(None),
        )
        .correlate(reports)
        .scalar_subquery()
    )


def _due_reports() -> Select[Any]:
    waiting = (
        select(
            reports.c.id,
            reports.c.namespace,
            reports.c.endpoint,
            _earliest(DeliveryState.PENDING).label("first_ms"),
            _earliest(DeliveryState.RETRYING).label("retry_ms"),
            _earliest(DeliveryState.SENDING).label("lost_ms"),
        )
        .where(reports.c.deleted_at_ms.is_(None), reports.c.state == ReportState.ACTIVE.value)
        .subquery("waiting")
    )
    known = and_(
        report_endpoints.c.namespace == waiting.c.namespace,
        report_endpoints.c.endpoint == waiting.c.endpoint,
    )
    instants = (waiting.c.first_ms, waiting.c.retry_ms, waiting.c.lost_ms)
    return (
        select(waiting, *HEALTH_COLUMNS)
        .outerjoin(report_endpoints, known)
        .where(or_(*(instant <= bindparam("now_ms") for instant in instants)))
    )


# Built once: to build a statement takes SQLAlchemy longer than to execute it.
_DUE: Final = _due_reports()
_FIRSTS: Final = _free_in(DeliveryState.PENDING)
_RETRIES: Final = _free_in(DeliveryState.RETRYING)
_LOST: Final = _free_in(DeliveryState.SENDING)  # their dispatcher died
_TAKE: Final = (
    update(report_deliveries)
    .where(among(_deliveries.id, "ids"))
    .values(
        state=DeliveryState.SENDING.value,
        attempts=_deliveries.attempts + 1,
        due_at_ms=bindparam("until_ms"),
    )
)
_ATTEMPT: Final[dict[str, ColumnElement[Any]]] = {
    "delivery_id": _deliveries.id,
    "number": _deliveries.attempts,
    "started_at_ms": bindparam("now_ms", type_=BigInteger),
    "outcome": literal(AttemptOutcome.SENDING.value),
    "duration_ms": literal(0),
    "reason": literal(""),
    "answer": literal(b""),
    "endpoint": reports.c.endpoint,
}
# From the rows themselves: a row of parameters for each costs as much as the attempt's own.
_OPEN_ATTEMPTS: Final = insert(report_attempts).from_select(
    list(_ATTEMPT),
    select(*_ATTEMPT.values())
    .join(reports, reports.c.id == _deliveries.report_id)
    .where(among(_deliveries.id, "ids")),
)
_of_reports = reports.c
_NOT_SENT: Final = "not sent: its turn had not come when that was stopped"
_UNDO: Final = Change(report_deliveries, ("id",), ("state", "attempts", "due_at_ms"))
_SENDERS: Final = (
    select(
        _of_reports.id,
        _of_reports.namespace,
        _of_reports.endpoint,
        _of_reports.user_info_sealed,
        _of_reports.headers_sealed,
        _of_reports.signing_secret_sealed,
        report_secrets.c.secret_sealed.label("retired"),
    )
    .outerjoin(
        report_secrets,
        and_(
            report_secrets.c.report_id == _of_reports.id,
            report_secrets.c.signs_until_ms > bindparam("now_ms"),
        ),
    )
    .where(among(_of_reports.id, "ids"))
    .order_by(_of_reports.id, report_secrets.c.number.desc())
)


async def due(connection: Connection, now_ms: int) -> list[Due]:
    """Active reports with something due, the longest waiting first."""
    rows = await connection.execute(_DUE, {"now_ms": now_ms})
    found = [_due_of(row, now_ms) for row in rows]
    return sorted(found, key=lambda it: (it.due_at_ms, it.report_id))


def _due_of(row: Row[Any], now_ms: int) -> Due:
    instants = [at_ms for at_ms in (row.first_ms, row.retry_ms, row.lost_ms) if at_ms is not None]
    return Due(
        report_id=row.id,
        endpoint=row.endpoint,
        namespace=row.namespace,
        due_at_ms=min(instants),
        first=row.first_ms is not None and row.first_ms <= now_ms,
        others=any(at_ms is not None and at_ms <= now_ms for at_ms in (row.retry_ms, row.lost_ms)),
        health=health_of(row),
    )


async def claim(
    connection: Connection, grants: Sequence[SendGrant], now_ms: int, lease_until_ms: int
) -> list[ClaimedDelivery]:
    """Take due deliveries of active reports, each with a new attempt: a look or two at each report,
    and a few statements for all.
    """
    found = [await _next(connection, it, now_ms) for it in grants]
    free = _bounded([rows for rows in found if rows])
    probed = {it.report_id for it in grants if it.probe} & {row.report_id for row in free}
    probes = await take_probes(connection, probed, now_ms, lease_until_ms) if probed else set()
    taken = [row for row in free if row.report_id not in probed - probes]
    if not taken:
        return []
    if lost := [row.id for row in taken if row.attempts]:
        await write_lost(connection, lost)
    await connection.execute(_TAKE, {"ids": [it.id for it in taken], "until_ms": lease_until_ms})
    await connection.execute(_OPEN_ATTEMPTS, {"ids": [it.id for it in taken], "now_ms": now_ms})
    return await _claimed_deliveries(connection, taken, probes, now_ms)


async def _next(connection: Connection, grant: SendGrant, now_ms: int) -> list[Any]:
    """What is claimed: first tries, then retries and what a dispatcher's death left. But as many of
    these as the grant says go first, and up to half of it to those that have given way for
    `RETRY_WAIT_MS`: first tries may never end. An odd one is theirs every other second: where
    answers are slow, claims are of one. A probe is not: those that failed before an outage have
    soon waited for so long, and would be every probe of it.
    """
    report_id, count = grant.report_id, grant.count
    giving_way: list[Any] = []
    if grant.others:
        for question in (_RETRIES, _LOST):
            giving_way += await _free(connection, question, report_id, now_ms, count)
        giving_way.sort(key=_order)
    aged_ms = now_ms - limits.RETRY_WAIT_MS
    half = 0 if grant.probe else (count + now_ms // 1_000 % 2) // 2
    aged = sum(row.due_at_ms <= aged_ms for row in giving_way[:half])
    before = max(aged, min(grant.retries, len(giving_way)))
    first = await _free(connection, _FIRSTS, report_id, now_ms, count - before)
    return [*giving_way[:before], *first, *giving_way[before:]][:count]


def _order(row: Any) -> tuple[int, str]:
    return row.due_at_ms, row.id


async def _free(
    connection: Connection, question: Question, report_id: str, now_ms: int, count: int
) -> list[Any]:
    if not count:
        return []
    asked = {"of_report": report_id, "now_ms": now_ms, "most": count}
    found = await question.rows(connection, asked)
    return sorted(found, key=_order)


def _bounded(of_reports: Sequence[Sequence[Any]]) -> list[Any]:
    """The first of each report, and as many of the others, in turns, as one claim may hold in
    memory: a report with large bodies keeps nothing from the others.
    """
    firsts = [rows[0] for rows in of_reports]
    turns = zip_longest(*(rows[1:] for rows in of_reports))
    others = [row for turn in turns for row in turn if row is not None]
    before = sum(row.bytes for row in firsts)
    sizes = accumulate((row.bytes for row in others), initial=before)
    next(sizes)
    return firsts + [
        row for row, size in zip(others, sizes, strict=True) if size <= limits.CLAIM_BYTES_MAX
    ]


async def _claimed_deliveries(
    connection: Connection, taken: Sequence[Any], probes: Collection[str], now_ms: int
) -> list[ClaimedDelivery]:
    """Deliveries as claimed, in their order."""
    senders: dict[str, list[Any]] = defaultdict(list)
    asked = {"ids": list({it.report_id for it in taken}), "now_ms": now_ms}
    for row in await connection.execute(_SENDERS, asked):
        senders[row.id].append(row)
    secrets = {name: _secrets(rows) for name, rows in senders.items()}
    bodies = await bodies_of(connection, [it.id for it in taken if it.body is None])
    return [
        ClaimedDelivery(
            delivery_id=it.id,
            run_id=it.run_id,
            report_id=it.report_id,
            namespace=sender.namespace,
            attempt=it.attempts + 1,
            attempts_before=it.attempts_before,
            patient_since_ms=it.since_ms,
            endpoint=sender.endpoint,
            signing_secrets_sealed=secrets[it.report_id],
            user_info_sealed=sender.user_info_sealed,
            headers_sealed=sender.headers_sealed,
            body=bodies[it.id] if it.body is None else it.body,
            due_at_ms=it.due_at_ms,
            probe=it.report_id in probes,
        )
        for it in taken
        for sender in (senders[it.report_id][0],)
    ]


def _secrets(rows: Sequence[Any]) -> tuple[bytes, ...]:
    """All that sign, the current one first, then those before it, the newest first."""
    retired = [row.retired for row in rows if row.retired is not None]
    return (rows[0].signing_secret_sealed, *retired)


async def give_back(
    connection: Connection, claimed_deliveries: Sequence[ClaimedDelivery], now_ms: int
) -> None:
    """Undo the claims of deliveries that were never sent."""
    deliveries = report_deliveries.c
    question = (
        select(deliveries.id, deliveries.attempts)
        .where(
            deliveries.id.in_({it.delivery_id for it in claimed_deliveries}),
            deliveries.state == DeliveryState.SENDING.value,
        )
        .order_by(deliveries.id)
        .with_for_update()
    )
    sending = {row.id: int(row.attempts) for row in await connection.execute(question)}
    held = [it for it in claimed_deliveries if sending.get(it.delivery_id) == it.attempt]
    if held:
        await _undo(connection, held)
    others = [it for it in claimed_deliveries if sending.get(it.delivery_id) != it.attempt]
    if others:
        await end_open(connection, _attempts_of(others), AttemptOutcome.UNREACHED, _NOT_SENT)
    for address in sorted({it.address for it in held if it.probe}):
        await give_probe_back(connection, address, now_ms)


async def _undo(connection: Connection, claimed_deliveries: Sequence[ClaimedDelivery]) -> None:
    rows = []
    for claimed in sorted(claimed_deliveries, key=lambda it: it.delivery_id):
        before = claimed.attempt - 1
        state = DeliveryState.PENDING
        if before != claimed.attempts_before:
            state = DeliveryState.RETRYING
        rows.append((claimed.delivery_id, state.value, before, claimed.due_at_ms))
    await _UNDO.make(connection, rows)
    await connection.execute(delete(report_attempts).where(_attempts_of(claimed_deliveries)))


def _attempts_of(claimed_deliveries: Sequence[ClaimedDelivery]) -> ColumnElement[bool]:
    attempts = report_attempts.c
    names = [(it.delivery_id, it.attempt) for it in claimed_deliveries]
    return tuple_(attempts.delivery_id, attempts.number).in_(names)
