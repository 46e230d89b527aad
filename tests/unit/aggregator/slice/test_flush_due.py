"""A flush by time, earlier for much memory, later where many events would share their rows."""

import pytest

from aggregator.slice.flush_due import FlushBounds, Unflushed, flush_due
from meterline.limits import FLUSH_LARGE_EVENTS

BOUNDS = FlushBounds(interval_ms=1_000, events=65_536, bytes=1_000_000)
FEW, MANY = Unflushed(1, 700), Unflushed(FLUSH_LARGE_EVENTS + 1, 700)


@pytest.mark.parametrize(
    ("held", "passed_ms", "due"),
    [
        (FEW, 999, False),
        (FEW, 1_000, True),
        (Unflushed(FLUSH_LARGE_EVENTS, 700), 1_000, True),
        (MANY, 2_249, False),
        (MANY, 2_250, True),
        # bounds come before the time
        (Unflushed(65_535, 999_999), 0, False),
        (Unflushed(65_536, 700), 0, True),
        (Unflushed(1, 1_000_000), 0, True),
        # a clock that was set back
        (FEW, -1, True),
    ],
)
def test_when_a_flush_is_due(held: Unflushed, passed_ms: int, *, due: bool) -> None:
    now_ms = 5_000 + passed_ms
    assert flush_due(BOUNDS, held, 5_000, now_ms, has_news=True, behind_ms=0) is due


@pytest.mark.parametrize(
    ("held", "passed_ms", "due"),
    [(FEW, 2_249, False), (FEW, 2_250, True), (Unflushed(65_536, 700), 0, True)],
)
def test_who_is_behind_writes_less_often(held: Unflushed, passed_ms: int, *, due: bool) -> None:
    now_ms = 5_000 + passed_ms
    assert flush_due(BOUNDS, held, 5_000, now_ms, has_news=True, behind_ms=5_001) is due


def test_without_news_only_bounds_count() -> None:
    assert not flush_due(BOUNDS, Unflushed(0, 0), 0, 10_000, has_news=False, behind_ms=0)


@pytest.mark.parametrize(
    ("interval_ms", "behind_ms", "behind"),
    [
        (1_000, 5_000, False),
        (1_000, 5_001, True),
        # as long as an interval, and a pause between looks: nothing is late
        (10_000, 11_500, False),
        (60_000, 66_000, False),
        (10_000, 30_001, True),
    ],
)
def test_an_interval_is_no_lag(interval_ms: int, behind_ms: int, *, behind: bool) -> None:
    bounds = FlushBounds(interval_ms, 65_536, 1_000_000)
    due = flush_due(bounds, FEW, 0, interval_ms, has_news=True, behind_ms=behind_ms)
    assert due is not behind
