"""How far backfill is, as it is shown."""

from control.v3.installation.backfill import Backfill, backfill_of
from meterline.limits import FILL_SLICE_EVENTS
from meterline.usage import Filling

BEGUN_MS = 1_000_000


def told(partition: int, filled: int, left: int, begun_ms: int = 0, seen_ms: int = 0) -> Filling:
    """Slices of a hundred events."""
    begun_ms, seen_ms = BEGUN_MS + begun_ms, BEGUN_MS + seen_ms
    return Filling(partition, begun_ms, seen_ms, filled, left, 100 * filled, 100 * left)


def test_nothing_is_left() -> None:
    assert backfill_of([], BEGUN_MS) is None
    assert backfill_of([told(0, 7, 0), told(1, 9, 0)], BEGUN_MS) is None


def test_the_end_is_expected_as_fast_as_it_went_so_far() -> None:
    assert backfill_of([told(0, 0, 5)], BEGUN_MS + 9) == Backfill(0, 5, 0, 500, None)
    found = backfill_of([told(0, 1, 3, seen_ms=500)], BEGUN_MS + 900)
    assert found == Backfill(1, 4, 100, 400, BEGUN_MS + 2_000)
    found = backfill_of([told(0, 1, 3, seen_ms=500)], BEGUN_MS + 9_000)
    assert found is not None
    assert found.expected_end_ms == BEGUN_MS + 9_000, "it stands still: not before now"


def test_partitions_that_are_done_count_as_far_as_they_belong_to_it() -> None:
    before = told(2, 50, 0, begun_ms=-9_000, seen_ms=-8_000)
    found = backfill_of([told(0, 4, 0, seen_ms=400), told(1, 0, 4), before], BEGUN_MS + 400)
    assert found == Backfill(4, 8, 400, 800, BEGUN_MS + 800)


def test_a_slice_costs_something_without_events_too() -> None:
    half = Filling(0, BEGUN_MS, BEGUN_MS + 100, 2 * FILL_SLICE_EVENTS, FILL_SLICE_EVENTS, 0, 0)
    found = backfill_of([half], BEGUN_MS + 100)
    assert found is not None
    assert found.expected_end_ms == BEGUN_MS + 150
