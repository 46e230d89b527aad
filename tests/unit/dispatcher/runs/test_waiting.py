"""Turns over many runs that wait: those that cannot be made keep no other from its turn."""

from dataclasses import replace

import pytest

from dispatcher.runs.planner import find_due, make_runs
from dispatcher.runs.waiting import Walk
from meterline import limits
from meterline.meter import Aggregation, MeterDraft
from meterline.ports import Unavailable
from meterline.report import Report, ReportChange, RunState, Trigger
from meterline.window import HOUR_MS, MINUTE_MS
from tests.unit.dispatcher.conftest import START_MS, Rig

URL = "https://example.com/hook"
END_MS = START_MS + MINUTE_MS
COMPLETE_MS = END_MS + 2 * MINUTE_MS


def by_pages(rig: Rig, runs_max: int, pages_max: int = limits.UNDECIDED_PAGES_MAX) -> None:
    """Have turns look through what waits by pages of so many."""
    walk = Walk(runs_max=runs_max, pages_max=pages_max)
    rig.sources = replace(rig.sources, walk=walk)


async def planned(rig: Rig, now_ms: int = END_MS) -> None:
    while await find_due(rig.reports, now_ms, 1_000):
        pass


async def turn(rig: Rig, name: object) -> int:
    return await make_runs(rig.sources, rig.plan_terms, lambda: END_MS, f"h{name}")


async def slow(rig: Rig, count: int, name: str = "a") -> list[Report]:
    """Reports that wait an hour for events."""
    made = [await rig.report(URL, f"{name}{n:03}") for n in range(count)]
    for report in made:
        await rig.reports.update_report(report.id, ReportChange(grace_ms=HOUR_MS), START_MS + 1)
    return made


async def states(rig: Rig, report: Report) -> list[RunState]:
    return [run.state for run in await rig.reports.runs(report.id, 100)][::-1]


async def test_a_page_full_of_runs_that_wait_for_their_grace_holds_nobody_up(rig: Rig) -> None:
    by_pages(rig, 8)
    waiting = await slow(rig, 8)
    healthy = await rig.report(URL, "healthy")
    now_ms = END_MS + MINUTE_MS  # two windows, one after the other
    await planned(rig, now_ms)
    await rig.complete(now_ms + MINUTE_MS)
    assert [await turn(rig, n) for n in range(3)] == [1, 1, 0]
    assert await states(rig, healthy) == [RunState.SUCCEEDED] * 2
    assert await states(rig, waiting[-1]) == [RunState.WAITING, RunState.SCHEDULED]


async def test_a_page_full_of_reports_on_a_meter_that_is_not_complete_holds_nobody_up(
    rig: Rig,
) -> None:
    by_pages(rig, 4)
    healthy = await rig.report(URL, "healthy")
    await rig.complete(COMPLETE_MS)
    groups = (("model", "$.model"),)
    draft = MeterDraft("other", "Other", Aggregation.COUNT, "prompt", dimensions=groups)
    rig.meter = await rig.sources.catalogue.create_meter("default", draft, START_MS)
    for n in range(4):
        await rig.report(URL, f"a{n}")
    await planned(rig)
    assert await turn(rig, 1) == 1
    assert await states(rig, healthy) == [RunState.SUCCEEDED]


async def test_a_turn_looks_at_so_many_pages_and_the_next_one_goes_on_behind_them(
    rig: Rig,
) -> None:
    by_pages(rig, 2, 3)
    waiting = await slow(rig, 12)
    healthy = await rig.report(URL, "healthy")
    await planned(rig)
    await rig.complete(COMPLETE_MS)
    assert await turn(rig, 1) == 0
    assert [await states(rig, it) for it in waiting].count([RunState.WAITING]) == 6
    assert [await turn(rig, n) for n in (2, 3)] == [0, 1]
    assert await states(rig, healthy) == [RunState.SUCCEEDED]


async def test_a_turn_that_begins_in_the_middle_comes_round_to_the_front(rig: Rig) -> None:
    by_pages(rig, 2)
    first = [await rig.report(URL, f"0{n}") for n in range(2)]
    await slow(rig, 5)
    await planned(rig, END_MS + 2 * MINUTE_MS)
    await rig.complete(END_MS + 4 * MINUTE_MS)
    # Each turn but the last makes one window of both, the oldest that is left.
    for n in range(3):
        assert await turn(rig, n) == 2
        for report in first:
            done = [RunState.SUCCEEDED] * (n + 1)
            assert (await states(rig, report))[: n + 2] == [*done, RunState.SCHEDULED][:3]
    assert await turn(rig, "last") == 0
    assert rig.sources.walk.after is None


async def test_a_page_whose_questions_fail_leaves_the_next_turn_to_those_behind_it(
    rig: Rig,
) -> None:
    by_pages(rig, 2)
    failing = [await rig.report(URL, f"a{n}") for n in range(2)]
    healthy = await rig.report(URL, "healthy")
    await planned(rig)
    await rig.complete(COMPLETE_MS)
    rig.usage.errors = [Unavailable("memory limit exceeded")]
    with pytest.raises(Unavailable, match="memory limit exceeded"):
        await turn(rig, 1)
    assert await states(rig, failing[0]) == [RunState.WAITING]
    assert await turn(rig, 2) == 1
    assert await states(rig, healthy) == [RunState.SUCCEEDED]


async def test_a_run_that_was_given_back_is_met_again_under_another_name(rig: Rig) -> None:
    by_pages(rig, 2)
    _, second = await slow(rig, 2)
    changing = await rig.report(URL, "changing")
    await slow(rig, 1, "z")
    await planned(rig)
    await rig.complete(COMPLETE_MS)
    rig.sources.walk.after = second.id, Trigger.SCHEDULE

    async def change() -> None:  # while it is made: it is made anew, as changed
        await rig.reports.update_report(changing.id, ReportChange(group_by=()), END_MS)

    rig.usage.meanwhile = change
    assert await turn(rig, 1) == 1
    assert await states(rig, changing) == [RunState.SUCCEEDED]


async def test_what_changes_while_others_are_made_is_not_made_by_what_was_known_before(
    rig: Rig,
) -> None:
    first, slower, paused = [await rig.report(URL, name) for name in "abc"]
    await planned(rig)
    await rig.complete(COMPLETE_MS)

    async def change() -> None:  # while the first one is made
        await rig.reports.update_report(slower.id, ReportChange(grace_ms=HOUR_MS), END_MS)
        await rig.reports.pause_report(paused.id, END_MS)

    rig.usage.meanwhile = change
    assert await turn(rig, 1) == 1
    assert await states(rig, first) == [RunState.SUCCEEDED]
    assert await states(rig, slower) == [RunState.WAITING]
    assert await states(rig, paused) == [RunState.WAITING]
    assert await turn(rig, 2) == 0
    await rig.reports.resume_report(paused.id, END_MS)
    await rig.complete(END_MS + HOUR_MS)
    assert await turn(rig, 3) == 2
