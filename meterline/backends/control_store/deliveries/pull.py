"""What a receiver pulls, in SQL. Functions over a connection of one transaction."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, and_, func, select, tuple_

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.listing import bodies as bodies_of
from meterline.backends.control_store.reports.listing import delivery_of, delivery_question
from meterline.backends.control_store.reports.run_rows import same_window
from meterline.backends.control_store.tables.reports import (
    BODY_OF_DELIVERY,
    LAST_ATTEMPT,
    report_attempts,
    report_bodies,
    report_deliveries,
    report_runs,
)
from meterline.delivery import Pulled, PullPlace

_deliveries: Final = report_deliveries.c
_runs: Final = report_runs.c
_bodies: Final = report_bodies.c
_PLACE: Final = (_runs.to_ms, _runs.from_ms, _runs.revision, _deliveries.number)


async def pulled(
    connection: Connection,
    report_id: str,
    window: tuple[int | None, int | None],
    limit: int,
    bytes_max: int,
    after: PullPlace | None = None,
) -> tuple[list[Pulled], bool]:
    """See `meterline.delivery.PullStore`."""
    question = _question(report_id, window, after).limit(limit + 1)
    found = (await connection.execute(question)).all()
    rows = _within(found[:limit], bytes_max)
    ids = [row.id for row in rows]
    bodies = await bodies_of(connection, ids)
    following = await _following(connection, ids)
    reasons = await _reasons(connection, ids)
    listed = [
        Pulled(
            delivery_of(row),
            bodies.get(row.id),
            following.get(row.id),
            row.failure or reasons.get(row.id, ""),
        )
        for row in rows
    ]
    return listed, len(rows) < len(found)


def _question(
    report_id: str, window: tuple[int | None, int | None], after: PullPlace | None
) -> Select[tuple[Any, ...]]:
    from_ms, to_ms = window
    question = (
        delivery_question()
        .add_columns(func.coalesce(func.length(_bodies.body), 0).label("size"))
        .outerjoin(report_bodies, BODY_OF_DELIVERY)
        .where(_runs.report_id == report_id, _runs.decided_at_ms.is_not(None))
        .order_by(*_PLACE)
    )
    if from_ms is not None:
        question = question.where(_runs.from_ms >= from_ms, _runs.to_ms > from_ms)
    if to_ms is not None:
        question = question.where(_runs.to_ms <= to_ms)
    if after is not None:
        place = (after.to_ms, after.from_ms, after.revision, after.number)
        question = question.where(
            _runs.to_ms >= after.to_ms,  # for the index, which cannot use the other
            tuple_(*_PLACE) > tuple_(*place),
        )
    return question


def _within(rows: Sequence[Row[Any]], bytes_max: int) -> Sequence[Row[Any]]:
    """As many as have no more bytes together, one at least."""
    size = 0
    for count, row in enumerate(rows):
        size += int(row.size)
        if count and size > bytes_max:
            return rows[:count]
    return rows


async def _following(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """By id, the delivery that replaces it."""
    question = (
        select(_deliveries.supersedes, _deliveries.id)
        .where(_deliveries.supersedes.in_(ids))
        .order_by(_deliveries.revision.desc())
    )
    following = {row.supersedes: row.id for row in await connection.execute(question)}
    return {**await _made_later(connection, ids), **following}


async def _made_later(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """By id of a delivery that could not be made, the first one that could, of the same subject and
    window.
    """
    runs, later, of_later = report_runs.alias(), report_deliveries.alias(), report_runs.alias()
    question = (
        select(_deliveries.id, later.c.id.label("later"))
        .join(runs, runs.c.id == _deliveries.run_id)
        .join(
            of_later,
            and_(same_window(of_later.c, runs.c), of_later.c.revision > runs.c.revision),
        )
        .join(
            later,
            and_(
                later.c.run_id == of_later.c.id,
                later.c.subject == _deliveries.subject,
                later.c.failure.is_(None),
            ),
        )
        .where(_deliveries.id.in_(ids), _deliveries.failure.is_not(None))
        .order_by(of_later.c.revision.desc())
    )
    return {row.id: row.later for row in await connection.execute(question)}


async def _reasons(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """By id, what its last attempt says."""
    question = (
        select(_deliveries.id, report_attempts.c.reason)
        .join(report_attempts, LAST_ATTEMPT)
        .where(_deliveries.id.in_(ids))
    )
    return {row.id: row.reason for row in await connection.execute(question)}
