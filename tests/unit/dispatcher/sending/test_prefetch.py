"""Deliveries that are claimed ahead, and what waits for a place."""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.sending.fairness import Caps
from dispatcher.sending.prefetch import Answered, Waiting
from dispatcher.sending.retry import RetryPolicy
from meterline import limits
from meterline.delivery import Address, Answer, AttemptOutcome, ClaimedDelivery, DeliveryState
from meterline.report import Run
from tests.unit.dispatcher.conftest import Mailbox, Rig
from tests.unit.dispatcher.sending.steps import (
    Mailboxes,
    arrived,
    by_id,
    is_ended,
    real_now_ms,
    the_run,
    until,
    working,
)
from tests.unit.dispatcher.sending.test_outage import sent_once

HERE, THERE = ("default", "x"), ("default", "y")
MANY = [f"subject {n:03}" for n in range(200)]


def claimed(name: str, address: Address) -> ClaimedDelivery:
    return ClaimedDelivery(name, "run", "report", address[0], 1, 0, 0, address[1], (), None, b"{}")


@given(st.lists(st.tuples(st.integers(0, 30_000), st.sampled_from([HERE, THERE]), st.booleans())))
def test_what_endpoints_took_of_late(steps: list[tuple[int, Address, bool]]) -> None:
    found, now_ms, model = Answered(), 1_000_000, list[tuple[int, Address]]()
    for pause_ms, address, forget in steps:
        now_ms += pause_ms
        if forget:
            found.forget(address)
            model = [it for it in model if it[1] != address]
        else:
            found.add(address, now_ms)
            model.append((now_ms, address))
        late = Counter(where for at_ms, where in model if at_ms >= now_ms - limits.AHEAD_MS)
        assert found.counts(now_ms) == late
        proven = {where for at_ms, where in model if at_ms >= now_ms - limits.PROVEN_MS}
        assert found.proven(now_ms) == proven


@given(
    st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 4)), max_size=60),
    st.integers(1, 8),
    st.integers(1, 4),
)
def test_what_waits_begins_in_turns_within_the_caps(
    steps: list[tuple[str, int]], total: int, of_one: int
) -> None:
    waiting, caps, under_way = Waiting(), Caps(total, of_one), Counter[Address]()
    queues: dict[Address, deque[str]] = {}
    for number, (name, ends) in enumerate(steps):
        address = ("default", name)
        waiting.add(claimed(str(number), address), number)
        queues.setdefault(address, deque()).append(str(number))
        while begun := waiting.begin(under_way, caps):
            assert begun.delivery_id == queues[begun.address].popleft()
            assert under_way[begun.address] == min(
                under_way[it] for it, queue in queues.items() if queue or it == begun.address
            )
            under_way[begun.address] += 1
            assert max(under_way.values()) <= of_one
            assert under_way.total() <= total
        for address_ in list(under_way):
            if ends and under_way[address_]:
                under_way[address_] -= 1
    left = sorted(it.delivery_id for it in waiting.older_than(len(steps) // 2))
    assert left == sorted(n for queue in queues.values() for n in queue if int(n) < len(steps) // 2)
    rest = sorted(it.delivery_id for it in waiting.all())
    assert sorted([*left, *rest]) == sorted(n for queue in queues.values() for n in queue)


async def begins_to_hang(rig: Rig, box: Mailbox) -> None:
    """Let a receiver take some, then hang on all of its places while others are claimed ahead."""
    await until(lambda: arrived(box, 60))
    box.hang = asyncio.Event()
    await until(lambda: hangs(box, rig.send_terms.caps.endpoint))


async def hangs(box: Mailbox, count: int) -> bool:
    return box.at_once >= count


async def are_given_back(rig: Rig, run: Run) -> bool:
    """Whether those that have no place are the store's again."""
    states = Counter(it.state for it in await rig.reports.deliveries(run.id, len(MANY)))
    few = states[DeliveryState.SENDING] <= rig.send_terms.caps.endpoint
    return few and states[DeliveryState.PENDING] > 0


def goes_on(box: Mailbox) -> None:
    assert box.hang is not None
    box.hang.set()
    box.hang = None


async def test_one_that_begins_to_hang_holds_up_no_other_and_uses_up_no_attempt(
    rig: Rig, mailbox: Mailboxes
) -> None:
    quick, box = await mailbox(), await mailbox()
    run = await sent_once(rig, await rig.report(box.url), MANY)
    other = await sent_once(rig, await rig.report(quick.url, "other"), ["acme"])
    await rig.reports.pause_report(other.report_id, real_now_ms())
    async with working(rig):
        await begins_to_hang(rig, box)
        await rig.reports.resume_report(other.report_id, real_now_ms())
        await until(lambda: is_ended(rig, other))
        assert box.at_once == rig.send_terms.caps.endpoint  # they hang on, none has timed out
        await until(lambda: are_given_back(rig, run))
        assert box.at_once_max <= rig.send_terms.caps.endpoint
        goes_on(box)
        await until(lambda: is_ended(rig, run))
    assert len(by_id(box.posts)) == len(box.posts) == len(MANY)
    found = await rig.reports.attempts([*by_id(box.posts)])
    assert {(it.number, it.outcome) for it in found} == {(1, AttemptOutcome.DELIVERED)}


async def test_one_that_begins_to_fail_is_sent_no_more_than_was_under_way(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    rig.send_terms = replace(rig.send_terms, probe_pause_s=30)
    run = await sent_once(rig, await rig.report(box.url), MANY)
    async with working(rig):
        await until(lambda: arrived(box, 60))
        box.answers = [503] * 1_000
        await until(lambda: tried(box, 3))
        await asyncio.sleep(0.5)
        failed = 1_000 - len(box.answers)
    # those under way when the third one failed, and as many that had begun since
    bound = 3 + 2 * rig.send_terms.caps.endpoint
    assert 3 <= failed <= bound
    (due,) = await rig.reports.due(2**50)
    assert due.health.outages <= bound
    assert (await the_run(rig, run)).ended_at_ms is None


async def test_one_that_begins_to_fail_for_all_is_out_before_what_was_claimed_ahead_is_sent(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    caps, retry = replace(rig.send_terms.caps, faults=24), RetryPolicy((0, 60, 60))
    rig.send_terms = replace(rig.send_terms, caps=caps, retry=retry, probe_pause_s=30)
    await sent_once(rig, await rig.report(box.url), MANY)
    async with working(rig):
        await until(lambda: arrived(box, 60))
        box.answers = [500] * 1_000
        await until(lambda: tried(box, caps.faults))
        await asyncio.sleep(0.5)
        failed = 1_000 - len(box.answers)
    # those under way at first had begun before the last one was taken, and say nothing
    assert failed <= caps.faults + 2 * caps.endpoint
    (due,) = await rig.reports.due(2**50)
    assert due.health.out


async def tried(box: Mailbox, count: int) -> bool:
    return 1_000 - len(box.answers) >= count


async def test_at_its_end_a_dispatcher_sends_what_is_under_way_and_gives_back_what_waits(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    run = await sent_once(rig, await rig.report(box.url), MANY)
    async with working(rig) as dispatcher:
        await begins_to_hang(rig, box)
        dispatcher.stop()
        so_far = len(box.posts)
        goes_on(box)
    assert len(box.posts) == so_far
    listed = await rig.reports.deliveries(run.id, len(MANY))
    states = Counter(it.state for it in listed)
    assert states == {
        DeliveryState.DELIVERED: so_far,
        DeliveryState.PENDING: len(MANY) - so_far,
    }
    async with working(rig):  # at once: nobody waits for a lease
        await until(lambda: is_ended(rig, run))
    assert len(by_id(box.posts)) == len(box.posts) == len(MANY)


class Broken:
    """A sender with a fault of its own, for one delivery."""

    def __init__(self, rig: Rig) -> None:
        self._sender = rig.sender
        self.faults = 1

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self.faults:
            self.faults -= 1
            raise RuntimeError("a fault")
        return await self._sender.send(url, body, headers)

    async def close(self) -> None:
        await self._sender.close()


async def test_a_fault_of_ours_is_an_attempt_that_is_tried_again(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    rig.sender = Broken(rig)
    run = await sent_once(rig, await rig.report(box.url), ["acme"])
    async with working(rig):
        await until(lambda: is_ended(rig, run))
    (delivery,) = await rig.reports.deliveries(run.id, 10)
    first, second = await rig.reports.attempts([delivery.id])
    assert (first.outcome, second.outcome) == (AttemptOutcome.UNREACHED, AttemptOutcome.DELIVERED)
    assert "RuntimeError" in first.reason
