"""Usage by minute leaves the usage store, once blocks have it by hour and day (pure).

A period of these tables is a month, or in older stores a year, of the time of usage. Any slice may
have rows in it, so append times do not say what is not kept. What is read instead: of blocks what
they cover; and of slices that no block has the late rows, which are kept a second time along the
log. Blocks reach so far that all rows of a period that are in none are late ones.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from meterline.limits import LATE_ROW_MS, SLICE_SPAN_MS
from meterline.usage.block import Block, Column, ends_of
from meterline.usage.cells import Dropped, dropped_before
from meterline.usage.late import late_before
from meterline.usage.retention.periods import MEMBERS, TALLIES, Notice
from meterline.window import MINUTE_MS

MINUTE_TABLES: Final = (TALLIES, MEMBERS)


def dropped_of(notices: Iterable[Notice]) -> tuple[Dropped, ...]:
    """Which cells of a minute are not kept. They are refused from the notice on."""
    those = {
        Dropped((one.latest_ms + 1) // MINUTE_MS, one.catalogue, one.begun_at_ms is not None)
        for one in notices
        if one.table in MINUTE_TABLES
    }
    return tuple(sorted(those))


def late_from_ms(to_ms: int) -> int:
    """Slices that were appended at this instant or later have no rows of usage before `to_ms`, but
    for late ones.
    """
    return -(-(to_ms + LATE_ROW_MS) // SLICE_SPAN_MS) * SLICE_SPAN_MS


def why_minutes_stay(
    to_ms: int,
    ends: Mapping[int, int],
    columns: Sequence[Column],
    revisions: Collection[int],
    *,
    alone: bool,
) -> str | None:
    """Why minutes before `to_ms` must be kept for now, in words; None: they may go.

    `ends` is how far their rows reach in each partition, `revisions` are those that events are
    counted in. `alone`: there is no other log, whose slices the blocks of this one do not have.
    """
    if not alone:
        return "another log was counted, and its minutes are in no block that is read"
    newest = max(revisions, default=0)
    there = [column for column in columns if column.upto >= newest]
    if not there or there != list(columns[: len(there)]):
        return "blocks do not have all of it for every meter yet"
    last = there[-1]
    if not last.end_ms or late_before(last.end_ms) * MINUTE_MS < to_ms:
        return "blocks do not reach behind it yet"
    covered = ends_of(last.stretches)
    if any(covered.get(partition, 0) < end for partition, end in ends.items()):
        return "some of its rows are in no block yet"
    return None


def may_be_made_again(block: Block, dropped: Iterable[Dropped]) -> bool:
    """Whether the slices of a block still have all that it is made of: nothing is gone yet, or its
    rows before that are late ones.
    """
    before = dropped_before(one for one in dropped if one.gone)
    return not before or bool(block.begin_ms and late_before(block.begin_ms) >= before)
