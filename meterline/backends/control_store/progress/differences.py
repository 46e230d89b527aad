"""Sealed slices that differed when they were counted back once more, over a connection."""

from typing import Final

import msgspec
from sqlalchemy import func, select, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import put
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.progress.erasures import was_erased_from
from meterline.backends.control_store.store import fetch_int, json_text
from meterline.backends.control_store.tables.meters import slice_differences
from meterline.usage import (
    SliceDifference,
    SliceId,
    TableDifference,
    dropped_of,
    of_kept,
)

_those = slice_differences.c
_TABLES: Final = msgspec.json.Decoder(tuple[TableDifference, ...])


async def record(connection: Connection, difference: SliceDifference) -> bool:
    """See `ProgressStore.record_difference`."""
    if await was_erased_from(connection, difference.slice_id):
        return False
    kept = of_kept(difference, dropped_of(await notices(connection)))
    if kept is None:
        return False
    row = {
        **kept.slice_id._asdict(),
        "found_at_ms": kept.found_at_ms,
        "differing": json_text(kept.tables),
        "mended_at_ms": None,
    }
    await put(connection, slice_differences, [row])
    return True


async def between(
    connection: Connection, log: int, partition: int, first: int, end: int
) -> list[SliceDifference]:
    """See `ProgressStore.differences_between`."""
    question = (
        select(slice_differences)
        .where(
            _those.log == log,
            _those.partition == partition,
            _those.slice >= first,
            _those.slice < end,
            _those.mended_at_ms.is_(None),
        )
        .order_by(_those.slice)
    )
    return [
        SliceDifference(
            SliceId(row.log, row.partition, row.slice),
            row.found_at_ms,
            _TABLES.decode(row.differing),
        )
        for row in await connection.execute(question)
    ]


async def count(connection: Connection) -> int:
    """See `ProgressStore.differing_slices`."""
    return await fetch_int(
        connection,
        select(func.count()).select_from(slice_differences).where(_those.mended_at_ms.is_(None)),
    )


async def mark_mended(connection: Connection, difference: SliceDifference, now_ms: int) -> None:
    """See `ProgressStore.mark_mended`."""
    log, partition, slice_ = difference.slice_id
    await connection.execute(
        update(slice_differences)
        .where(
            _those.log == log,
            _those.partition == partition,
            _those.slice == slice_,
            _those.found_at_ms == difference.found_at_ms,
            _those.mended_at_ms.is_(None),
        )
        .values(mended_at_ms=now_ms)
    )
