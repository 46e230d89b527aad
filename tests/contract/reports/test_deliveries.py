"""What every ReportStore promises of deliveries, on SQLite and PostgreSQL."""

import asyncio

import pytest

from meterline.delivery import AttemptOutcome, DeliveryMove, DeliveryState, SendGrant
from meterline.problem import Problem
from meterline.report import Report, ReportState, ReportStore, RunState
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import (
    LEASE,
    NOW,
    SECRET,
    START,
    claimed,
    delivering,
    ended,
    manifest,
    scheduled,
    states,
    the_run,
)


async def test_deliveries_are_claimed_once_with_exact_bytes(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b", "c")
    (due,) = await store.due(NOW)
    assert (due.report_id, due.endpoint) == (report.id, report.endpoint)
    assert await store.due(NOW - 1) == []
    claims = await asyncio.gather(
        *(store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE) for _ in range(4))
    )
    claimed_deliveries = sorted((p for claim in claims for p in claim), key=lambda p: p.body)
    assert [p.body for p in claimed_deliveries] == [f"{s} of {run.id}".encode() for s in "abc"]
    first = claimed_deliveries[0]
    assert (first.attempt, first.signing_secrets_sealed, first.user_info_sealed) == (
        1,
        (SECRET,),
        b"\x00user",
    )
    assert await store.due(NOW) == []
    assert await states(store, run) == [DeliveryState.SENDING] * 3


async def test_the_last_delivery_ends_the_run(store: ReportStore, report: Report) -> None:
    run = await delivering(store, report, "a", "b")
    first, second = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)
    await store.record([ended(first, DeliveryMove.CONFIRM)], NOW + 1)
    assert (await the_run(store, run)).state is RunState.DELIVERING
    for _ in range(2):  # repeating changes nothing
        await store.record([ended(second, DeliveryMove.CONFIRM)], NOW + 2)
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.ended_at_ms) == (RunState.SUCCEEDED, 2, NOW + 2)
    attempts = await store.attempts([first.delivery_id, second.delivery_id])
    assert {(a.status, a.duration_ms, a.answer) for a in attempts} == {(204, 12, b"\xffbody")}
    assert len(attempts) == 2


async def test_a_retry_is_due_at_its_instant_and_not_before(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)
    await store.record([ended(claimed, DeliveryMove.RETRY, NOW + 5_000)], NOW)
    (delivery,) = await store.deliveries(run.id, 9)
    assert (delivery.state, delivery.next_attempt_at_ms) == (
        DeliveryState.RETRYING,
        NOW + 5_000,
    )
    assert await store.claim_deliveries([SendGrant(report.id, 9)], NOW + 4_999, LEASE) == []
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 9)], NOW + 5_000, LEASE)
    assert claimed.attempt == 2
    await store.record([ended(claimed, DeliveryMove.GIVE_UP)], NOW)
    found = await the_run(store, run)
    assert (found.state, found.failed) == (RunState.FAILED, 1)
    assert await store.due(NOW * 2) == []


async def test_a_dead_dispatchers_delivery_is_due_again_and_its_attempt_lost(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (dead,) = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)
    assert await store.claim_deliveries([SendGrant(report.id, 9)], LEASE - 1, LEASE) == []
    (living,) = await store.claim_deliveries([SendGrant(report.id, 9)], LEASE, LEASE + 60_000)
    assert (living.attempt, living.body) == (2, dead.body)
    lost, open_ = await store.attempts([dead.delivery_id])
    assert (lost.outcome, open_.outcome) == (AttemptOutcome.LOST, AttemptOutcome.SENDING)
    # what the one thought dead says late counts only if it is a success
    await store.record([ended(dead, DeliveryMove.GIVE_UP)], LEASE)
    assert await states(store, run) == [DeliveryState.SENDING]
    await store.record([ended(dead, DeliveryMove.CONFIRM)], LEASE)
    assert await states(store, run) == [DeliveryState.DELIVERED]
    await store.record([ended(living, DeliveryMove.GIVE_UP)], LEASE)
    assert await states(store, run) == [DeliveryState.DELIVERED]
    assert (await the_run(store, run)).state is RunState.SUCCEEDED


async def test_delivered_wins_over_an_earlier_failure(store: ReportStore, report: Report) -> None:
    run = await delivering(store, report, "a", "b")
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)
    await store.record(
        [ended(claimed, DeliveryMove.GIVE_UP) for claimed in claimed_deliveries], NOW
    )
    assert (await the_run(store, run)).state is RunState.FAILED
    await store.record([ended(claimed_deliveries[0], DeliveryMove.CONFIRM)], NOW)
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.PARTLY_FAILED, 1, 1)
    await store.record([ended(claimed_deliveries[1], DeliveryMove.CONFIRM)], NOW)
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.SUCCEEDED, 2, 0)


async def test_deleting_skips_what_is_undecided_and_cancels_what_is_open(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b", "c")
    later = scheduled(report, 1)
    await store.plan(report, [later], later.to_ms)
    claim = await claimed(store, later, "h2")
    done, flying = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    await store.record([ended(done, DeliveryMove.CONFIRM)], NOW)
    for _ in range(2):
        await store.delete_report(report.id, NOW + 1)
    assert await store.report("default", "monthly") is None
    assert await store.reports("default") == []
    assert (await the_run(store, later)).state is RunState.SKIPPED
    assert not await store.decide(claim, 7, manifest(claim, 0), NOW)
    assert sorted(await states(store, run)) == ["cancelled", "cancelled", "delivered"]
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.PARTLY_FAILED, 1, 2)
    assert await store.due(NOW * 2) == []
    assert await store.claim_deliveries([SendGrant(report.id, 9)], NOW * 2, NOW * 3) == []
    await store.record([ended(flying, DeliveryMove.CONFIRM)], NOW)
    assert sorted(await states(store, run)) == ["cancelled", "delivered", "delivered"]
    assert (await the_run(store, run)).failed == 1
    assert (await store.plans(NOW * 2, 10)).found == []
    with pytest.raises(Problem):
        await store.request_run(report, START, START + 60_000, NOW, revise=False)


async def test_a_parked_endpoint_keeps_what_is_owed_and_resumes(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a")
    await store.park_endpoint("other", report.endpoint, "gone", NOW)
    assert len(await store.due(NOW)) == 1
    await store.park_endpoint("default", report.endpoint, "gone", NOW)
    found = await store.report("default", report.id)
    assert found is not None
    assert (found.state, found.state_reason) == (ReportState.PARKED, "gone")
    assert await store.due(NOW) == []
    assert await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE) == []
    assert len((await store.plans(START + 9 * HOUR_MS, 10)).found) == 1
    await store.resume_report(report.id, NOW)
    assert await store.report("default", report.id) == report
    assert len(await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)) == 1
