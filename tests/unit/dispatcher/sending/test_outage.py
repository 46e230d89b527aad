"""Receivers that are away: probes, places that open again, a patience that ends."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import structlog
from msgspec import structs

from dispatcher.sending.attempt import deliver
from dispatcher.sending.fairness import Caps
from dispatcher.sending.retry import RetryPolicy
from meterline.delivery import DeliveryState, Health
from meterline.report import Report, ReportState, Run, RunState
from meterline.window import MINUTE_MS
from tests.unit.dispatcher.conftest import Mailbox, Rig
from tests.unit.dispatcher.sending.steps import (
    NOW_MS,
    SUBJECTS,
    Mailboxes,
    by_id,
    claimed,
    is_ended,
    made,
    real_now_ms,
    the_run,
    until,
    working,
)

MANY = [f"subject {n:02}" for n in range(40)]


async def sent_once(rig: Rig, report: Report, subjects: list[str]) -> Run:
    """The first run of a report, and no others: they would take the time of the test."""
    run = await made(rig, report, subjects)
    await rig.reports.plan(report, [], real_now_ms() + 10 * MINUTE_MS)
    return run


async def test_in_an_outage_one_is_tried_at_a_time_and_the_others_keep_their_attempts(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [503] * 12  # the first eight together, then probes
    retry = RetryPolicy((0, 0.02, 0.02, 0.02), patience_s=0, jitter=0)
    rig.send_terms = replace(rig.send_terms, retry=retry)
    run = await sent_once(rig, await rig.report(f"{box.url}?token=hidden"), MANY)
    with structlog.testing.capture_logs() as lines:
        async with working(rig):
            await until(lambda: is_ended(rig, run))
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED
    assert len(by_id(box.posts)) == len(MANY)
    assert len(box.posts) == len(MANY) + 12
    # the log tells afterwards why deliveries waited, without what may be secret in a URL
    told = [line for line in lines if str(line["event"]).startswith("endpoint_")]
    assert [line["event"] for line in told] == ["endpoint_down", "endpoint_up"]
    assert {line["host"] for line in told} == {urlsplit(box.url).netloc}
    assert all("503" in line["reason"] for line in told)
    assert "hidden" not in str(lines)


async def test_two_dispatchers_probe_an_endpoint_that_is_out_no_more_than_one(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [503] * 10_000
    retry = RetryPolicy((0.001,) * 50, patience_s=0, jitter=0)
    rig.send_terms = replace(rig.send_terms, retry=retry, probe_pause_s=0.05)
    await sent_once(rig, await rig.report(box.url), MANY)

    async def is_out() -> bool:
        due = await rig.reports.due(real_now_ms() + MINUTE_MS)
        return bool(due) and due[0].health.out and box.at_once == 0

    async with working(rig), working(rig):
        await until(is_out)
        await asyncio.sleep(0.3)
        first, box.at_once_max = len(box.posts), 0
        await asyncio.sleep(1.5)
    # three pauses each of 50, 100, 200, 400 ms: without the probe there would be thousands
    assert first <= 4 * 8
    assert len(box.posts) - first <= 12
    assert box.at_once_max <= 1


async def opened(rig: Rig, box: Mailbox, now_ms: int) -> list[int]:
    """Claim and deliver until nothing is due at an instant; how many were claimed each time."""
    counts = []
    for _ in range(20):
        claimed_deliveries = await claimed(rig, now_ms)
        if not claimed_deliveries:
            break
        counts.append(len(claimed_deliveries))
        sent = [
            await deliver(it, rig.sender, rig.box, rig.send_terms.retry, real_now_ms(), 0.5)
            for it in claimed_deliveries
        ]
        ends = [it.end for it in sent]
        await rig.reports.record(ends, now_ms, rig.send_terms.health)
    assert len(box.posts) >= sum(counts)
    return counts


async def test_after_an_outage_the_endpoint_gets_one_two_four_and_then_all(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [503] * 3
    rig.send_terms = replace(rig.send_terms, caps=Caps(32, 3), probe_pause_s=30)
    await sent_once(rig, await rig.report(box.url), MANY)
    now_ms = real_now_ms()
    assert await opened(rig, box, now_ms) == [3]
    rig.send_terms = replace(rig.send_terms, caps=Caps(32, 8))
    assert (await opened(rig, box, now_ms + MINUTE_MS))[:5] == [1, 2, 4, 8, 8]


async def test_a_receiver_that_never_takes_anything_is_parked_and_owed_all(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [404] * 1_000
    # a week's patience, divided by half a million
    retry = RetryPolicy((0, 0.01, 0.05), every_s=0.2, patience_s=1.2)
    rig.send_terms = replace(rig.send_terms, retry=retry)
    report = await rig.report(box.url)
    run = await sent_once(rig, report, SUBJECTS)

    async def parked() -> bool:
        found = await rig.reports.report("default", report.id)
        assert found is not None
        if found.state is ReportState.ACTIVE:
            # usage goes on: a delivery that was given up is replaced by one that is tried
            for delivery in await rig.reports.deliveries(run.id, 10):
                if delivery.state is DeliveryState.FAILED:
                    await rig.reports.replay("default", delivery.id, real_now_ms())
        return found.state is ReportState.PARKED

    async with working(rig) as dispatcher:
        await until(parked)
        posts = len(box.posts)
        await asyncio.sleep(0.3)
        assert len(box.posts) <= posts + len(SUBJECTS), "what was in flight, and nothing more"
        found = await rig.reports.report("default", report.id)
        assert found is not None
        assert "has accepted nothing since" in found.state_reason
        assert "answered 404" in found.state_reason
        box.answers = []
        await rig.reports.resume_report(report.id, real_now_ms())
        for delivery in await rig.reports.deliveries(run.id, 10):
            if delivery.state is DeliveryState.FAILED:
                await rig.reports.replay("default", delivery.id, real_now_ms())
        dispatcher.wake()
        await until(lambda: is_ended(rig, run))
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED


async def test_an_endpoint_is_judged_by_its_own_faults_only(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    run: Run = await sent_once(rig, await rig.report(box.url), ["acme"])
    claimed_deliveries = await claimed(rig, NOW_MS)
    sealed = [
        structs.replace(it, signing_secrets_sealed=(b"not ours",)) for it in claimed_deliveries
    ]
    sent = [
        await deliver(it, rig.sender, rig.box, rig.send_terms.retry, NOW_MS, 0.5) for it in sealed
    ]
    assert [it.end.observed for it in sent] == [None]
    await rig.reports.record([it.end for it in sent], NOW_MS)
    (due,) = await rig.reports.due(NOW_MS + 60_000)
    assert due.health == Health()
    assert (await rig.reports.deliveries(run.id, 1))[0].state is DeliveryState.RETRYING
