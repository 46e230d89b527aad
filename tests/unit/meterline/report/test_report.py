"""Schedules and slugs of reports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import EVENT_TIME_MAX_MS
from meterline.report import (
    INTERVALS,
    REPORT_MOVES,
    Interval,
    Report,
    ReportChange,
    ReportState,
    Schedule,
    Takeover,
    changed,
    in_force,
)
from meterline.report.report import is_slug
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS

schedules = st.builds(
    Schedule,
    st.sampled_from(Interval),
    st.integers(0, EVENT_TIME_MAX_MS),
)


HOURLY = Schedule(Interval.HOUR, 30 * MINUTE_MS)
REPORT = Report("01R", "default", "r", "01M", HOURLY, (), "https://example.com/", b"s", 0, 0)


def test_intervals_have_two_spellings_each() -> None:
    assert {name: interval.length_ms for name, interval in INTERVALS.items()} == {
        "1m": 60_000,
        "1h": 3_600_000,
        "1d": 86_400_000,
        "PT1M": 60_000,
        "PT1H": 3_600_000,
        "P1D": 86_400_000,
    }


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


@pytest.mark.parametrize("start_at_ms", [-1, EVENT_TIME_MAX_MS + 1])
def test_a_start_out_of_range_is_refused(start_at_ms: int) -> None:
    with pytest.raises(ValueError, match="must not be before 1970"):
        Schedule(Interval.DAY, start_at_ms)


def test_slugs() -> None:
    assert all(is_slug(text) for text in ("a", "A-b_9", "x" * 64))
    assert not any(is_slug(text) for text in ("", "x" * 65, "a b", "ä", "a\n", "a/b", "a.b"))


def test_only_an_active_report_sends() -> None:
    assert {state for state, _ in REPORT_MOVES} == set(ReportState)


@given(schedules, schedules, st.integers(0, EVENT_TIME_MAX_MS))
def test_a_takeover_is_the_first_border_of_both(
    one: Schedule, other: Schedule, planned: int
) -> None:
    earliest_ms = one.border_ms(planned)
    assert 0 <= earliest_ms - max(planned, one.start_at_ms) < one.interval.length_ms
    at_ms = one.takeover_ms(other, earliest_ms)
    assert (at_ms is None) == (one.takeover_ms(other, 0) is None)
    candidates = range(
        max(earliest_ms, other.start_at_ms),
        max(earliest_ms, other.start_at_ms) + 2 * DAY_MS,
        MINUTE_MS,
    )
    common = [
        at
        for at in candidates
        if one.border_ms(at) == at and other.border_ms(at) == at and at >= earliest_ms
    ]
    assert (common[0] if common else None) == at_ms


@pytest.mark.parametrize(
    ("schedule", "at_ms"),
    [
        (Schedule(Interval.MINUTE, 0), None),  # at once
        (Schedule(Interval.HOUR, 90 * MINUTE_MS), None),  # the same borders
        (Schedule(Interval.DAY, 30 * MINUTE_MS), DAY_MS + 30 * MINUTE_MS),
        (Schedule(Interval.MINUTE, 5 * HOUR_MS), 5 * HOUR_MS + 30 * MINUTE_MS),
    ],
)
def test_a_schedule_takes_over_behind_what_is_planned(
    schedule: Schedule, at_ms: int | None
) -> None:
    planned_ms = 3 * HOUR_MS + 30 * MINUTE_MS
    after = changed(REPORT, ReportChange(schedule=schedule), planned_ms, 5)
    if at_ms is None:
        assert (after.schedule, after.takeover) == (schedule, None)
        return
    assert (after.schedule, after.takeover) == (HOURLY, Takeover(schedule, at_ms))
    assert after.window_end_ms(planned_ms) == planned_ms + HOUR_MS
    assert after.window_end_ms(at_ms) == at_ms + schedule.interval.length_ms
    assert in_force(after, at_ms - 1) is after
    taken = in_force(after, at_ms)
    assert (taken.schedule, taken.takeover) == (schedule, None)


def test_a_schedule_without_a_common_border_is_refused_with_words() -> None:
    with pytest.raises(ValueError, match="never begin where one of the present schedule ends"):
        changed(REPORT, ReportChange(schedule=Schedule(Interval.DAY, 0)), 0, 0)


def test_a_change_to_what_is_there_is_none() -> None:
    same = ReportChange(
        schedule=HOURLY, group_by=(), filter=REPORT.filter, endpoint=REPORT.endpoint
    )
    assert changed(REPORT, same, 0, 9) is REPORT
    assert changed(REPORT, ReportChange(group_by=("a",)), 0, 9).updated_at_ms == 9
