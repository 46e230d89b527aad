"""What backfill and catch-up read of the simulated usage store."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from meterline.event import partition_of, position
from meterline.limits import SEEN_SHARE_KEYS
from meterline.usage import EventRow, RawEvent, SeenExtent, SeenRow, SeenSpan, SliceId

SEEN_CHUNK: Final = 7  # rows: so that catch-up takes several steps here too
RAW_CHUNK: Final = 5  # events of one portion: much may happen between two of them


class _Tables(Protocol):
    tables: dict[str, dict[Any, Any]]


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


def seen_after(
    state: _Tables, log: int, partition: int, after: tuple[int, int], end: int
) -> list[SeenRow]:
    """The next seen rows of a partition, behind a position."""
    return [
        row
        for row in _seen(state, log, partition)
        if after < (row.offset, row.place) and row.offset < end
    ][:SEEN_CHUNK]


def seen_extent(state: _Tables, span: SeenSpan) -> SeenExtent:
    """Of many more rows than there are, so that they are read in many shares."""
    rows = _spanned(state, span)
    if not rows:
        return SeenExtent(0, 0, 0)
    taken = -(-len(rows) * SEEN_SHARE_KEYS // SEEN_CHUNK)
    return SeenExtent(taken, rows[0].append_ms, rows[-1].append_ms)


def seen_keys(state: _Tables, span: SeenSpan, low: int, high: int) -> bytes:
    """Those of a share, packed."""
    rows = _spanned(state, span)
    return packed([row for row in rows if low <= int.from_bytes(row.key[:2], "big") < high])


def packed(rows: Sequence[SeenRow]) -> bytes:
    """Keys as the port gives them: sorted, each once, with its last position."""
    last = {row.key: row for row in rows}
    return in_order([row for _, row in sorted(last.items())])


def in_order(rows: Sequence[SeenRow]) -> bytes:
    """Keys as a slice gives them: in order of their positions."""
    return b"".join(
        row.key
        + position(row.offset, row.place).to_bytes(8, "big")
        + row.append_ms.to_bytes(8, "big")
        + row.check
        for row in rows
    )


def _spanned(state: _Tables, span: SeenSpan) -> list[SeenRow]:
    return [
        row
        for row in _seen(state, span.log, span.partition)
        if span.first <= row.offset < span.end
        and span.from_ms <= row.append_ms < span.to_ms
        and partition_of(row.key, span.partitions) == span.heir
    ]


def _seen(state: _Tables, log: int, partition: int) -> list[SeenRow]:
    rows: list[SeenRow] = list(state.tables["seen"].values())
    return sorted(row for row in rows if row.log == log and row.partition == partition)
