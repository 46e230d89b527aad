"""The record of changes. `record_change` runs in the transaction of the change itself."""

from dataclasses import replace

from sqlalchemy import Row, insert, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection
from ulid import ULID

from meterline.access import Action, Change, Kind
from meterline.backends.control_store.tables.access import changes


async def record_change(connection: AsyncConnection, change: Change) -> Change:
    """Write a change within the caller's transaction; returns it with its id."""
    recorded = replace(change, id=str(ULID.from_timestamp(change.at_ms)))
    await connection.execute(
        insert(changes).values(
            {column.name: getattr(recorded, column.name) for column in changes.c}
        )
    )
    return recorded


async def read_changes(
    connection: AsyncConnection,
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
    return [_change(row) for row in await connection.execute(question)]


def _change(row: Row[tuple[object, ...]]) -> Change:
    return Change(
        namespace=row.namespace,
        at_ms=int(row.at_ms),
        author=row.author,
        action=Action(row.action),
        kind=Kind(row.kind),
        subject_id=row.subject_id,
        name=row.name,
        detail=row.detail,
        members=row.members,
        id=row.id,
    )
