"""Plans: what is read for a span is each of its events once, in its window."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from meterline.usage import (
    Coverage,
    Dropped,
    Need,
    Plan,
    Range,
    lack_of,
    late_before,
    plan_of,
)
from meterline.usage.cells import DAY_MINUTES, HOUR_MINUTES
from meterline.window import MINUTE_MS, WindowSize, window_starts

ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns")
JANUARY = 29_453_760  # 2026-01-01, in minutes
SLICES = 12  # an hour each
SLICE_MINUTES = 60


@dataclass(frozen=True, slots=True)
class One:
    """An event: when, and where in the log."""

    minute: int
    partition: int
    slice: int

    @property
    def is_late(self) -> bool:
        return self.minute < late_before(appended_ms(self.slice))


def appended_ms(slice_: int) -> int:
    return (JANUARY + slice_ * SLICE_MINUTES) * MINUTE_MS


@st.composite
def events(draw: st.DrawFn) -> One:
    slice_ = draw(st.integers(0, SLICES - 1))
    behind = draw(st.sampled_from((0, 0, 5, 14, 15, 20, 300, 2 * DAY_MINUTES, 60 * DAY_MINUTES)))
    minute = appended_ms(slice_) // MINUTE_MS + draw(st.integers(0, 59)) - behind
    return One(minute, draw(st.integers(0, 1)), slice_)


def has(ranges: Sequence[Range], minute: int) -> bool:
    return any(first <= minute < end for first, end in ranges)


def read(plan: Plan, coverage: Coverage | None, one: One) -> list[int]:
    """For each row that the plan reads an event in: the first minute of the row's cell."""
    ends = {} if coverage is None else coverage.ends
    found = [one.minute] if has(plan.minutes, one.minute) else []
    if one.slice < ends.get(one.partition, 0):
        for ranges, size in ((plan.days, DAY_MINUTES), (plan.hours, HOUR_MINUTES)):
            cell = one.minute // size * size
            found += [cell] if has(ranges, cell) else []
        return found
    found += [one.minute] if has(plan.newest, one.minute) else []
    found += [one.minute] if one.is_late and has(plan.late, one.minute) else []
    return found


@given(
    st.lists(events(), max_size=40),
    st.tuples(st.integers(0, SLICES), st.integers(0, SLICES)),
    st.integers(-3 * DAY_MINUTES, DAY_MINUTES),
    st.integers(1, 70 * DAY_MINUTES),
    st.sampled_from([None, *WindowSize]),
    st.sampled_from(ZONES),
    st.booleans(),
)
def test_each_event_is_read_once_in_its_window(
    log: list[One],
    ends: tuple[int, int],
    offset: int,
    length: int,
    size: WindowSize | None,
    zone: str,
    kept: bool,
) -> None:
    first, end = JANUARY + offset, JANUARY + offset + length
    starts: list[int] | None = []
    if size is WindowSize.MINUTE:
        starts = None
    elif size is not None:
        made = window_starts(first * MINUTE_MS, end * MINUTE_MS - 1, size, ZoneInfo(zone))
        starts = [start // MINUTE_MS for start in made]
    border = late_before(appended_ms(min(ends))) if kept else 0
    coverage = Coverage(1, dict(enumerate(ends)), (7,), border) if any(ends) else None
    plan = plan_of(first, end, starts, border if any(ends) else None, blocks=True)
    found = Counter(window(starts, cell) for one in log for cell in read(plan, coverage, one))
    within = [one.minute for one in log if first <= one.minute < end]
    assert found == Counter(window(starts, minute) for minute in within)


@given(
    st.lists(events(), max_size=40),
    st.tuples(st.integers(0, SLICES), st.integers(0, SLICES)),
    st.integers(-63, 1),
    st.integers(-3 * DAY_MINUTES, DAY_MINUTES),
    st.integers(1, 70 * DAY_MINUTES),
    st.sampled_from((1, HOUR_MINUTES, DAY_MINUTES)),
    st.sampled_from([None, *WindowSize]),
    st.sampled_from(ZONES),
)
def test_where_minutes_are_dropped_a_plan_lacks_none_or_is_refused(
    log: list[One],
    ends: tuple[int, int],
    dropped_day: int,
    offset: int,
    length: int,
    step: int,
    size: WindowSize | None,
    zone: str,
) -> None:
    """Rows by minute before an instant are gone, whatever slice they are of; but for those that are
    kept along the log. Hours and days of blocks are there.
    """
    first = JANUARY + offset // step * step
    end = first + -(-length // step) * step
    starts: list[int] | None = []
    if size is WindowSize.MINUTE:
        starts = None
    elif size is not None:
        made = window_starts(first * MINUTE_MS, end * MINUTE_MS - 1, size, ZoneInfo(zone))
        starts = [start // MINUTE_MS for start in made]
    before = JANUARY + dropped_day * DAY_MINUTES
    border = late_before(appended_ms(min(ends))) if any(ends) else None
    coverage = Coverage(1, dict(enumerate(ends)), (7,), border or 0) if any(ends) else None
    plan = plan_of(first, end, starts, border, blocks=True)
    lack = lack_of(plan, first, 1, border, (Dropped(before, 1),))
    if lack is not None:
        assert first < before == lack.minute
        assert (lack.need is Need.BLOCKS) == (border is None or border < before)
        return
    left = Plan(
        plan.days,
        plan.hours,
        _behind(plan.minutes, before),
        _behind(plan.newest, before),
        plan.late,
    )
    found = Counter(window(starts, cell) for one in log for cell in read(left, coverage, one))
    within = [one.minute for one in log if first <= one.minute < end]
    assert found == Counter(window(starts, minute) for minute in within)


def _behind(ranges: Sequence[Range], before: int) -> tuple[Range, ...]:
    """What is left of rows by minute."""
    return tuple((max(low, before), high) for low, high in ranges if high > before)


def test_a_revision_that_is_newer_than_a_notice_tells_nothing_of_before() -> None:
    plan = plan_of(0, DAY_MINUTES, [], 5 * DAY_MINUTES, blocks=True)
    dropped = (Dropped(DAY_MINUTES, 3), Dropped(2 * DAY_MINUTES, 7))
    old, middle, new = (lack_of(plan, 0, n, 5 * DAY_MINUTES, dropped) for n in (3, 7, 8))
    assert old is None
    assert middle is not None
    assert new is not None
    assert (middle.need, middle.minute) == (Need.REVISION, DAY_MINUTES)
    assert (new.need, new.minute) == (Need.REVISION, 2 * DAY_MINUTES)
    assert lack_of(plan, DAY_MINUTES, 7, 5 * DAY_MINUTES, dropped) is None


def window(starts: Sequence[int] | None, minute: int) -> int:
    if starts is None:
        return minute
    return starts[bisect_right(starts, minute) - 1] if starts else 0
