"""Cells: the coarsest that answer a span exactly."""

from collections.abc import Sequence
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import CELL_RANGES_MAX, CELLS_LISTED_MAX
from meterline.usage import cells_of
from meterline.usage.cells import DAY_MINUTES, HOUR_MINUTES, Cells
from meterline.window import MINUTE_MS, WindowSize, window_starts

ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns")
JANUARY = 29_453_760  # 2026-01-01, in minutes


def _minutes(cells: Cells) -> list[int]:
    ranges = (*cells.days, *cells.hours, *cells.minutes)
    return sorted(minute for first, end in ranges for minute in range(first, end))


def _crossed(cells: Cells, starts: Sequence[int]) -> list[int]:
    """Starts of windows that lie within a cell."""
    sized = [(r, DAY_MINUTES) for r in cells.days] + [(r, HOUR_MINUTES) for r in cells.hours]
    return [s for s in starts for (first, end), size in sized if first < s < end and s % size]


@given(
    st.integers(0, 4 * DAY_MINUTES),
    st.integers(0, 9 * DAY_MINUTES),
    st.sampled_from([None, WindowSize.HOUR, WindowSize.DAY, WindowSize.MONTH]),
    st.sampled_from(ZONES),
)
def test_cells_are_the_span_and_cross_no_window(
    offset: int, length: int, size: WindowSize | None, zone: str
) -> None:
    first, end = JANUARY - 2 * DAY_MINUTES + offset, JANUARY - 2 * DAY_MINUTES + offset + length
    starts: list[int] = []
    if size is not None and first < end:
        made = window_starts(first * MINUTE_MS, end * MINUTE_MS - 1, size, ZoneInfo(zone))
        starts = [start // MINUTE_MS for start in made]
    cells = cells_of(first, end, starts)
    assert _minutes(cells) == list(range(first, end))
    assert not _crossed(cells, starts)
    assert all(a % DAY_MINUTES == b % DAY_MINUTES == 0 for a, b in cells.days)
    assert all(a % HOUR_MINUTES == b % HOUR_MINUTES == 0 for a, b in cells.hours)


@given(st.integers(0, 400), st.integers(0, 12 * 366 * DAY_MINUTES))
def test_ranges_are_bounded(offset: int, length: int) -> None:
    first, end = JANUARY + offset, JANUARY + offset + length
    starts = [JANUARY + offset + step for step in range(0, length, DAY_MINUTES)]
    cells = cells_of(first, end, starts)
    assert len(cells.days) <= CELL_RANGES_MAX
    if len(cells.hours) > CELL_RANGES_MAX:
        assert sum(b - a for a, b in cells.minutes) <= CELLS_LISTED_MAX
    for ranges in (cells.days, cells.hours, cells.minutes):
        assert all(one[1] < other[0] for one, other in pairwise(ranges))
    assert sum(b - a for r in (cells.days, cells.hours, cells.minutes) for a, b in r) == length


def test_a_month_is_read_by_days() -> None:
    month = 31 * DAY_MINUTES
    assert cells_of(JANUARY, JANUARY + month, []) == Cells(days=((JANUARY, JANUARY + month),))


def test_a_month_of_berlin_has_hours_at_its_ends() -> None:
    first, end = JANUARY - 60, JANUARY + 31 * DAY_MINUTES - 60
    assert cells_of(first, end, []) == Cells(
        days=((JANUARY, JANUARY + 30 * DAY_MINUTES),),
        hours=((first, JANUARY), (JANUARY + 30 * DAY_MINUTES, end)),
    )


def test_days_of_berlin_are_read_by_hours() -> None:
    starts = [JANUARY - 60 + day * DAY_MINUTES for day in range(4)]
    cells = cells_of(starts[0], starts[-1], starts)
    assert cells == Cells(hours=((starts[0], starts[-1]),))


def test_days_of_kathmandu_have_minutes_at_their_ends() -> None:
    starts = [JANUARY - 345 + day * DAY_MINUTES for day in range(3)]
    cells = cells_of(starts[0], starts[-1], starts)
    assert not cells.days
    assert cells.minutes == tuple(
        joined
        for joined in (
            (starts[0], starts[0] + 45),
            (starts[1] - 15, starts[1] + 45),
            (starts[2] - 15, starts[2]),
        )
    )


def test_a_year_by_day_of_kolkata_is_read_by_hours() -> None:
    starts = [JANUARY - 330 + day * DAY_MINUTES for day in range(366)]
    cells = cells_of(starts[0], starts[-1], starts)
    assert len(cells.hours) == 365
    assert sum(b - a for a, b in cells.minutes) == 365 * HOUR_MINUTES
    decade = [JANUARY - 330 + day * DAY_MINUTES for day in range(3_660)]
    assert not cells_of(decade[0], decade[-1], decade).hours


@pytest.mark.parametrize("starts", [None, []])
def test_an_empty_span_has_no_cells(starts: list[int] | None) -> None:
    assert cells_of(JANUARY, JANUARY, starts) == Cells()


def test_windows_of_a_minute_are_read_by_minutes() -> None:
    assert cells_of(JANUARY, JANUARY + 1440, None) == Cells(minutes=((JANUARY, JANUARY + 1440),))
