"""What backfill reads of the simulated usage store."""

from collections.abc import Sequence
from typing import Final, Protocol

from meterline.usage import EventRow, RawEvent, SliceId

RAW_CHUNK: Final = 5  # events of one portion: much may happen between two of them


class _Slices(Protocol):
    def slice_events(
        self, slice_id: SliceId, types: Sequence[tuple[str, str]] | None
    ) -> list[EventRow]: ...


def raw_after(
    state: _Slices,
    slices: Sequence[SliceId],
    after: tuple[int, int],
    end: int,
    types: Sequence[tuple[str, str]],
) -> list[RawEvent]:
    """The next portion of the events of these slices, behind a position and below an offset."""
    rows = [
        row
        for slice_id in slices
        for row in state.slice_events(slice_id, types)
        if after < (row.offset, row.place) and row.offset < end
    ]
    return [
        RawEvent(row.slice, row.offset, row.place, row.append_ms, row.text)
        for row in sorted(rows)[:RAW_CHUNK]
    ]
