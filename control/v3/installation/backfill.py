"""How far backfill is, and when it may be expected to end (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from meterline.limits import FILL_SLICE_EVENTS
from meterline.usage import Filling


class Backfill(NamedTuple):
    """How far all partitions are filled in. A slice, and an event, counts once for each revision
    that lacks it.
    """

    slices_filled: int
    slices: int
    events_filled: int
    events: int
    expected_end_ms: int | None  # None: nothing is filled in yet that it could be told by


class StatusBackfillShown(TypedDict):
    """How far meters are filled in. A slice, and an event, counts once for each meter that lacks
    it.
    """

    slices_filled: int
    slices: int
    events_filled: int
    events: int


def backfill_of(fillings: Sequence[Filling], now_ms: int) -> Backfill | None:
    """Of what is told of each partition; None where nothing is left. The end is expected as if it
    went on as fast as it did so far.
    """
    going = [one for one in fillings if one.slices_left]
    if not going:
        return None
    begun_ms = min(one.begun_ms for one in going)
    those = [one for one in fillings if one.slices_left or one.seen_ms >= begun_ms]
    seen_ms = max(one.seen_ms for one in those)
    slices_filled = sum(one.slices_filled for one in those)
    slices_left = sum(one.slices_left for one in those)
    events_filled = sum(one.events_filled for one in those)
    events_left = sum(one.events_left for one in those)
    done, left = _work(slices_filled, events_filled), _work(slices_left, events_left)
    took_ms = seen_ms - begun_ms
    end_ms = max(now_ms, seen_ms + left * took_ms // done) if done and took_ms > 0 else None
    slices, events = slices_filled + slices_left, events_filled + events_left
    return Backfill(slices_filled, slices, events_filled, events, end_ms)


def _work(slices: int, events: int) -> int:
    return events + FILL_SLICE_EVENTS * slices


def backfill_shown(backfill: Backfill | None) -> StatusBackfillShown | None:
    """What v3 shows of it."""
    if backfill is None:
        return None
    return {
        "slices_filled": backfill.slices_filled,
        "slices": backfill.slices,
        "events_filled": backfill.events_filled,
        "events": backfill.events,
    }
