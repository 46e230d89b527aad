"""Schedules and slugs of reports (design.md section 7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import EVENT_TIME_MAX_MS
from meterline.report import INTERVALS, REPORT_MOVES, Interval, ReportState, Schedule, is_slug
from meterline.window import MINUTE_MS

schedules = st.builds(
    Schedule,
    st.sampled_from(Interval),
    st.integers(0, EVENT_TIME_MAX_MS // MINUTE_MS).map(lambda minute: minute * MINUTE_MS),
)


def test_intervals_have_two_spellings_each() -> None:
    assert sorted(INTERVALS) == ["1d", "1h", "1m", "P1D", "PT1H", "PT1M"]
    assert INTERVALS["PT1H"].length_ms == 3_600_000
    assert {interval.value for interval in INTERVALS.values()} == {"1m", "1h", "1d"}


@given(schedules, st.integers(0, EVENT_TIME_MAX_MS))
def test_the_first_window_is_the_first_that_ends_after_creation(
    schedule: Schedule, created_at_ms: int
) -> None:
    first_ms = schedule.first_window_ms(created_at_ms)
    length_ms = schedule.interval.length_ms
    assert (first_ms - schedule.start_at_ms) % length_ms == 0
    assert first_ms >= schedule.start_at_ms
    assert first_ms + length_ms > created_at_ms
    assert first_ms == schedule.start_at_ms or first_ms <= created_at_ms


@pytest.mark.parametrize("start_at_ms", [1, -MINUTE_MS, EVENT_TIME_MAX_MS + MINUTE_MS])
def test_a_start_off_the_minute_or_out_of_range_is_refused(start_at_ms: int) -> None:
    with pytest.raises(ValueError, match="startAt"):
        Schedule(Interval.DAY, start_at_ms)


def test_slugs() -> None:
    assert all(is_slug(text) for text in ("a", "A-b_9", "x" * 64))
    assert not any(is_slug(text) for text in ("", "x" * 65, "a b", "ä", "a\n", "a/b", "a.b"))


def test_only_an_active_report_sends() -> None:
    assert {state for state, _ in REPORT_MOVES} == set(ReportState)
