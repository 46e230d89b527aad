"""What is shown of runs, deliveries and attempts, in SQL. Functions over a connection of one
transaction.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, and_, collate, or_, select, tuple_
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.among import among
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.run_rows import run_of, same_window
from meterline.backends.control_store.store import fetch_one, value_of
from meterline.backends.control_store.tables.reports import (
    BODY_OF_DELIVERY,
    report_attempts,
    report_bodies,
    report_deliveries,
    report_runs,
    reports,
)
from meterline.delivery import Attempt, Delivery, DeliveryPlace, DeliveryQuery, DeliveryState
from meterline.report import EVERY_RUN, Booked, Run, RunQuery, RunState

_runs = report_runs.c
_deliveries = report_deliveries.c
BY_PLACE: Final = (_runs.decided_at_ms.desc(), _runs.id.desc(), _deliveries.number)
"""The order of deliveries in lists, see `DeliveryPlace`."""
# Built once: to build a statement takes SQLAlchemy longer than to execute it.
_BODIES: Final = (
    select(_deliveries.id, report_bodies.c.body)
    .join(report_bodies, BODY_OF_DELIVERY)
    .where(among(_deliveries.id, "ids"))
)


async def runs(
    connection: Connection,
    report_id: str,
    limit: int,
    before: Run | None = None,
    query: RunQuery = EVERY_RUN,
) -> list[Run]:
    """Runs of a report that are asked for, newest window first, after the one given."""
    question = select(report_runs).where(_runs.report_id == report_id)
    if query.states:
        question = question.where(_runs.state.in_(query.states))
    if query.triggers:
        question = question.where(_runs.trigger.in_(query.triggers))
    if query.from_min_ms is not None:
        question = question.where(_runs.from_ms >= query.from_min_ms)
    if query.to_max_ms is not None:
        question = question.where(_runs.to_ms <= query.to_max_ms)
    if before is not None:
        place = (before.to_ms, before.from_ms, before.revision)
        question = question.where(
            _runs.to_ms <= before.to_ms,  # for the index, which cannot use the other
            tuple_(_runs.to_ms, _runs.from_ms, _runs.revision) < tuple_(*place),
        )
    newest = question.order_by(_runs.to_ms.desc(), _runs.from_ms.desc(), _runs.revision.desc())
    return [run_of(row) for row in await connection.execute(newest.limit(limit))]


async def run(connection: Connection, report_id: str, run_id: str) -> Run | None:
    """One run of a report."""
    question = select(report_runs).where(_runs.report_id == report_id, _runs.id == run_id)
    return await fetch_one(connection, question, run_of)


def delivery_question() -> Select[tuple[Any, ...]]:
    """Deliveries, each with what `delivery_of` needs of its run and its report."""
    return (
        select(report_deliveries, _runs.from_ms, _runs.to_ms, reports.c.slug)
        .join(report_runs, _runs.id == _deliveries.run_id)
        .join(reports, reports.c.id == _deliveries.report_id)
    )


async def of_run(connection: Connection, run_id: str, limit: int, after: int = 0) -> list[Delivery]:
    """Deliveries of a run by number."""
    question = (
        delivery_question()
        .where(_deliveries.run_id == run_id, _deliveries.number > after)
        .order_by(_deliveries.number)
        .limit(limit)
    )
    return [delivery_of(row) for row in await connection.execute(question)]


async def deliveries(
    connection: Connection,
    namespace: str,
    query: DeliveryQuery,
    limit: int,
    after: DeliveryPlace | None = None,
) -> list[Delivery]:
    """Deliveries of a namespace that a query asks for, in order of their places.

    The order is that of runs, and there are few of them: whoever reads on in a namespace of many
    millions of deliveries starts at an index entry, and sorts one run at most.
    """
    conditions = asked_for(namespace, query)
    if after is not None:
        conditions += behind(after)
    question = delivery_question().where(*conditions).order_by(*BY_PLACE).limit(limit)
    return [delivery_of(row) for row in await connection.execute(question)]


def asked_for(namespace: str, query: DeliveryQuery) -> list[ColumnElement[bool]]:
    """The conditions of a query, over deliveries joined with their runs."""
    conditions = [_runs.namespace == namespace, _runs.decided_at_ms.is_not(None)]
    if query.report_id is not None:
        conditions.append(_runs.report_id == query.report_id)
    if query.run_id is not None:
        conditions.append(_runs.id == query.run_id)
    if query.subject is not None:
        conditions.append(_deliveries.subject == query.subject)
    if query.from_min_ms is not None:
        conditions.append(_runs.from_ms >= query.from_min_ms)
    if query.to_max_ms is not None:
        conditions.append(_runs.to_ms <= query.to_max_ms)
    if query.states:
        conditions.append(_deliveries.state.in_([state.value for state in query.states]))
        conditions.append(_may_hold(query.states))
    if query.failed_since_ms is not None:
        conditions.append(_deliveries.state == DeliveryState.FAILED.value)
        conditions.append(_deliveries.ended_at_ms >= query.failed_since_ms)
        conditions.append(_may_hold([DeliveryState.FAILED]))
    if query.decided_max_ms is not None:
        conditions.append(_runs.decided_at_ms <= query.decided_max_ms)
    return conditions


def _may_hold(states: Collection[DeliveryState]) -> ColumnElement[bool]:
    """Which runs have deliveries in one of these states, by their own counts: most runs need not be
    looked into.
    """
    ended = {
        DeliveryState.DELIVERED: _runs.delivered > 0,
        DeliveryState.FAILED: _runs.failed > 0,
        DeliveryState.CANCELLED: _runs.failed > 0,
    }
    delivering = _runs.state == RunState.DELIVERING.value
    return or_(*(ended.get(state, delivering) for state in states))


def behind(place: DeliveryPlace) -> list[ColumnElement[bool]]:
    """Conditions on what follows a place, in the order `BY_PLACE`."""
    older = _runs.decided_at_ms < place.decided_at_ms
    same = _runs.id == place.run_id
    return [
        _runs.decided_at_ms <= place.decided_at_ms,  # for the index, which cannot use the other
        or_(older, _runs.id < place.run_id, and_(same, _deliveries.number > place.number)),
    ]


async def delivery(connection: Connection, namespace: str, delivery_id: str) -> Delivery | None:
    """One delivery of a namespace."""
    question = delivery_question().where(
        _deliveries.id == delivery_id, _runs.namespace == namespace
    )
    return await fetch_one(connection, question, delivery_of)


async def body(connection: Connection, namespace: str, delivery_id: str) -> bytes | None:
    """The bytes of a delivery."""
    question = (
        select(report_bodies.c.body)
        .join(report_deliveries, BODY_OF_DELIVERY)
        .join(report_runs, _runs.id == _deliveries.run_id)
        .where(_deliveries.id == delivery_id, _runs.namespace == namespace)
    )
    found: bytes | None = (await connection.execute(question)).scalar_one_or_none()
    return found


async def bodies(connection: Connection, delivery_ids: Collection[str]) -> dict[str, bytes]:
    """The bytes of deliveries, by id; of those that have theirs."""
    if not delivery_ids:
        return {}
    return {row.id: row.body for row in await connection.execute(_BODIES, {"ids": delivery_ids})}


async def attempts(connection: Connection, delivery_ids: Sequence[str]) -> list[Attempt]:
    """Attempts by delivery and number."""
    question = (
        select(report_attempts)
        .where(report_attempts.c.delivery_id.in_(delivery_ids))
        .order_by(report_attempts.c.delivery_id, report_attempts.c.number)
    )
    return [value_of(Attempt, row) for row in await connection.execute(question)]


def delivery_of(row: Row[tuple[object, ...]]) -> Delivery:
    """The delivery of a row."""
    # while it is being sent the instant is the end of a lease, of no interest outside
    next_ms = None if row.state == DeliveryState.SENDING else row.due_at_ms
    return value_of(Delivery, row, report_slug=row.slug, next_attempt_at_ms=next_ms)


async def booked(
    connection: Connection, run: Run, after: str | None = None, until: str | None = None
) -> dict[str, Booked]:
    """By subject, what was last said by earlier revisions of the window: of subjects after one, up
    to another.
    """
    subject = _by_code_points(connection)
    question = (
        select(_deliveries.subject, _deliveries.id, _deliveries.usage_digest, _deliveries.failure)
        .join(report_runs, _runs.id == _deliveries.run_id)
        .where(same_window(_runs, run), _runs.revision < run.revision)
        .order_by(_deliveries.revision)  # so that the last one stays
    )
    if after is not None:
        question = question.where(subject > after)
    if until is not None:
        question = question.where(subject <= until)
    held: dict[str, Booked] = {}
    for row in await connection.execute(question):
        name = row.id
        if row.failure is not None:  # it never arrives: the one before stands
            before = held.get(row.subject)
            name = None if before is None else before.delivery_id
        held[row.subject] = Booked(name, row.usage_digest)
    return held


def _by_code_points(connection: Connection) -> ColumnElement[str]:
    """The subject in the order that the usage store and Python have: SQLite has it by itself."""
    if connection.dialect.name == "postgresql":
        return collate(_deliveries.subject, "C")
    return _deliveries.subject
