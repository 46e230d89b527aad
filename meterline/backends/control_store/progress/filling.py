"""Which sealed slices a revision still lacks, and up to where none does. Functions over a
connection of one transaction.

A bound of a partition and a revision says: every slice before it is counted for the revision. `ALL`
says so of slices that are sealed later, too: whoever seals one with an older catalogue lowers it.
So a partition that is filled in costs one look at its bound, however many slices it has.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Select, and_, delete, func, select, update
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import put
from meterline.backends.control_store.tables.meters import fill_bounds, fill_marks, logs, seals
from meterline.usage import Seal

ALL: Final = (1 << 63) - 1  # behind every offset
_Int = int | ColumnElement[int]


def is_unfilled(log: _Int, revision: _Int) -> ColumnElement[bool]:
    """Whether a sealed slice behind the bound is not counted for a revision yet."""
    # What is asked for stands in this query or further out: correlated by name, at any depth.
    marked = (
        select(fill_marks.c.slice)
        .where(
            fill_marks.c.log == seals.c.log,
            fill_marks.c.partition == seals.c.partition,
            fill_marks.c.slice == seals.c.slice,
            fill_marks.c.revision == revision,
        )
        .correlate_except(fill_marks)
        .exists()
    )
    return and_(seals.c.log == log, seals.c.catalogue < revision, ~marked)


def unfilled(log: _Int, partition: _Int, revision: _Int) -> Select[Any]:
    """The slices of a partition that are not counted for a revision yet."""
    bound = (
        select(fill_bounds.c.filled_end)
        .where(
            fill_bounds.c.log == log,
            fill_bounds.c.partition == partition,
            fill_bounds.c.revision == revision,
        )
        .correlate_except(fill_bounds)
        .scalar_subquery()
    )
    those = (
        seals.c.partition == partition,
        seals.c.slice >= func.coalesce(bound, 0),
        is_unfilled(log, revision),
    )
    return select(seals).where(*those).correlate_except(seals)


async def lock(connection: Connection, log: int, *, shared: bool = False) -> None:
    """Of those who change what is known of a log's slices, one at a time. Those who seal share it
    with each other.
    """
    mine = select(logs.c.number).where(logs.c.number == log)
    await connection.execute(mine.with_for_update(read=shared))


async def advance(connection: Connection, log: int, partition: int, revision: int) -> None:
    """Move the bound to the first slice that is not counted for a revision; under the lock."""
    found = await connection.execute(
        unfilled(log, partition, revision).order_by(seals.c.slice).limit(1)
    )
    first = found.one_or_none()
    end = ALL if first is None else Seal._make(first).slice
    row = {"log": log, "partition": partition, "revision": revision, "filled_end": end}
    await put(connection, fill_bounds, [row])
    await connection.execute(
        delete(fill_marks).where(
            fill_marks.c.log == log,
            fill_marks.c.partition == partition,
            fill_marks.c.revision == revision,
            fill_marks.c.slice < end,
        )
    )


async def lower(connection: Connection, seal: Seal) -> None:
    """A slice is sealed that newer revisions are not counted in: it may lie before their bounds."""
    await connection.execute(
        update(fill_bounds)
        .where(
            fill_bounds.c.log == seal.log,
            fill_bounds.c.partition == seal.partition,
            fill_bounds.c.revision > seal.catalogue,
            fill_bounds.c.filled_end > seal.slice,
        )
        .values(filled_end=seal.slice)
    )


async def bounds(
    connection: Connection, log: int, revisions: Sequence[int]
) -> dict[tuple[int, int], int]:
    """The bounds of these revisions by (partition, revision); where there is none, it is 0."""
    those = fill_bounds.c
    question = select(those.partition, those.revision, those.filled_end).where(
        those.log == log, those.revision >= min(revisions), those.revision <= max(revisions)
    )
    return {
        (row.partition, row.revision): row.filled_end for row in await connection.execute(question)
    }
