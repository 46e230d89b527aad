"""The dispatcher's steps and the worker around them, to real receivers: at least once, the same
bytes, fair.
"""

import asyncio
import random
from dataclasses import replace

import msgspec

from dispatcher.sending.fairness import Caps
from dispatcher.sending.retry import RetryPolicy
from meterline.backends.secrets import FernetSecretBox
from meterline.delivery import AttemptOutcome, DeliveryState, SecretBox
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.report import ReportState, Run, RunState
from meterline.window import MINUTE_MS
from tests.unit.dispatcher.conftest import START_MS, Rig
from tests.unit.dispatcher.sending.steps import (
    NOW_MS,
    SUBJECTS,
    Mailboxes,
    arrived,
    by_id,
    claimed,
    is_ended,
    made,
    posted,
    real_now_ms,
    the_run,
    until,
    working,
)


async def test_each_subject_is_delivered_signed_and_recorded(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    report = await rig.report(box.url, user_info="me:p@ss")
    run = await made(rig, report, SUBJECTS)
    claimed_deliveries = await claimed(rig, NOW_MS)
    await posted(rig, claimed_deliveries, NOW_MS, recorded=True)
    assert box.subjects == SUBJECTS
    listed = await rig.reports.deliveries(run.id, 10)
    assert [post.id for post in box.posts] == [delivery.id for delivery in listed]
    assert {d.state for d in listed} == {DeliveryState.DELIVERED}
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED
    for post in box.posts:
        assert post.headers["content-type"] == "application/json"
        assert post.headers["authorization"] == "Basic bWU6cEBzcw=="
        assert post.headers["webhook-id"] == post.id
        assert post.members["type"] == "report.meter"
    (attempt,) = await rig.reports.attempts([listed[0].id])
    assert (attempt.outcome, attempt.status) == (AttemptOutcome.DELIVERED, 200)


async def test_headers_of_a_report_are_sent_beside_ours(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    report = await rig.report(box.url, headers={"X-Api-Key": "k", "Authorization": "Bearer t"})
    await made(rig, report, ["acme"])
    claimed_deliveries = await claimed(rig, NOW_MS)
    await posted(rig, claimed_deliveries, NOW_MS, recorded=True)
    (post,) = box.posts
    assert (post.headers["x-api-key"], post.headers["authorization"]) == ("k", "Bearer t")
    assert post.headers["content-type"] == "application/json"
    assert post.headers["svix-id"] == post.id


async def test_a_dispatcher_that_dies_after_sending_leads_to_the_same_bytes_again(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    run = await made(rig, await rig.report(box.url), SUBJECTS)
    dead = await claimed(rig, NOW_MS)
    await posted(rig, dead, NOW_MS, recorded=False)
    assert await claimed(rig, NOW_MS + 1) == []
    later_ms = NOW_MS + rig.send_terms.lease_ms
    living = await claimed(rig, later_ms)
    await posted(rig, living, later_ms, recorded=True)
    assert box.subjects == SUBJECTS * 2
    bodies = by_id(box.posts)
    assert len(bodies) == 3
    assert all(len(different) == 1 for different in bodies.values())
    attempts = await rig.reports.attempts([living[0].delivery_id])
    assert [a.outcome for a in attempts] == [AttemptOutcome.LOST, AttemptOutcome.DELIVERED]
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED


async def test_a_receiver_that_fails_and_recovers_gets_everything(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [500, 503, 301, 500, 429, 404]
    report = await rig.report(box.url)
    run = await made(rig, report, SUBJECTS)
    async with working(rig):
        await until(lambda: is_ended(rig, run))
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED
    bodies = by_id(box.posts)
    assert sorted({*box.subjects}) == SUBJECTS
    assert all(len(different) == 1 for different in bodies.values())
    listed = await rig.reports.deliveries(run.id, 10)
    attempts = await rig.reports.attempts([delivery.id for delivery in listed])
    assert len(attempts) == len(box.posts) == 9
    assert sum(a.status == 200 for a in attempts) == 3
    # each attempt is signed anew, each delivery has one id
    assert {delivery.id for delivery in listed} == set(bodies)


async def test_an_exhausted_delivery_is_failed_and_held(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    box.answers = [500] * 100
    run = await made(rig, await rig.report(box.url), ["acme"])
    async with working(rig):
        await until(lambda: is_ended(rig, run))
    assert (await the_run(rig, run)).state is RunState.FAILED
    (delivery,) = await rig.reports.deliveries(run.id, 10)
    assert (delivery.state, delivery.attempts) == (DeliveryState.FAILED, 4)
    last = (await rig.reports.attempts([delivery.id]))[-1]
    assert last.reason.endswith("given up after 4 attempts")
    assert len(box.posts) == 4


async def test_gone_parks_the_endpoint_and_resuming_sends_what_is_owed(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.answers = [410]
    rig.send_terms = replace(rig.send_terms, caps=Caps(1, 8))
    report = await rig.report(box.url)
    run = await made(rig, report, SUBJECTS)
    (first,) = await claimed(rig, NOW_MS)
    await posted(rig, [first], NOW_MS, recorded=True)
    parked = await rig.reports.report("default", report.id)
    assert parked is not None
    assert parked.state is ReportState.PARKED
    assert "410" in parked.state_reason
    assert await claimed(rig, NOW_MS) == []
    await rig.reports.resume_report(report.id, NOW_MS)
    async with working(rig):
        await until(lambda: is_ended(rig, run))
    found = await the_run(rig, run)
    # the one that was answered 410 is owed as well: somebody says that the receiver is there again
    assert (found.state, found.delivered, found.failed) == (RunState.SUCCEEDED, 3, 0)


async def test_deleting_while_deliveries_are_pending_sends_nothing_more(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.hang = asyncio.Event()
    rig.send_terms = replace(rig.send_terms, caps=Caps(32, 1))
    report = await rig.report(box.url)
    run = await made(rig, report, SUBJECTS)
    async with working(rig) as dispatcher:
        await until(lambda: arrived(box, 1))
        await rig.reports.delete_report(report.id, NOW_MS)
        box.hang.set()
        dispatcher.wake()
        await until(lambda: counted(rig, run, 1))
        await asyncio.sleep(0.1)
    assert len(box.posts) == 1
    states = [d.state for d in await rig.reports.deliveries(run.id, 10)]
    assert sorted(states) == ["cancelled", "cancelled", "delivered"]


async def counted(rig: Rig, run: Run, delivered: int) -> bool:
    return (await the_run(rig, run)).delivered == delivered


async def test_a_receiver_that_hangs_does_not_hold_up_another(rig: Rig, mailbox: Mailboxes) -> None:
    slow, quick = await mailbox(), await mailbox()
    slow.hang = asyncio.Event()
    rig.send_terms = replace(rig.send_terms, caps=Caps(4, 2))
    hanging = await rig.report(slow.url, "slow")
    report = await rig.report(quick.url, "quick")
    many = [f"subject {n:02}" for n in range(30)]
    await made(rig, hanging, many)
    run = (await rig.reports.runs(report.id, 10))[-1]
    async with working(rig):
        await until(lambda: is_ended(rig, run))
        assert len(slow.posts) == 2
        slow.hang.set()
        slow.hang = None
    assert sorted(quick.subjects) == many


async def test_a_secret_that_cannot_be_opened_is_a_recorded_attempt(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    run = await made(rig, await rig.report(box.url), ["acme"])
    rig.box = FernetSecretBox("another key")
    claimed_deliveries = await claimed(rig, NOW_MS)
    await posted(rig, claimed_deliveries, NOW_MS, recorded=True)
    assert box.posts == []
    (delivery,) = await rig.reports.deliveries(run.id, 10)
    assert delivery.state is DeliveryState.RETRYING
    (attempt,) = await rig.reports.attempts([delivery.id])
    assert "secret_key" in attempt.reason


class LosesItsKey:
    """A box that opens nothing any more after so many times. `opened` counts all that was asked."""

    def __init__(self, box: SecretBox, times: int) -> None:
        self._box = box
        self._times = times
        self.opened = 0

    def seal(self, plain: str) -> bytes:
        return self._box.seal(plain)

    def open(self, sealed: bytes) -> str:
        self.opened += 1
        if self.opened > self._times:
            raise ValueError("sealed under another key")
        return self._box.open(sealed)


async def test_deliveries_that_fail_at_once_leave_others_their_turns(
    rig: Rig, mailbox: Mailboxes
) -> None:
    """What was claimed ahead of a quick receiver fails without ever waiting for anything."""
    receiver = await mailbox()
    box = LosesItsKey(rig.box, 300)
    rig.box = box
    await made(rig, await rig.report(receiver.url), [f"s{number}" for number in range(600)])
    most = before = 0
    async with working(rig):
        while box.opened < 500:
            await asyncio.sleep(0)
            most, before = max(most, box.opened - before), box.opened
    assert most <= 2 * rig.send_terms.caps.endpoint


async def test_the_worker_makes_and_sends_what_becomes_due(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    now_ms = real_now_ms()
    await rig.complete(now_ms + 10 * MINUTE_MS)
    start_ms = now_ms - now_ms % MINUTE_MS
    report = await rig.report(box.url, created_at_ms=start_ms - 3 * MINUTE_MS)
    rig.usage.cells = {("acme", "a", start_ms - n * MINUTE_MS): n * UNIT for n in range(1, 4)}
    async with working(rig):
        await until(lambda: arrived(box, 3))
    runs = await rig.reports.runs(report.id, 10)
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    sequences = []
    for post in box.posts:
        run = post.members["run"]
        assert isinstance(run, dict)
        sequences.append(run["sequence"])
    assert sorted(sequences) == [1, 2, 3]


async def test_the_worker_goes_on_when_a_store_was_away(rig: Rig, mailbox: Mailboxes) -> None:
    box = await mailbox()
    report = await rig.report(box.url)
    rig.usage.cells = {("acme", "a", START_MS): UNIT}
    window = (START_MS - MINUTE_MS, START_MS + MINUTE_MS)
    await rig.reports.plan(report, [], real_now_ms() + 10 * MINUTE_MS)
    run, _ = await rig.reports.request_run(report, *window, START_MS, revise=False)
    rig.usage.errors = [Unavailable("usage store: away"), Unavailable("usage store: away")]
    await rig.complete(NOW_MS)
    async with working(rig):
        await until(lambda: is_ended(rig, run))
    assert box.subjects == ["acme"]
    assert rig.usage.errors == []


async def test_stopping_finishes_and_records_what_is_in_flight(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    box.hang = asyncio.Event()
    run = await made(rig, await rig.report(box.url), SUBJECTS[:2])
    async with working(rig) as dispatcher:
        await until(lambda: arrived(box, 2))
        dispatcher.stop()
        await asyncio.sleep(0.1)
        assert (await the_run(rig, run)).delivered == 0
        box.hang.set()
    assert (await the_run(rig, run)).state is RunState.SUCCEEDED


async def test_two_dispatchers_share_the_work_and_nothing_is_missing_or_double(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    chance = random.Random(7)
    box.answers = [chance.choice([200, 200, 500]) for _ in range(200)]
    rig.send_terms = replace(rig.send_terms, retry=RetryPolicy((0.01,) * 40, jitter=0))
    now_ms = real_now_ms()
    await rig.complete(now_ms + 10 * MINUTE_MS)
    start_ms = now_ms - now_ms % MINUTE_MS - 8 * MINUTE_MS
    report = await rig.report(box.url, created_at_ms=start_ms)
    rig.usage.cells = {
        (f"s{n}", "a", start_ms + window * MINUTE_MS): (n + window) * UNIT
        for window in range(8)
        for n in range(5)
        if (n + window) % 3
    }

    async def all_ended() -> bool:
        runs = await rig.reports.runs(report.id, 20)
        return len(runs) >= 8 and all(run.ended_at_ms is not None for run in runs)

    async with working(rig), working(rig):
        await until(all_ended)
    bodies = by_id(box.posts)
    assert all(len(different) == 1 for different in bodies.values())
    assert len(bodies) == len(rig.usage.cells)
    told = [msgspec.json.decode(next(iter(body)))["run"] for body in bodies.values()]
    assert sorted(run["sequence"] for run in told) == list(range(1, len(told) + 1))
    for name in {run["id"] for run in told}:
        numbers = [(run["number"], run["of"]) for run in told if run["id"] == name]
        assert sorted(numbers) == [(n + 1, len(numbers)) for n in range(len(numbers))]
