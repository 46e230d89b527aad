"""What becomes of what a report owes when it is resumed: sent, or recorded as not asked for."""

import pytest

from dispatcher.runs.schedule import due_runs
from meterline.access import Action
from meterline.backends.control_store.access.changes import read_changes
from meterline.backends.control_store.engine import Database
from meterline.delivery import DeliveryMove, DeliveryState, SendGrant
from meterline.report import (
    NOT_ASKED_FOR,
    Owed,
    Report,
    ReportState,
    ReportStore,
    Resumed,
    Run,
    RunState,
)
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import (
    NOW,
    START,
    claimed,
    decided,
    drafts,
    ended,
    manifest,
    scheduled,
    states,
    the_run,
)

LATER = START + 8 * HOUR_MS + 5


async def owing(store: ReportStore, report: Report) -> list[Run]:
    """A paused report that owes three windows with runs and five without: the first is half
    delivered, the second waits for its first attempt, the third is not made; then eight hours
    pass.
    """
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report, runs, runs[-1].to_ms)
    await decided(store, runs[0], "a", "b")
    one, other = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, NOW + 1_000)
    await store.record(
        [ended(one, DeliveryMove.CONFIRM), ended(other, DeliveryMove.RETRY, NOW + 5_000)], NOW
    )
    await decided(store, runs[1], "a", "b", "c")
    await store.pause_report(report.id, NOW)
    return runs


async def planned(store: ReportStore) -> list[Run]:
    (plan,) = (await store.plans(LATER, 10)).found
    runs = due_runs(plan, LATER, 1_000, 500)
    await store.plan(plan.report, runs, runs[-1].to_ms)
    return runs


async def test_all_that_is_owed_is_sent(store: ReportStore, report: Report) -> None:
    runs = await owing(store, report)
    resumed = await store.resume_report(report.id, LATER)
    assert resumed == Resumed(runs=6, deliveries=4)
    assert {run.state for run in await planned(store)} == {RunState.SCHEDULED}
    assert (await the_run(store, runs[2])).state is RunState.SCHEDULED
    assert len(await store.claim_deliveries([SendGrant(report.id, 9)], LATER, LATER + 1)) == 4


async def test_nothing_is_sent_and_all_of_it_is_recorded(
    store: ReportStore, report: Report, control_database: Database
) -> None:
    runs = await owing(store, report)
    resumed = await store.resume_report(report.id, LATER, owed=Owed.NONE, author="key:1")
    assert resumed == Resumed(runs_skipped=6, deliveries_cancelled=4)
    first, second, third = [await the_run(store, run) for run in runs]
    assert (first.state, first.delivered, first.failed) == (RunState.PARTLY_FAILED, 1, 1)
    assert (second.state, second.delivered, second.failed) == (RunState.FAILED, 0, 3)
    assert (third.state, third.reason, third.ended_at_ms) == (
        RunState.SKIPPED,
        NOT_ASKED_FOR,
        LATER,
    )
    assert await states(store, runs[0]) == [DeliveryState.DELIVERED, DeliveryState.CANCELLED]
    assert await store.due(LATER + HOUR_MS) == []
    found = await planned(store)
    assert [(run.state, run.reason) for run in found] == [(RunState.SKIPPED, NOT_ASKED_FOR)] * 5
    later = await store.report("default", report.id)
    assert later is not None
    assert later.state is ReportState.ACTIVE
    changes = await control_database.read(lambda connection: read_changes(connection, "default", 9))
    (told,) = [it for it in changes if it.action is Action.RESUME]
    assert told.author == "key:1"
    assert told.detail == "none: runs owed 0, skipped 6; deliveries owed 0, cancelled 4"


async def test_only_the_newest_window_is_sent(store: ReportStore, report: Report) -> None:
    runs = await owing(store, report)
    resumed = await store.resume_report(report.id, LATER, owed=Owed.NEWEST)
    assert resumed == Resumed(runs=1, runs_skipped=5, deliveries_cancelled=4)
    found = await planned(store)
    assert [run.state for run in found] == [RunState.SKIPPED] * 4 + [RunState.SCHEDULED]
    assert (await the_run(store, runs[2])).state is RunState.SKIPPED
    # the next windows come as ever
    (plan,) = (await store.plans(LATER + HOUR_MS, 10)).found
    assert [run.state for run in due_runs(plan, LATER + HOUR_MS, 10, 10)] == [RunState.SCHEDULED]


async def test_the_newest_window_may_have_its_run_already(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report, runs, runs[-1].to_ms)
    await decided(store, runs[0], "a")
    await decided(store, runs[1], "a", "b")
    await store.pause_report(report.id, NOW)
    resumed = await store.resume_report(report.id, runs[-1].to_ms + 1, owed=Owed.NEWEST)
    assert resumed == Resumed(deliveries=2, deliveries_cancelled=1)
    assert await states(store, runs[1]) == [DeliveryState.PENDING] * 2
    assert (await the_run(store, runs[1])).state is RunState.DELIVERING
    assert (await the_run(store, runs[0])).state is RunState.FAILED


async def test_what_was_passed_over_can_be_had_by_hand(store: ReportStore, report: Report) -> None:
    runs = await owing(store, report)
    await store.resume_report(report.id, LATER, owed=Owed.NONE)
    found = await planned(store)
    for run in (runs[2], found[0]):
        asked, new = await store.request_run(report, run.from_ms, run.to_ms, LATER, revise=False)
        assert (asked.id, asked.state, new) == (run.id, RunState.WAITING, False)
    (_, cancelled) = await store.deliveries(runs[0].id, 10)
    assert (await store.replay("default", cancelled.id, LATER)).state is DeliveryState.PENDING
    again = await the_run(store, runs[0])
    assert (again.state, again.reason) == (RunState.DELIVERING, "")


async def test_who_makes_a_run_meanwhile_has_lost_it(store: ReportStore, report: Report) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    claim = await claimed(store, run)
    await store.stage(claim, drafts(claim, "a"))
    await store.pause_report(report.id, NOW)
    resumed = await store.resume_report(report.id, run.to_ms, owed=Owed.NONE)
    assert resumed == Resumed(runs_skipped=1)
    await store.stage(claim, drafts(claim, "b"))
    assert not await store.decide(claim, 7, manifest(claim, 1), NOW)
    assert (await the_run(store, run)).state is RunState.SKIPPED


async def test_a_plan_from_before_makes_no_runs(store: ReportStore, report: Report) -> None:
    """Of a parked report runs are made; whoever planned before it was resumed plans anew."""
    await store.park_endpoint("default", report.endpoint, "gone", NOW)
    (plan,) = (await store.plans(LATER, 10)).found
    runs = due_runs(plan, LATER, 1_000, 500)
    await store.resume_report(report.id, LATER, owed=Owed.NONE)
    await store.plan(plan.report, runs, runs[-1].to_ms)
    assert await store.runs(report.id, 10) == []
    assert {run.state for run in await planned(store)} == {RunState.SKIPPED}


@pytest.mark.parametrize("owed", list(Owed))
async def test_windows_are_passed_over_once(store: ReportStore, report: Report, owed: Owed) -> None:
    """Paused and resumed again before anybody planned: what was declined stays so."""
    await store.pause_report(report.id, NOW)
    await store.resume_report(report.id, LATER, owed=Owed.NONE)
    await store.pause_report(report.id, LATER)
    again = await store.resume_report(report.id, LATER + 2 * HOUR_MS, owed=owed)
    kept = {Owed.ALL: 2, Owed.NEWEST: 1, Owed.NONE: 0}[owed]
    assert again == Resumed(runs=kept, runs_skipped=2 - kept)
    (plan,) = (await store.plans(LATER + 2 * HOUR_MS, 10)).found
    runs = due_runs(plan, LATER + 2 * HOUR_MS, 1_000, 500)
    assert [run.state for run in runs].count(RunState.SCHEDULED) == kept


async def failed(store: ReportStore, report: Report) -> list[Run]:
    """A paused report with two windows: of the first one delivery arrived, one failed and one was
    cancelled before; both of the second failed.
    """
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report, runs[:1], runs[0].to_ms)
    await decided(store, runs[0], "a", "b", "c")
    two = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, NOW + 1_000)
    by = (DeliveryMove.CONFIRM, DeliveryMove.GIVE_UP)
    await store.record([ended(one, move) for one, move in zip(two, by, strict=True)], NOW)
    await store.pause_report(report.id, NOW)
    await store.resume_report(report.id, NOW, owed=Owed.NONE)
    await store.plan(report, runs[1:], runs[1].to_ms)
    await decided(store, runs[1], "a", "b")
    rest = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, NOW + 1_000)
    assert len(rest) == 2
    await store.record([ended(one, DeliveryMove.GIVE_UP) for one in rest], NOW)
    await store.pause_report(report.id, NOW)
    return runs


async def test_what_failed_is_sent_and_counted(
    store: ReportStore, report: Report, control_database: Database
) -> None:
    runs = await failed(store, report)
    resumed = await store.resume_report(report.id, runs[-1].to_ms + 1)
    assert resumed == Resumed(deliveries=3)
    first, second = [await the_run(store, run) for run in runs]
    assert (first.state, first.delivered, first.failed) == (RunState.DELIVERING, 1, 1)
    assert (second.state, second.delivered, second.failed) == (RunState.DELIVERING, 0, 0)
    assert (first.ended_at_ms, first.reason) == (None, "")
    assert sorted(await states(store, runs[0])) == ["cancelled", "delivered", "pending"]
    again = await store.claim_deliveries([SendGrant(report.id, 9)], LATER, LATER + 1)
    assert len(again) == 3
    await store.record([ended(one, DeliveryMove.CONFIRM) for one in again], LATER)
    first, second = [await the_run(store, run) for run in runs]
    assert (first.state, first.delivered, first.failed) == (RunState.PARTLY_FAILED, 2, 1)
    assert second.state is RunState.SUCCEEDED
    changes = await control_database.read(lambda connection: read_changes(connection, "default", 9))
    told = [it.detail for it in changes if it.action is Action.RESUME]
    assert told[0] == "all: runs owed 0, skipped 0; deliveries owed 3, cancelled 0"


async def test_what_failed_in_the_newest_window_is_sent(store: ReportStore, report: Report) -> None:
    runs = await failed(store, report)
    resumed = await store.resume_report(report.id, runs[-1].to_ms + 1, owed=Owed.NEWEST)
    assert resumed == Resumed(deliveries=2)
    assert await states(store, runs[1]) == [DeliveryState.PENDING] * 2
    first = await the_run(store, runs[0])
    assert (first.state, first.delivered, first.failed) == (RunState.PARTLY_FAILED, 1, 2)


async def test_what_failed_stays_so_where_a_newer_window_is_owed_or_nothing_is_asked_for(
    store: ReportStore, report: Report
) -> None:
    runs = await failed(store, report)
    resumed = await store.resume_report(report.id, runs[-1].to_ms + 1, owed=Owed.NONE)
    assert resumed == Resumed()
    await store.pause_report(report.id, NOW)
    resumed = await store.resume_report(report.id, LATER, owed=Owed.NEWEST)
    assert (resumed.runs, resumed.deliveries) == (1, 0)
    assert await states(store, runs[1]) == [DeliveryState.FAILED] * 2


async def test_an_active_report_stays_as_it_is(store: ReportStore, report: Report) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, "a")
    assert await store.resume_report(report.id, LATER, owed=Owed.NONE) == Resumed()
    assert await store.resume_report("none", LATER, owed=Owed.NONE) == Resumed()
    assert await states(store, run) == [DeliveryState.PENDING]
