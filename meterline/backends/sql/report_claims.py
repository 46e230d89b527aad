"""What is to be sent, in SQL: what is due, and claims of it. Functions over a connection of one
transaction.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import Row, ScalarSelect, and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline import limits
from meterline.backends.sql.engine import insert
from meterline.backends.sql.report_attempts import write_lost
from meterline.backends.sql.report_endpoints import HEALTH_COLUMNS, health_of, take_probe
from meterline.backends.sql.report_secrets import signing
from meterline.backends.sql.schema_reports import (
    report_attempts,
    report_bodies,
    report_deliveries,
    report_endpoints,
    reports,
)
from meterline.report import ReportState
from meterline.run import AttemptOutcome, DeliveryState
from meterline.sending import Due, Parcel

_FIRST: Final = (DeliveryState.PENDING,)
_GIVING_WAY: Final = (DeliveryState.SENDING, DeliveryState.RETRYING)  # to first tries

_BODY: Final = and_(
    report_bodies.c.run_id == report_deliveries.c.run_id,
    report_bodies.c.holder == report_deliveries.c.holder,
    report_bodies.c.number == report_deliveries.c.number,
)


async def due(connection: AsyncConnection, now_ms: int) -> list[Due]:
    """Active reports with something due, the longest waiting first."""
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
    question = (
        select(waiting, *HEALTH_COLUMNS)
        .outerjoin(report_endpoints, known)
        .where(or_(*(instant <= now_ms for instant in instants)))
    )
    found = [_due_of(row, now_ms) for row in await connection.execute(question)]
    return sorted(found, key=lambda it: (it.due_at_ms, it.report_id))


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


def _due_of(row: Row[Any], now_ms: int) -> Due:
    instants = [at_ms for at_ms in (row.first_ms, row.retry_ms, row.lost_ms) if at_ms is not None]
    return Due(
        report_id=row.id,
        endpoint=row.endpoint,
        namespace=row.namespace,
        due_at_ms=min(instants),
        first=row.first_ms is not None and row.first_ms <= now_ms,
        health=health_of(row),
    )


async def claim(
    connection: AsyncConnection,
    report_id: str,
    now_ms: int,
    lease_until_ms: int,
    limit: int,
    *,
    probe: bool,
) -> list[Parcel]:
    """Take due deliveries of an active report, each with a new attempt."""
    deliveries = report_deliveries.c
    free = _bounded(await _next(connection, report_id, now_ms, limit))
    ids = [row.id for row in free]
    if not ids or (probe and not await take_probe(connection, report_id, now_ms, lease_until_ms)):
        return []
    if again := [row.id for row in free if row.attempts]:
        await write_lost(connection, again)
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
    since = {row.id: int(row.due_at_ms) for row in free}
    parcels = await _parcels(connection, since, secrets, probe=probe)
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


async def _next(
    connection: AsyncConnection, report_id: str, now_ms: int, limit: int
) -> list[Row[Any]]:
    """What is claimed: first tries, then retries and what a courier's death left. But up to half
    goes to those that have given way for `RETRY_WAIT_MS`: first tries may never end.
    """
    aged_ms, half = now_ms - limits.RETRY_WAIT_MS, max(1, limit // 2)
    found = await _free(connection, report_id, _GIVING_WAY, aged_ms, half, ())
    for states in (_FIRST, _GIVING_WAY):
        room = limit - len(found)
        found += await _free(connection, report_id, states, now_ms, room, found)
    return found


async def _free(
    connection: AsyncConnection,
    report_id: str,
    states: Sequence[DeliveryState],
    due_max_ms: int,
    limit: int,
    taken: Sequence[Row[Any]],
) -> list[Row[Any]]:
    """Due deliveries of an active report in some states, locked: id, attempts so far, since when it
    was due, bytes. Those that another courier is just taking are left to it.
    """
    if limit <= 0:
        return []
    deliveries = report_deliveries.c
    question = (
        select(
            deliveries.id,
            deliveries.attempts,
            deliveries.due_at_ms,
            func.length(report_bodies.c.body).label("bytes"),
        )
        .join(reports, reports.c.id == deliveries.report_id)
        .join(report_bodies, _BODY)
        .where(
            deliveries.report_id == report_id,
            deliveries.state.in_([state.value for state in states]),
            deliveries.due_at_ms <= due_max_ms,
            deliveries.id.not_in([row.id for row in taken]),
            reports.c.state == ReportState.ACTIVE.value,
            reports.c.deleted_at_ms.is_(None),
        )
        .order_by(deliveries.due_at_ms, deliveries.sequence)
        .limit(limit)
        .with_for_update(skip_locked=True, of=report_deliveries)
    )
    return list(await connection.execute(question))


def _bounded(free: Sequence[Row[Any]]) -> list[Row[Any]]:
    """As many as one claim may hold in memory, the first at least."""
    sums = accumulate(int(row.bytes) for row in free)
    return [
        row
        for place, (row, size) in enumerate(zip(free, sums, strict=True))
        if not place or size <= limits.CLAIM_BYTES_MAX
    ]


async def _parcels(
    connection: AsyncConnection,
    since: Mapping[str, int],
    secrets: tuple[bytes, ...],
    *,
    probe: bool,
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
            func.coalesce(deliveries.replayed_at_ms, deliveries.created_at_ms).label("since_ms"),
            reports.c.namespace,
            reports.c.endpoint,
            reports.c.user_info_sealed,
            reports.c.headers_sealed,
            bodies.body,
        )
        .join(reports, reports.c.id == deliveries.report_id)
        .join(report_bodies, _BODY)
        .where(deliveries.id.in_(since))
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
            patient_since_ms=int(row.since_ms),
            endpoint=row.endpoint,
            signing_secrets_sealed=secrets,
            user_info_sealed=row.user_info_sealed,
            headers_sealed=row.headers_sealed,
            body=row.body,
            due_at_ms=since[row.id],
            probe=probe,
        )
        for row in await connection.execute(question)
    ]
