"""Revisions of meters as rows: their history, their moves, which of them are folded. Functions over
a connection of one transaction.
"""

from collections.abc import Collection
from typing import Any

import msgspec
from sqlalchemy import Row, Select, func, literal_column, select, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters.rows import meter_of, reports_on, with_revisions
from meterline.backends.control_store.store import fetch_int, fetch_one, value_of
from meterline.backends.control_store.tables.meters import meter_revisions, meters
from meterline.meter import (
    PENDING,
    Meter,
    MeterRevision,
    RevisionMove,
    RevisionState,
    needed,
    revision_sources,
    revision_target,
)
from meterline.problem import Problem, conflict

_live = with_revisions.where(meters.c.deleted_at_ms.is_(None))


def of_meter(meter: Meter) -> Select[Any]:
    """All revisions of a live meter, the newest first."""
    return _live.where(meters.c.id == meter.id).order_by(meter_revisions.c.revision.desc())


async def one(connection: Connection, meter: Meter, number: int) -> MeterRevision | None:
    """A revision of a meter."""
    question = of_meter(meter).where(meter_revisions.c.revision == number)
    return await fetch_one(connection, question, revision_of)


async def waiting(connection: Connection, meter: Meter) -> MeterRevision | None:
    """The revision of a meter that is switched once it is filled in."""
    question = of_meter(meter).where(_stands(RevisionState.FILLING))
    return await fetch_one(connection, question, revision_of)


def all_waiting(namespace: str) -> Select[Any]:
    """Those of all live meters of a namespace."""
    return _live.where(meters.c.namespace == namespace, _stands(RevisionState.FILLING))


def filling() -> Select[Any]:
    """Numbers of all that wait for their switch, the oldest first."""
    return (
        select(meter_revisions.c.revision)
        .join(meters, meters.c.id == meter_revisions.c.meter_id)
        .where(_stands(RevisionState.FILLING), meters.c.deleted_at_ms.is_(None))
        .order_by(meter_revisions.c.revision)
    )


def kept() -> Select[Any]:
    """Live meters with superseded revisions that events are folded for: id, and one revision."""
    return (
        select(meters.c.id, func.max(meter_revisions.c.revision).label("revision"))
        .join(meter_revisions, meter_revisions.c.meter_id == meters.c.id)
        .where(
            _stands(RevisionState.SUPERSEDED),
            meter_revisions.c.left_at_ms.is_(None),
            meters.c.deleted_at_ms.is_(None),
        )
        .group_by(meters.c.id)
    )


async def with_number(connection: Connection, number: int) -> MeterRevision | None:
    """A revision of a live meter, whichever."""
    question = _live.where(meter_revisions.c.revision == number)
    return await fetch_one(connection, question, revision_of)


async def count_pending(connection: Connection, meter: Meter) -> int:
    """How many revisions of a meter wait to be switched, or for somebody to say so."""
    question = select(func.count()).where(
        meter_revisions.c.meter_id == meter.id, meter_revisions.c.state.in_(PENDING)
    )
    return await fetch_int(connection, question)


async def move(
    connection: Connection,
    numbers: Collection[int],
    by: RevisionMove,
    **values: int | None,
) -> None:
    """Move revisions, with other values of theirs."""
    row = {"state": revision_target(by).value, **values}
    statement = update(meter_revisions).where(
        meter_revisions.c.revision.in_(numbers), meter_revisions.c.state.in_(revision_sources(by))
    )
    moved = await connection.execute(statement.values(row))
    assert moved.rowcount == len(numbers), f"{by} of {sorted(numbers)} from another state"


async def leave(connection: Connection, meter: Meter, now_ms: int) -> set[int]:
    """Take the revisions of a meter that nobody needs any more out of the catalogue: their numbers.
    Whoever calls makes a version where there are any.
    """
    rows = await connection.execute(of_meter(meter).where(meter_revisions.c.left_at_ms.is_(None)))
    found = [revision_of(row) for row in rows]
    reported = bool(await reports_on(connection, meter))
    gone = {one.number for one in found} - needed(found, now_ms, reported=reported)
    if gone:
        statement = update(meter_revisions).where(meter_revisions.c.revision.in_(gone))
        await connection.execute(statement.values(left_at_ms=now_ms))
    return gone


async def hold_dimensions(connection: Connection, meter_id: str, names: Collection[str]) -> None:
    """Let no dimension that a report wants to group by go while the transaction lasts.

    Raises `Problem` (conflict) where one is gone, or goes with a revision that is being filled in.
    """
    hold = select(meters.c.key).where(meters.c.id == meter_id).with_for_update(read=True)
    key = (await connection.execute(hold)).scalar_one()
    question = select(meter_revisions.c.dimensions, meter_revisions.c.state).where(
        meter_revisions.c.meter_id == meter_id,
        meter_revisions.c.state.in_((RevisionState.IN_FORCE, RevisionState.FILLING)),
    )
    for row in await connection.execute(question):
        own = msgspec.json.decode(row.dimensions, type=dict[str, str])
        for name in names:
            if name not in own:
                raise _not_there(key, name, filling=row.state == RevisionState.FILLING)


def revision_of(row: Row[Any]) -> MeterRevision:
    """A revision from a row of `with_revisions`."""
    folded = row.left_at_ms is None
    return value_of(
        MeterRevision, row, meter=meter_of(row), before=row.before_revision, folded=folded
    )


def _stands(state: RevisionState) -> Any:
    # as text, not bound: so that the partial index of the state serves it
    return meter_revisions.c.state == literal_column(f"'{state.value}'")


def _not_there(key: str, name: str, *, filling: bool) -> Problem:
    why = f"is not a dimension of meter {key!r}"
    if filling:
        why = f"goes with a change of meter {key!r} that is being filled in"
    return conflict(f"{name!r} {why}: group by others.")
