"""Meters as rows: how they are asked for and written. Functions over a connection of one
transaction.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from sqlalchemy import Row, insert, or_, select

from meterline.backends.control_store import engine
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.store import json_text, row_of, value_of
from meterline.backends.control_store.tables.meters import (
    catalogue_version,
    meter_revisions,
    meters,
)
from meterline.backends.control_store.tables.reports import reports
from meterline.backends.control_store.tables.retention import revision_notices
from meterline.meter import Meter, MeterDraft, RevisionState

_columns = (
    *meters.c,
    *(column for column in meter_revisions.c if column.name != "meter_id"),
    revision_notices.c.given_at_ms.label("not_kept_since_ms"),
)

with_revisions: Final = select(*_columns).select_from(
    meters.join(meter_revisions, meter_revisions.c.meter_id == meters.c.id).outerjoin(
        revision_notices, revision_notices.c.revision == meter_revisions.c.revision
    )
)
"""Every revision there ever was, each with its meter."""

folded: Final = with_revisions.where(
    meters.c.deleted_at_ms.is_(None), meter_revisions.c.left_at_ms.is_(None)
)
"""Those of them that events are folded for."""


async def take_turn(connection: Connection) -> None:
    """Wait until nobody else changes the catalogue; nobody will, until the transaction ends."""
    # SQLite has one writer at a time anyway
    await connection.execute(select(catalogue_version.c.version).with_for_update())


async def next_version(connection: Connection) -> int:
    """Take the next version, and with it the turn."""
    return await engine.next_version(connection, catalogue_version)


async def found(connection: Connection, namespace: str, id_or_key: str) -> Meter | None:
    """A live meter by id (wins) or key."""
    # ULIDs read alike in both cases; a key may look like another meter's id, and then the id wins
    meter_id = id_or_key.upper()
    named = or_(meters.c.id == meter_id, meters.c.key == id_or_key)
    question = folded.where(meters.c.namespace == namespace, named)
    answers = in_force_of(await connection.execute(question))
    return min(answers, key=lambda meter: meter.id != meter_id, default=None)


async def with_key(connection: Connection, namespace: str, key: str) -> Meter | None:
    """A live meter by its key alone."""
    question = folded.where(meters.c.namespace == namespace, meters.c.key == key)
    answers = in_force_of(await connection.execute(question))
    return answers[0] if answers else None


async def lock(connection: Connection, meter: Meter) -> None:
    """Wait for those who make a report on this meter now: their foreign key holds its row."""
    await connection.execute(select(meters.c.id).where(meters.c.id == meter.id).with_for_update())


async def reports_on(connection: Connection, meter: Meter) -> list[tuple[str, list[str]]]:
    """Slug and group-by keys of every live report on a meter, by slug."""
    question = (
        select(reports.c.slug, reports.c.group_by)
        .where(reports.c.meter_id == meter.id, reports.c.deleted_at_ms.is_(None))
        .order_by(reports.c.slug)
    )
    rows = await connection.execute(question)
    return [(row.slug, msgspec.json.decode(row.group_by, type=list[str])) for row in rows]


async def put_revision(
    connection: Connection,
    version: int,
    meter_id: str,
    draft: MeterDraft,
    now_ms: int,
    *,
    state: RevisionState,
    effective_from_ms: int | None = None,
) -> None:
    """Insert a revision; one that is in force at once was never waited for."""
    row = row_of(
        draft,
        meter_revisions,
        revision=version,
        meter_id=meter_id,
        dimensions=pairs_text(draft.dimensions),
        state=state,
        made_at_ms=now_ms,
        effective_from_ms=effective_from_ms,
        switched_at_ms=now_ms if state is RevisionState.IN_FORCE else None,
    )
    await connection.execute(insert(meter_revisions).values(row))


def meters_of(rows: Iterable[Row[Any]]) -> list[Meter]:
    """The revisions that rows of `with_revisions` tell of, in their order, each with those of
    before it: these must be among the rows.
    """
    by_number = {int(row.revision): row for row in rows}
    made: dict[int, Meter] = {}

    def one(number: int) -> Meter:
        if number not in made:
            row = by_number[number]
            before = row.before_revision
            made[number] = meter_of(row, None if before is None else one(int(before)))
        return made[number]

    return [one(number) for number in by_number]


def in_force_of(rows: Iterable[Row[Any]]) -> list[Meter]:
    """The revisions in force among them."""
    return [meter for meter in meters_of(rows) if meter.state is RevisionState.IN_FORCE]


def meter_of(row: Row[Any], before: Meter | None = None) -> Meter:
    """The revision of a row; without what is before it, it is told alone, for all times."""
    return value_of(
        Meter,
        row,
        dimensions=_pairs(row.dimensions),
        labels=_pairs(row.labels),
        effective_from_ms=None if before is None else row.effective_from_ms,
        before=before,
    )


def pairs_text(pairs: tuple[tuple[str, str], ...]) -> str:
    """Labels or dimensions as a column holds them."""
    return json_text(dict(sorted(pairs)))


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(msgspec.json.decode(text, type=dict[str, str]).items()))
