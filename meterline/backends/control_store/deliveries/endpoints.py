"""How endpoints fare, in SQL. Functions over a connection of one transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import Any, Final

from sqlalchemy import Row, and_, bindparam, case, select, tuple_, update
from sqlalchemy.sql import ColumnElement

from meterline import limits
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import put
from meterline.backends.control_store.reports.definitions import park
from meterline.backends.control_store.tables.reports import (
    LAST_ATTEMPT,
    report_attempts,
    report_deliveries,
    report_endpoints,
    reports,
)
from meterline.delivery import (
    UNOBSERVED,
    Address,
    DeliveryState,
    EndpointChange,
    EndpointObservation,
    Health,
    HealthTerms,
    after,
    change_of,
    distrusted,
)

_endpoints = report_endpoints.c
_MEMBERS: Final = tuple(column.name for column in _endpoints if not column.primary_key)
HEALTH_COLUMNS: Final = tuple(_endpoints[name] for name in _MEMBERS)
_HEALTHS: Final = (
    select(report_endpoints)
    .where(
        tuple_(_endpoints.namespace, _endpoints.endpoint).in_(
            bindparam("addresses", expanding=True)
        )
    )
    .order_by(_endpoints.namespace, _endpoints.endpoint)
)
# locked in one order: two dispatchers that record at once must not wait for each other
_LOCKED_HEALTHS: Final = _HEALTHS.with_for_update()


def health_of(row: Row[Any]) -> Health:
    """The health in a row; that of an endpoint that was never heard of, where there is none."""
    if row.outages is None:
        return UNOBSERVED
    return Health(**{name: getattr(row, name) for name in _MEMBERS})


async def hear(
    connection: Connection, observed: Iterable[EndpointObservation], now_ms: int, terms: HealthTerms
) -> list[EndpointChange]:
    """Store observations of endpoints, and park endpoints that are given up. Returns
    which went down or are up again.
    """
    observations: dict[Address, list[EndpointObservation]] = defaultdict(list)
    for one in observed:
        observations[one.namespace, one.endpoint].append(one)
    if not observations:
        return []
    there = await healths(connection, observations, lock=True)
    changed, turned = {}, []
    for address, of_address in sorted(observations.items()):
        before = health = there.get(address, UNOBSERVED)
        for one in sorted(of_address, key=lambda it: it.at_ms):
            since_ms = health.failing_since_ms if health.out else None
            health = after(health, one, terms)
            if since_ms is not None and not health.out:
                await _due_again(connection, address, since_ms, now_ms)
        message = distrusted(health, now_ms, terms)
        if message:
            await park(connection, *address, message, now_ms)
            health = replace(health, failing_since_ms=None)  # a new patience, once it is resumed
        if health != before:
            changed[address] = health
            turned.append(change_of(address, before, health))
    rows = [
        {"namespace": namespace, "endpoint": endpoint, **asdict(health)}
        for (namespace, endpoint), health in changed.items()
    ]
    if rows:
        await put(connection, report_endpoints, rows)
    return [one for one in turned if one is not None]


async def _due_again(connection: Connection, address: Address, since_ms: int, now_ms: int) -> None:
    """What failed since an endpoint failed is due when it is back, not at its next retry: it was no
    fault of these deliveries. One that was answered 429 waits as it was asked to.
    """
    attempts, deliveries = report_attempts.c, report_deliveries.c
    failed = (
        select(deliveries.id)
        .join(reports, reports.c.id == deliveries.report_id)
        .join(report_attempts, LAST_ATTEMPT)
        .where(
            reports.c.namespace == address[0],
            reports.c.endpoint == address[1],
            deliveries.state == DeliveryState.RETRYING.value,
            deliveries.due_at_ms > now_ms,
            # ended, not begun: those under way when the first one failed failed with it
            attempts.started_at_ms + attempts.duration_ms >= since_ms,
            attempts.status.is_distinct_from(HTTPStatus.TOO_MANY_REQUESTS),
        )
        .order_by(deliveries.due_at_ms)
        .limit(limits.RETURNED_MAX)
    )
    ids = (await connection.execute(failed)).scalars().all()
    if ids:
        statement = (
            update(report_deliveries)
            .where(deliveries.id.in_(ids), deliveries.state == DeliveryState.RETRYING.value)
            .values(due_at_ms=now_ms)
        )
        await connection.execute(statement)


async def healths(
    connection: Connection, addresses: Collection[Address], *, lock: bool = False
) -> dict[Address, Health]:
    """How endpoints fare, of those that were ever sent anything."""
    question = _LOCKED_HEALTHS if lock else _HEALTHS
    rows = await connection.execute(question, {"addresses": sorted(addresses)})
    return {(row.namespace, row.endpoint): health_of(row) for row in rows}


async def renew(connection: Connection, report_id: str, now_ms: int) -> None:
    """All patience with a report's endpoint again, and a probe at once where it is out: somebody
    says that it is well.
    """
    question = select(reports.c.namespace, reports.c.endpoint).where(reports.c.id == report_id)
    namespace, endpoint = (await connection.execute(question)).one()
    out = _endpoints.probe_at_ms.is_not(None)
    statement = (
        update(report_endpoints)
        .where(_at((namespace, endpoint)))
        .values(failing_since_ms=None, probe_at_ms=case((out, now_ms)))
    )
    await connection.execute(statement)


async def take_probes(
    connection: Connection, report_ids: Collection[str], now_ms: int, lease_until_ms: int
) -> set[str]:
    """Take the probes of the endpoints of reports until a lease ends. The reports that have got
    one: none where the endpoint is not out, another one has it, or it is not time yet.
    """
    question = (
        select(reports.c.id, reports.c.namespace, reports.c.endpoint)
        .where(reports.c.id.in_(report_ids))
        .order_by(reports.c.namespace, reports.c.endpoint, reports.c.id)  # as in `healths`
    )
    got = set()
    for row in (await connection.execute(question)).all():
        statement = (
            update(report_endpoints)
            .where(_at((row.namespace, row.endpoint)), _endpoints.probe_at_ms <= now_ms)
            .values(probe_at_ms=lease_until_ms)
        )
        if (await connection.execute(statement)).rowcount == 1:
            got.add(row.id)
    return got


async def give_probe_back(connection: Connection, address: Address, now_ms: int) -> None:
    """The probe of an endpoint may be taken at once."""
    statement = (
        update(report_endpoints)
        .where(_at(address), _endpoints.probe_at_ms.is_not(None))
        .values(probe_at_ms=now_ms)
    )
    await connection.execute(statement)


def _at(address: Address) -> ColumnElement[bool]:
    return and_(_endpoints.namespace == address[0], _endpoints.endpoint == address[1])
