"""What every ReportStore promises of deliveries that are sent again."""

import pytest

from meterline.delivery import (
    AttemptOutcome,
    ClaimedDelivery,
    DeliveryMove,
    DeliveryState,
    SendGrant,
)
from meterline.problem import Problem, ProblemType
from meterline.report import Report, ReportChange, ReportStore, Run, RunState
from tests.contract.reports.conftest import LEASE, NOW, delivering, ended, the_run

LATER = NOW + 1_000


async def claim(store: ReportStore, report: Report, now_ms: int = NOW) -> list[ClaimedDelivery]:
    return await store.claim_deliveries([SendGrant(report.id, 9)], now_ms, now_ms + 60_000)


async def outcome(store: ReportStore, run: Run) -> tuple[RunState, int, int, int | None]:
    found = await the_run(store, run)
    return found.state, found.delivered, found.failed, found.ended_at_ms


async def test_a_delivered_one_is_sent_again_with_the_same_bytes_under_the_same_id(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b")
    first, second = await claim(store, report)
    await store.record([ended(it, DeliveryMove.CONFIRM) for it in (first, second)], NOW)
    again = await store.replay("default", first.delivery_id, LATER)
    assert (again.state, again.attempts, again.replayed_at_ms) == (DeliveryState.PENDING, 1, LATER)
    assert (again.next_attempt_at_ms, again.ended_at_ms) == (LATER, None)
    assert await outcome(store, run) == (RunState.DELIVERING, 1, 0, None)
    assert await claim(store, report, LATER - 1) == []
    (claimed,) = await claim(store, report, LATER)
    assert (claimed.delivery_id, claimed.body) == (first.delivery_id, first.body)
    assert (claimed.attempt, claimed.attempts_before) == (2, 1)
    await store.record([ended(claimed, DeliveryMove.CONFIRM)], LATER)
    assert await outcome(store, run) == (RunState.SUCCEEDED, 2, 0, LATER)
    attempts = await store.attempts([first.delivery_id])
    assert [it.number for it in attempts] == [1, 2]


async def test_a_runs_outcome_follows_its_replays(store: ReportStore, report: Report) -> None:
    run = await delivering(store, report, "a", "b")
    claimed_deliveries = await claim(store, report)
    await store.record([ended(it, DeliveryMove.GIVE_UP) for it in claimed_deliveries], NOW)
    assert await outcome(store, run) == (RunState.FAILED, 0, 2, NOW)
    for it in claimed_deliveries:
        await store.replay("default", it.delivery_id, LATER)
    assert await outcome(store, run) == (RunState.DELIVERING, 0, 0, None)
    one, other = await claim(store, report, LATER)
    await store.record([ended(one, DeliveryMove.CONFIRM)], LATER)
    assert await outcome(store, run) == (RunState.DELIVERING, 1, 0, None)
    await store.record([ended(other, DeliveryMove.GIVE_UP)], LATER)
    assert await outcome(store, run) == (RunState.PARTLY_FAILED, 1, 1, LATER)
    # and the other way: what is sent again may fail
    await store.replay("default", one.delivery_id, LATER)
    (claimed,) = await claim(store, report, LATER)
    await store.record([ended(claimed, DeliveryMove.GIVE_UP)], LATER + 1)
    assert await outcome(store, run) == (RunState.FAILED, 0, 2, LATER + 1)


async def test_one_that_waits_for_a_retry_is_sent_now_with_all_its_retries(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (claimed,) = await claim(store, report)
    await store.record([ended(claimed, DeliveryMove.RETRY, NOW + 10**7)], NOW)
    await store.replay("default", claimed.delivery_id, LATER)
    assert await outcome(store, run) == (RunState.DELIVERING, 0, 0, None)
    (claimed,) = await claim(store, report, LATER)
    assert (claimed.attempt, claimed.attempts_before) == (2, 1)


async def test_what_an_older_attempt_says_late_is_no_answer_to_a_replay(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (dead,) = await claim(store, report)
    (living,) = await claim(store, report, LEASE)
    await store.record([ended(living, DeliveryMove.CONFIRM)], LEASE)
    await store.replay("default", dead.delivery_id, LEASE)
    await store.record([ended(dead, DeliveryMove.CONFIRM)], LEASE)
    await store.record([ended(living, DeliveryMove.CONFIRM)], LEASE)
    (delivery,) = await store.deliveries(run.id, 9)
    assert delivery.state is DeliveryState.PENDING
    (replayed,) = await claim(store, report, LEASE)
    await store.record([ended(dead, DeliveryMove.GIVE_UP)], LEASE)
    await store.record([ended(replayed, DeliveryMove.CONFIRM)], LEASE)
    assert await outcome(store, run) == (RunState.SUCCEEDED, 1, 0, LEASE)
    outcomes = [it.outcome for it in await store.attempts([dead.delivery_id])]
    # the first one's answer was recorded all the same
    assert outcomes == [
        AttemptOutcome.REFUSED,
        AttemptOutcome.DELIVERED,
        AttemptOutcome.DELIVERED,
    ]


async def test_one_that_is_due_stays_and_one_that_is_being_sent_is_refused(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (before,) = await store.deliveries(run.id, 9)
    assert await store.replay("default", before.id, LATER) == before
    await claim(store, report)
    with pytest.raises(Problem, match="being sent") as caught:
        await store.replay("default", before.id, LATER)
    assert caught.value.type is ProblemType.CONFLICT


async def test_one_whose_dispatcher_died_is_sent_again_in_a_paused_report_too(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (dead,) = await claim(store, report)  # its lease ends, and so does its dispatcher
    await store.pause_report(report.id, NOW)
    with pytest.raises(Problem, match="being sent"):
        await store.replay("default", dead.delivery_id, LEASE - 1)
    again = await store.replay("default", dead.delivery_id, LEASE)
    assert (again.state, again.attempts, again.replayed_at_ms) == (DeliveryState.PENDING, 1, LEASE)
    assert again.next_attempt_at_ms == LEASE
    (attempt,) = await store.attempts([dead.delivery_id])
    assert (attempt.outcome, "may have arrived" in attempt.reason) == (AttemptOutcome.LOST, True)
    assert await outcome(store, run) == (RunState.DELIVERING, 0, 0, None)
    # What it says after all is no answer to the replay.
    await store.record([ended(dead, DeliveryMove.CONFIRM)], LEASE)
    await store.resume_report(report.id, LEASE)
    (claimed,) = await claim(store, report, LEASE)
    assert (claimed.attempt, claimed.attempts_before, claimed.body) == (2, 1, dead.body)
    await store.record([ended(claimed, DeliveryMove.CONFIRM)], LEASE)
    assert await outcome(store, run) == (RunState.SUCCEEDED, 1, 0, LEASE)


async def test_only_deliveries_of_live_reports_of_the_namespace_are_sent_again(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (claimed,) = await claim(store, report)
    await store.record([ended(claimed, DeliveryMove.GIVE_UP)], NOW)
    with pytest.raises(Problem) as caught:
        await store.replay("other", claimed.delivery_id, LATER)
    assert caught.value.type is ProblemType.NOT_FOUND
    await store.delete_report(report.id, NOW)
    with pytest.raises(Problem, match="deleted") as caught:
        await store.replay("default", claimed.delivery_id, LATER)
    assert caught.value.type is ProblemType.CONFLICT
    assert await outcome(store, run) == (RunState.FAILED, 0, 1, NOW)


async def test_a_replay_goes_where_the_report_points_now_and_waits_while_it_is_paused(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a")
    (claimed,) = await claim(store, report)
    await store.record([ended(claimed, DeliveryMove.GIVE_UP)], NOW)
    await store.update_report(report.id, ReportChange(endpoint="https://new.example/"), NOW)
    await store.pause_report(report.id, NOW)
    await store.replay("default", claimed.delivery_id, LATER)
    assert await claim(store, report, LATER) == []
    await store.resume_report(report.id, NOW)
    (again,) = await claim(store, report, LATER)
    assert (again.endpoint, again.body) == ("https://new.example/", claimed.body)
