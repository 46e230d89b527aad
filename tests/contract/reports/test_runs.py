"""What every ReportStore promises of reports and runs, on SQLite and PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from meterline.delivery import digest_of
from meterline.problem import Problem, ProblemType
from meterline.report import Report, ReportStore, RunMove, RunQuery, RunState, Trigger
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import (
    LEASE,
    NOW,
    START,
    claimed,
    decided,
    delivering,
    drafts,
    manifest,
    scheduled,
    the_run,
)


async def test_a_report_is_found_as_it_was_made_by_id_and_slug(
    store: ReportStore, report: Report
) -> None:
    assert await store.report("default", "monthly") == report
    assert await store.report("default", "01r") == report
    assert await store.report("other", "monthly") is None
    assert await store.reports("default") == [report]


async def test_an_id_wins_over_a_slug(store: ReportStore, report: Report) -> None:
    namesake = replace(report, id="02R", slug="01R")
    await store.create_report(namesake, START)
    assert await store.report("default", "01R") == report


async def test_creating_again_is_once_and_another_of_the_slug_is_a_conflict(
    store: ReportStore, report: Report
) -> None:
    await store.create_report(report, START)
    assert len(await store.reports("default")) == 1
    with pytest.raises(Problem) as caught:
        await store.create_report(replace(report, id="02R"), START)
    assert caught.value.type is ProblemType.CONFLICT
    await store.delete_report(report.id, NOW)
    await store.create_report(replace(report, id="02R"), START)


async def test_a_report_of_a_meter_that_is_gone_is_refused(
    store: ReportStore, report: Report
) -> None:
    with pytest.raises(Problem) as caught:
        await store.create_report(replace(report, id="02R", slug="x", meter_id="none"), START)
    assert caught.value.type is ProblemType.NOT_FOUND


async def test_plans_are_those_whose_window_has_ended(store: ReportStore, report: Report) -> None:
    end = START + HOUR_MS
    assert (await store.plans(end - 1, 10)).found == []
    (plan,) = (await store.plans(end, 10)).found
    assert (plan.report, plan.planned_until_ms) == (report, START)
    run = scheduled(report)
    for _ in range(2):
        await store.plan(report, [run], run.to_ms)
    assert (await store.plans(end, 10)).found == []
    assert await store.runs(report.id, 10) == [run]
    await store.plan(report, [run], START)  # an older plan never moves it back
    assert (await store.plans(end, 10)).found == []


async def test_a_run_by_hand_is_made_once_and_found_again(
    store: ReportStore, report: Report
) -> None:
    run, new = await store.request_run(report, START, START + 60_000, NOW, revise=False)
    assert new
    assert (run.state, run.trigger, run.revision) == (RunState.WAITING, Trigger.MANUAL, 1)
    for revise in (False, True):  # a revision of what is not decided would say the same
        again = await store.request_run(report, START, START + 60_000, NOW + 5, revise=revise)
        assert again == (run, False)
    both = await asyncio.gather(
        *(store.request_run(report, START, START + 120_000, NOW, revise=False) for _ in range(4))
    )
    assert sorted(new for _, new in both) == [False, False, False, True]


async def test_a_revision_follows_a_decided_run(store: ReportStore, report: Report) -> None:
    first = await delivering(store, report, "a", "b")
    window = (first.from_ms, first.to_ms)
    same, new = await store.request_run(report, *window, NOW, revise=False)
    assert (same.id, new) == (first.id, False)
    second, new = await store.request_run(report, *window, NOW, revise=True)
    assert (second.revision, second.supersedes, new) == (2, first.id, True)
    held = await store.booked(second)
    assert {subject: it.usage_digest for subject, it in held.items()} == {
        "a": digest_of(b"a"),
        "b": digest_of(b"b"),
    }
    claim = await claimed(store, second)
    assert await store.close_run(claim, RunMove.UNCHANGED, "the same", NOW)
    found, new = await store.request_run(report, *window, NOW, revise=False)
    assert (found.id, new) == (first.id, False)
    third, new = await store.request_run(report, *window, NOW, revise=True)
    assert (third.revision, third.supersedes, new) == (3, first.id, True)


async def test_skipped_and_refused_runs_can_be_asked_for_after_all(
    store: ReportStore, report: Report
) -> None:
    skipped = replace(scheduled(report), state=RunState.SKIPPED, ended_at_ms=NOW, reason="bound")
    refused = scheduled(report, 1)
    await store.plan(report, [skipped, refused], refused.to_ms)
    claim = await claimed(store, refused)
    assert await store.close_run(claim, RunMove.REFUSE, "too much", NOW)
    assert (await the_run(store, refused)).state is RunState.FAILED
    for run in (skipped, refused):
        found, new = await store.request_run(report, run.from_ms, run.to_ms, NOW + 9, revise=False)
        assert (found.id, found.state, found.asked_at_ms, new) == (
            run.id,
            RunState.WAITING,
            NOW + 9,
            False,
        )
        assert found == await the_run(store, run)


async def test_undecided_gives_the_oldest_of_each_trigger_with_a_free_lease(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report, runs, runs[-1].to_ms)
    by_hand, _ = await store.request_run(report, START, START + 60_000, NOW, revise=False)
    assert [run.id for run, _ in (await store.undecided(NOW, 10)).found] == [by_hand.id, runs[0].id]
    assert len((await store.undecided(NOW, 1)).found) == 1
    await store.await_runs([runs[0].id])
    assert (await the_run(store, runs[0])).state is RunState.WAITING
    await claimed(store, runs[0])
    assert [run.id for run, _ in (await store.undecided(NOW, 10)).found] == [by_hand.id]
    after = (await store.undecided(NOW + 60_000, 10)).found
    assert [run.id for run, _ in after] == [by_hand.id, runs[0].id]


async def test_undecided_is_read_on_by_report_and_trigger(
    store: ReportStore, report: Report
) -> None:
    other = replace(report, id="01S", slug="other")
    paused = replace(report, id="01T", slug="paused")
    last = replace(report, id="01U", slug="last")
    for made in (other, paused, last):
        await store.create_report(made, START)
    reports = (report, other, paused, last)
    for made in reports:  # the longest overdue last: a page goes by reports, not by windows
        runs = [scheduled(made, hour) for hour in range(5 - reports.index(made), 7)]
        await store.plan(made, runs, runs[-1].to_ms)
    by_hand, _ = await store.request_run(report, START, START + 60_000, NOW, revise=False)
    await store.pause_report(paused.id, NOW)
    expected = [by_hand.id, *(scheduled(it, 5 - reports.index(it)).id for it in (report, other))]
    expected.append(scheduled(last, 2).id)
    for limit in (1, 2, 3):
        found: list[str] = []
        after: tuple[str, str] | None = None
        while (page := await store.undecided(NOW, limit, after)).found:
            assert len(page.found) <= limit
            found += [run.id for run, _ in page.found]
            if (after := page.after) is None:
                break
        assert found == expected


async def test_many_runs_are_seen_to_be_waiting_at_once(store: ReportStore, report: Report) -> None:
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report, runs, runs[-1].to_ms)
    await claimed(store, runs[0])
    await asyncio.gather(*(store.await_runs([run.id for run in runs[:2]]) for _ in range(3)))
    states = [(await the_run(store, run)).state for run in runs]
    assert states == [RunState.MATERIALIZING, RunState.WAITING, RunState.SCHEDULED]


async def test_one_report_has_one_lease_at_a_time(store: ReportStore, report: Report) -> None:
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report, runs, runs[-1].to_ms)
    claims = await asyncio.gather(
        *(store.claim_run(run.id, f"{run.id}{n}", NOW, LEASE) for run in runs for n in range(3))
    )
    assert len([claim for claim in claims if claim is not None]) == 1
    (holder,) = [claim for claim in claims if claim is not None]
    await store.release_run(holder.run.id, holder.holder)
    assert (await the_run(store, holder.run)).state is RunState.WAITING
    assert await store.claim_run(runs[1].id, "again", NOW, LEASE) is not None


async def test_the_second_holder_wins_and_the_first_changes_nothing(
    store: ReportStore, report: Report
) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    first = await claimed(store, run, "first")
    await store.stage(first, drafts(first, "a", "b", "c"))
    second = await claimed(store, run, "second", NOW + 60_001)
    for _ in range(2):
        await store.stage(second, drafts(second, "a", "b"))
    assert not await store.decide(first, 7, manifest(first, 3), NOW)
    assert not await store.close_run(first, RunMove.REFUSE, "", NOW)
    await store.release_run(run.id, "first")
    assert await store.deliveries(run.id, 10) == []
    for _ in range(2):  # its answer may have been lost: the winner may ask again
        assert await store.decide(second, 7, manifest(second, 2), NOW)
    assert not await store.decide(first, 7, manifest(first, 3), NOW)
    found = await the_run(store, run)
    assert found.manifest == manifest(second, 2)
    assert (found.state, found.meter_revision, found.decided_at_ms) == (
        RunState.DELIVERING,
        7,
        NOW,
    )
    listed = await store.deliveries(run.id, 10)
    assert [(d.subject, d.number, d.sequence) for d in listed] == [("a", 1, 1), ("b", 2, 2)]
    assert [d.number for d in await store.deliveries(run.id, 10, after=1)] == [2]


async def test_sequences_are_gapless_over_the_runs_of_a_report(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report, runs, runs[-1].to_ms)
    await decided(store, runs[0], "a", "b")
    await decided(store, runs[1])
    assert (await the_run(store, runs[1])).state is RunState.SUCCEEDED
    await decided(store, runs[2], "a")
    numbers = [d.sequence for run in runs for d in await store.deliveries(run.id, 10)]
    assert numbers == [1, 2, 3]


async def test_a_number_taken_by_another_run_loses_the_decision(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report, runs, runs[-1].to_ms)
    slow = await claimed(store, runs[0], "slow", NOW - 100_000)
    await store.stage(slow, drafts(slow, "a"))
    await decided(store, runs[1], "a", holder="fast")
    assert not await store.decide(slow, 7, manifest(slow, 1), NOW)
    await decided(store, runs[0], "a", holder="slow again")
    assert [d.sequence for d in await store.deliveries(runs[0].id, 10)] == [2]


async def test_nobody_decides_a_run_whose_deliveries_were_dropped(
    store: ReportStore, report: Report
) -> None:
    """A claim may take effect once more after its holder gave the lease back."""
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    claim = await claimed(store, run)
    await store.stage(claim, drafts(claim, "a", "b"))
    await store.release_run(run.id, claim.holder)
    assert await claimed(store, run) == replace(claim, run=await the_run(store, run))
    assert not await store.decide(claim, 7, manifest(claim, 2), NOW)
    await store.stage(claim, drafts(claim, "a", "b")[:1])
    assert not await store.decide(claim, 7, manifest(claim, 2), NOW)
    assert (await the_run(store, run)).state is RunState.MATERIALIZING
    assert await store.deliveries(run.id, 10) == []
    await store.release_run(run.id, claim.holder)
    await decided(store, run, "a", "b", holder="anew")
    assert [d.sequence for d in await store.deliveries(run.id, 10)] == [1, 2]


async def test_runs_are_listed_newest_first_in_pages(store: ReportStore, report: Report) -> None:
    runs = [scheduled(report, hour) for hour in range(5)]
    await store.plan(report, runs, runs[-1].to_ms)
    page = await store.runs(report.id, 2)
    rest = await store.runs(report.id, 9, before=page[-1])
    assert page + rest == runs[::-1]
    assert await store.run("other", runs[0].id) is None


@pytest.mark.parametrize(
    ("query", "hours"),
    [
        (RunQuery(), [5, 4, 3, 2, 1, 0]),
        (RunQuery(states=(RunState.DELIVERING,)), [1, 0]),
        (RunQuery(states=(RunState.DELIVERING, RunState.SKIPPED)), [3, 1, 0]),
        (RunQuery(triggers=(Trigger.MANUAL,)), [5]),
        (RunQuery(triggers=(Trigger.MANUAL,), states=(RunState.SKIPPED,)), []),
        (RunQuery(from_min_ms=START + HOUR_MS, to_max_ms=START + 4 * HOUR_MS), [3, 2, 1]),
        (RunQuery(from_min_ms=START + HOUR_MS + 1), [5, 4, 3, 2]),
        (RunQuery(to_max_ms=START + HOUR_MS - 1), []),
    ],
)
async def test_runs_are_listed_by_what_is_asked_for(
    store: ReportStore, report: Report, query: RunQuery, hours: list[int]
) -> None:
    runs = [scheduled(report, hour) for hour in range(5)]
    runs[3] = replace(runs[3], state=RunState.SKIPPED, ended_at_ms=NOW)
    await store.plan(report, runs, runs[-1].to_ms)
    for run in runs[:2]:
        await decided(store, run, "a")
    by_hand = START + 5 * HOUR_MS
    await store.request_run(report, by_hand, by_hand + HOUR_MS, NOW, revise=False)
    found = [
        (run.from_ms - START) // HOUR_MS for run in await store.runs(report.id, 9, None, query)
    ]
    assert found == hours
    if len(hours) > 1:  # pages go on within what is asked for
        first = await store.runs(report.id, 1, None, query)
        rest = await store.runs(report.id, 9, first[0], query)
        assert [(run.from_ms - START) // HOUR_MS for run in first + rest] == hours
