"""Due runs tile time: no gap, no overlap, once, bounded."""

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.schedule import complete_needed_ms, due_runs
from meterline.report import Interval, Report, Schedule
from meterline.report_ports import Plan
from meterline.run import Run, RunState, Trigger, run_id
from meterline.window import MINUTE_MS

START = 1_770_000_000_000 // MINUTE_MS * MINUTE_MS


def plan(interval: Interval, created_at_ms: int) -> Plan:
    schedule = Schedule(interval, START)
    report = Report(
        "01R", "default", "r", "01M", schedule, (), "https://example.com/", b"s", created_at_ms
    )
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
    (run,) = due_runs(plan(Interval.MINUTE, START), START + MINUTE_MS, 10, 10)
    assert complete_needed_ms(run, 60_000) == run.to_ms + 60_000
    late = Run("r", "01R", "default", 0, 60_000, 1, Trigger.MANUAL, asked_at_ms=START)
    assert complete_needed_ms(late, 60_000) == START
