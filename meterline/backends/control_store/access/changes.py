"""The record of changes. `record_change` runs in the transaction of the change itself."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import insert, select, tuple_
from sqlalchemy.sql import ColumnElement
from ulid import ULID

from meterline.access import Change, Kind
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.store import row_of, value_of
from meterline.backends.control_store.tables.access import changes
from meterline.problem import Problem, ProblemType


async def record_change(connection: Connection, change: Change) -> Change:
    """Write a change within the caller's transaction; returns it with its id."""
    recorded = replace(change, id=str(ULID.from_timestamp(change.at_ms)))
    await connection.execute(insert(changes).values(row_of(recorded, changes)))
    return recorded


async def read_changes(
    connection: Connection,
    namespace: str,
    limit: int,
    *,
    kind: Kind | None = None,
    subject_id: str | None = None,
    after: str | None = None,
) -> list[Change]:
    """Changes of a namespace, newest first, of what is named, after the change with id `after`.

    A change that is not there (any more) has nothing after it.
    """
    question = select(changes).where(changes.c.namespace == namespace)
    if kind is not None:
        question = question.where(changes.c.kind == kind)
    if subject_id is not None:
        question = question.where(changes.c.subject_id == subject_id)
    order = (changes.c.at_ms, changes.c.id)
    if after is not None:
        start = (
            select(*order)
            .where(changes.c.namespace == namespace, changes.c.id == after)
            .scalar_subquery()
        )
        question = question.where(tuple_(*order) < start)
    question = question.order_by(*(column.desc() for column in order)).limit(limit)
    return [value_of(Change, row) for row in await connection.execute(question)]


async def mind_rate(
    connection: Connection,
    which: Sequence[ColumnElement[bool]],
    most: int,
    window_ms: int,
    now_ms: int,
    refusal: str,
) -> None:
    """Raise `Problem` (rate limited) with the words `refusal`, and when one more may come, where
    `most` changes of some kind have come within a time. To be called by one transaction at a time.
    """
    nth_newest = (
        select(changes.c.at_ms)
        .where(changes.c.at_ms > now_ms - window_ms, *which)
        .order_by(changes.c.at_ms.desc())
        .offset(most - 1)
        .limit(1)
    )
    at_ms = (await connection.execute(nth_newest)).scalar_one_or_none()
    if at_ms is None:
        return
    free_in_s = -(-(int(at_ms) + window_ms - now_ms) // 1_000)
    seconds = min(max(1, free_in_s), window_ms // 1_000)
    detail = f"{refusal} The next one may come in {seconds} s."
    raise Problem(ProblemType.RATE_LIMITED, detail, retry_after_s=seconds)
