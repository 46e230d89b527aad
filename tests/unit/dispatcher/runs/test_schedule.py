"""Due runs tile time: no gap, no overlap, once, bounded."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.runs.schedule import complete_needed_ms, due_runs
from meterline.report import (
    NOT_ASKED_FOR,
    Interval,
    Plan,
    Report,
    ReportChange,
    Run,
    RunState,
    Schedule,
    StartTerms,
    Takeover,
    Trigger,
    changed,
    in_force,
    run_id,
)
from meterline.window import HOUR_MS, MINUTE_MS

START = 1_770_000_000_000 // MINUTE_MS * MINUTE_MS


def plan(interval: Interval, created_at_ms: int) -> Plan:
    schedule = Schedule(interval, START)
    at_ms = created_at_ms
    url = "https://example.com/"
    report = Report("01R", "default", "r", "01M", schedule, (), url, b"s", at_ms, at_ms)
    return Plan(report, schedule.first_window_ms(created_at_ms))


@given(
    st.sampled_from(Interval),
    st.integers(-3, 3),
    st.lists(st.integers(0, 90), min_size=1, max_size=12),
    st.integers(1, 7),
    st.integers(0, 100),
)
def test_windows_tile_time_whenever_one_looks(
    interval: Interval, created: int, waits: list[int], runs_max: int, catch_up_max: int
) -> None:
    now_ms = START + created * interval.length_ms // 2
    current = plan(interval, now_ms)
    first_ms = current.planned_until_ms
    found: list[Run] = []
    for wait in waits:
        now_ms += wait * interval.length_ms // 10
        runs = due_runs(current, now_ms, catch_up_max, runs_max)
        assert runs == due_runs(current, now_ms, catch_up_max, runs_max)
        assert len(runs) <= runs_max
        found += runs
        if runs:
            current = Plan(current.report, runs[-1].to_ms)
    while runs := due_runs(current, now_ms, catch_up_max, runs_max):
        found += runs
        current = Plan(current.report, runs[-1].to_ms)
    edges = [first_ms, *(run.to_ms for run in found)]
    assert [run.from_ms for run in found] == edges[:-1]
    assert all(run.to_ms - run.from_ms == interval.length_ms for run in found)
    assert all(run.to_ms <= run.asked_at_ms for run in found)
    assert now_ms < current.planned_until_ms + interval.length_ms
    assert len({run.id for run in found}) == len(found)


@given(st.integers(0, 50), st.integers(0, 50))
def test_catching_up_is_bounded_and_the_rest_is_recorded_as_skipped(
    missed: int, catch_up_max: int
) -> None:
    now_ms = START + missed * MINUTE_MS + 1
    runs = due_runs(plan(Interval.MINUTE, START), now_ms, catch_up_max, 1_000)
    states = [run.state for run in runs]
    skipped = max(0, missed - catch_up_max)
    assert states == [RunState.SKIPPED] * skipped + [RunState.SCHEDULED] * (missed - skipped)
    for run in runs:
        assert (run.reason != "") == (run.state is RunState.SKIPPED)
        assert (run.ended_at_ms is None) == (run.state is RunState.SCHEDULED)


def test_a_window_is_due_when_it_ends_and_not_before() -> None:
    it = plan(Interval.HOUR, START + 1)
    end_ms = START + Interval.HOUR.length_ms
    assert due_runs(it, end_ms - 1, 10, 10) == []
    (run,) = due_runs(it, end_ms, 10, 10)
    assert (run.from_ms, run.to_ms, run.trigger, run.revision, run.id) == (
        START,
        end_ms,
        Trigger.SCHEDULE,
        1,
        run_id("01R", START, end_ms, 1),
    )


def test_a_run_waits_for_its_grace_and_for_what_was_sent_before_it_was_asked_for() -> None:
    it = plan(Interval.MINUTE, START)
    (run,) = due_runs(it, START + MINUTE_MS, 10, 10)
    assert complete_needed_ms(run, it.report, StartTerms(60_000)) == run.to_ms + 60_000
    late = Run("r", "01R", "default", 0, 60_000, 1, Trigger.MANUAL, asked_at_ms=START)
    assert complete_needed_ms(late, it.report, StartTerms(60_000)) == START


def test_runs_by_schedule_have_their_own_places_and_runs_by_hand_have_not() -> None:
    it = plan(Interval.HOUR, START)
    terms = StartTerms(60_000, spread_ms=5_000)
    (run,) = due_runs(it, START + HOUR_MS, 10, 10)
    offset_ms = terms.offset_ms(it.report, HOUR_MS)
    assert offset_ms > 0
    assert complete_needed_ms(run, it.report, terms) == run.to_ms + 60_000 + offset_ms
    by_hand = replace(run, trigger=Trigger.MANUAL)
    assert complete_needed_ms(by_hand, it.report, terms) == run.to_ms + 60_000


@given(
    st.lists(
        st.tuples(st.sampled_from(Interval), st.integers(-1_000, 1_000), st.integers(0, 500)),
        min_size=1,
        max_size=4,
    ),
    st.integers(50, 500),
    st.integers(0, 300),
)
def test_windows_tile_time_across_changes_of_the_schedule(
    changes: list[tuple[Interval, int, int]], runs_max: int, catch_up_max: int
) -> None:
    """However often another schedule is asked for, and however late one looks."""
    now_ms = START
    current = plan(Interval.HOUR, now_ms)
    found: list[Run] = []
    first_ms = current.planned_until_ms

    def look(current: Plan) -> Plan:
        while runs := due_runs(current, now_ms, catch_up_max, runs_max):
            found.extend(runs)
            until_ms = runs[-1].to_ms
            current = Plan(in_force(current.report, until_ms), until_ms)
        return current

    for interval, start, wait in changes:
        now_ms += wait * MINUTE_MS
        if wait % 2:  # somebody looked just before the change
            current = look(current)
        change = ReportChange(schedule=Schedule(interval, START + start * MINUTE_MS))
        try:
            report = changed(current.report, change, current.planned_until_ms, now_ms)
        except ValueError:
            continue
        current = Plan(report, current.planned_until_ms)
    now_ms += Interval.DAY.length_ms
    current = look(current)
    edges = [first_ms, *(run.to_ms for run in found)]
    assert [run.from_ms for run in found] == edges[:-1]
    assert all(run.to_ms <= now_ms for run in found)
    assert now_ms < current.report.window_end_ms(current.planned_until_ms)


def test_what_a_report_was_resumed_without_is_passed_over_to_the_last_window_and_no_further() -> (
    None
):
    it = plan(Interval.HOUR, START)
    report = replace(it.report, skip_until_ms=START + 2 * HOUR_MS)
    runs = due_runs(Plan(report, START), START + 3 * HOUR_MS, 10, 10)
    assert [(run.state, run.reason) for run in runs] == [
        (RunState.SKIPPED, NOT_ASKED_FOR),
        (RunState.SKIPPED, NOT_ASKED_FOR),
        (RunState.SCHEDULED, ""),
    ]


@given(st.sampled_from(Interval), st.sampled_from(Interval), st.integers(0, 50), st.integers(0, 60))
def test_a_border_is_as_many_windows_away_as_one_counts(
    first: Interval, then: Interval, takeover: int, windows: int
) -> None:
    at_ms = START + takeover * first.length_ms
    report = replace(plan(first, START).report, takeover=Takeover(Schedule(then, at_ms), at_ms))
    border_ms = START
    for _ in range(windows):
        border_ms = report.window_end_ms(border_ms)
    assert report.border_after_ms(START, windows) == border_ms
    assert report.ended_windows(START, border_ms) == windows
