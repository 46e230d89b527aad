"""Seals and their sums, read as one. Functions over a connection of one transaction."""

from typing import Any

from sqlalchemy import ScalarSelect, Select, Table, func, literal, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.store import fetch_int
from meterline.backends.control_store.tables.meters import seal_sums, seals
from meterline.usage import Seal, SealSum


async def summed_end(connection: Connection, log: int, partition: int) -> int:
    """The offset after the slices of a partition whose seals were added up; 0 where none were."""
    last = (
        select(seal_sums.c.offset_end)
        .where(seal_sums.c.log == log, seal_sums.c.partition == partition)
        .order_by(seal_sums.c.slice.desc())
        .limit(1)
    )
    return await fetch_int(connection, select(func.coalesce(last.scalar_subquery(), 0)))


def _first(table: Table, log: int, partition: int, offset: int, limit: int) -> Select[Any]:
    """Rows of a partition whose first slice is at an offset or behind it, in order."""
    those = table.c
    mine = (those.log == log, those.partition == partition, those.slice >= offset)
    return select(table).where(*mine).order_by(those.slice).limit(limit)


async def first_seals(
    connection: Connection, log: int, partition: int, offset: int, limit: int
) -> list[Seal]:
    """Seals of a partition from an offset on, in order."""
    rows = await connection.execute(_first(seals, log, partition, offset, limit))
    return [Seal._make(row) for row in rows]


async def all_seals(
    connection: Connection, log: int, partition: int, offset: int, limit: int
) -> list[Seal]:
    """Sums as if they were seals, then seals, of a partition from an offset on."""
    # Seals first: those that are added up in between are found in a sum, and left out.
    single = await first_seals(connection, log, partition, offset, limit)
    rows = await connection.execute(_first(seal_sums, log, partition, offset, limit))
    sums = [SealSum._make(row) for row in rows]
    end = sums[-1].end if sums else offset
    return [*(it.as_seal() for it in sums), *(it for it in single if it.slice >= end)][:limit]


async def append_ms_before(connection: Connection, log: int, partition: int, offset: int) -> int:
    """See `ProgressStore.append_ms_before`."""

    def last(of: Table) -> ScalarSelect[int]:
        mine = (of.c.log == log, of.c.partition == partition, of.c.slice < offset)
        question = select(of.c.append_ms).where(*mine).order_by(of.c.slice.desc()).limit(1)
        return question.scalar_subquery()

    # append times do not step back, and sums are of slices before all others
    return await fetch_int(connection, select(func.coalesce(last(seals), last(seal_sums), 0)))


def seal_rows() -> tuple[Select[Any], Select[Any]]:
    """Two questions with the same columns: seals, and their sums. `begin_ms` is the least append
    time that a row stands for.
    """
    own = {"slices": literal(1).label("slices"), "begin_ms": seals.c.append_ms.label("begin_ms")}
    columns = [own[one.name] if one.name in own else seals.c[one.name] for one in seal_sums.c]
    return select(*columns), select(seal_sums)
