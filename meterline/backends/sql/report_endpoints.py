"""How endpoints fare, in SQL. Functions over a connection of one transaction."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Row, and_, case, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ColumnElement

from meterline.backends.sql.engine import insert
from meterline.backends.sql.report_definitions import park
from meterline.backends.sql.schema_reports import report_endpoints, reports
from meterline.change import DISPATCHER
from meterline.endpoint_health import Health, HealthTerms, Heard, after, doubted
from meterline.sending import Address

_endpoints = report_endpoints.c
_MEMBERS: Final = tuple(column.name for column in _endpoints if not column.primary_key)
HEALTH_COLUMNS: Final = tuple(_endpoints[name] for name in _MEMBERS)


def health_of(row: Row[Any]) -> Health:
    """The health in a row; that of an endpoint that was never heard of, where there is none."""
    if row.outages is None:
        return Health()
    return Health(**{name: getattr(row, name) for name in _MEMBERS})


async def hear(
    connection: AsyncConnection, heard: Iterable[Heard], now_ms: int, terms: HealthTerms
) -> None:
    """Keep what was heard of endpoints, and park those that nobody believes in any more."""
    signs: dict[Address, list[Heard]] = defaultdict(list)
    for one in heard:
        signs[one.namespace, one.endpoint].append(one)
    if not signs:
        return
    there = await _healths(connection, signs)
    for address, of_address in sorted(signs.items()):
        before = health = there.get(address, Health())
        for one in sorted(of_address, key=lambda it: it.at_ms):
            health = after(health, one, terms)
        words = doubted(health, now_ms, terms)
        if words:
            await park(connection, *address, words, now_ms, DISPATCHER)
            health = replace(health, failing_since_ms=None)  # a new patience, once it is resumed
        if health != before:
            await _keep(connection, address, health)


async def _healths(
    connection: AsyncConnection, addresses: Iterable[Address]
) -> dict[Address, Health]:
    named = [
        and_(_endpoints.namespace == namespace, _endpoints.endpoint == endpoint)
        for namespace, endpoint in addresses
    ]
    # in one order: two couriers that record at once must not wait for each other
    question = (
        select(report_endpoints)
        .where(or_(*named))
        .order_by(_endpoints.namespace, _endpoints.endpoint)
        .with_for_update()
    )
    rows = await connection.execute(question)
    return {(row.namespace, row.endpoint): health_of(row) for row in rows}


async def _keep(connection: AsyncConnection, address: Address, health: Health) -> None:
    values = asdict(health)
    keys = {"namespace": address[0], "endpoint": address[1]}
    statement = insert(connection, report_endpoints).values(keys | values)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=[_endpoints.namespace, _endpoints.endpoint], set_=values
        )
    )


async def renew(connection: AsyncConnection, report_id: str, now_ms: int) -> None:
    """All patience with a report's endpoint again, and a probe at once where it is out: somebody
    says that it is well.
    """
    out = _endpoints.probe_at_ms.is_not(None)
    statement = (
        update(report_endpoints)
        .where(*await _of_report(connection, report_id))
        .values(failing_since_ms=None, probe_at_ms=case((out, now_ms)))
    )
    await connection.execute(statement)


async def take_probe(
    connection: AsyncConnection, report_id: str, now_ms: int, lease_until_ms: int
) -> bool:
    """Take the probe of a report's endpoint until a lease ends; False where it is not out, or
    another one has it, or it is not time yet.
    """
    statement = (
        update(report_endpoints)
        .where(*await _of_report(connection, report_id), _endpoints.probe_at_ms <= now_ms)
        .values(probe_at_ms=lease_until_ms)
    )
    return (await connection.execute(statement)).rowcount == 1


async def give_probe_back(connection: AsyncConnection, address: Address, now_ms: int) -> None:
    """The probe of an endpoint may be taken at once."""
    namespace, endpoint = address
    statement = (
        update(report_endpoints)
        .where(
            _endpoints.namespace == namespace,
            _endpoints.endpoint == endpoint,
            _endpoints.probe_at_ms.is_not(None),
        )
        .values(probe_at_ms=now_ms)
    )
    await connection.execute(statement)


async def _of_report(connection: AsyncConnection, report_id: str) -> list[ColumnElement[bool]]:
    """The conditions that name the endpoint of a report."""
    question = select(reports.c.namespace, reports.c.endpoint).where(reports.c.id == report_id)
    namespace, endpoint = (await connection.execute(question)).one()
    return [_endpoints.namespace == namespace, _endpoints.endpoint == endpoint]
