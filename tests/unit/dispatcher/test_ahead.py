"""Deliveries that are claimed ahead, and places."""

import asyncio
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.ahead import Ahead, Places
from dispatcher.fairness import Caps, allot, places
from meterline import limits
from meterline.run import AttemptOutcome
from meterline.sending import Address, Due
from tests.unit.dispatcher.conftest import Desk, Mailbox
from tests.unit.dispatcher.sending import Mailboxes, arrived, by_id, is_ended, until, working
from tests.unit.dispatcher.test_outage import sent_once

HERE, THERE = ("default", "x"), ("default", "y")
MANY = [f"subject {n:03}" for n in range(200)]


@given(st.lists(st.tuples(st.integers(0, 700), st.sampled_from([HERE, THERE])), max_size=400))
def test_what_was_taken_of_late_may_be_claimed_ahead(steps: list[tuple[int, Address]]) -> None:
    ahead, now_ms, taken = Ahead(), 1_000_000, []
    for pause_ms, address in steps:
        now_ms += pause_ms
        ahead.took(address, now_ms)
        taken.append((now_ms, address))
        recent = Counter(at for at_ms, at in taken if at_ms >= now_ms - limits.AHEAD_MS)
        assert ahead.counts(now_ms) == recent
    assert ahead.counts(now_ms + limits.AHEAD_MS + 1) == {}


@given(st.integers(0, 2_000), st.integers(0, 2_000))
def test_what_is_claimed_ahead_has_a_bound(here: int, there: int) -> None:
    caps, ahead = Caps(10, 4), {HERE: here, THERE: there}
    room = places(caps, ahead)
    assert room <= caps.total + limits.DELIVERIES_AHEAD_MAX
    due = [Due("a", HERE[1]), Due("b", THERE[1])]
    given_ = {it.report_id: it.count for it in allot(due, {}, caps, 0, {}, ahead)}
    assert sum(given_.values()) == min(room, 2 * caps.endpoint + here + there)
    assert given_["a"] <= caps.endpoint + here
    assert min(given_.values()) >= min(caps.endpoint, room // 2)  # the quick one comes last


async def test_who_waits_for_his_endpoint_keeps_no_place_of_all() -> None:
    of_all, under_way, most = Places(Caps(total=4, endpoint=3)), Counter[str](), Counter[str]()
    hanging = asyncio.Event()

    async def visit(address: Address, name: str) -> None:
        async with of_all.place(address):
            under_way[name] += 1
            most[name] = max(most[name], under_way[name])
            if name == "hangs":
                await hanging.wait()
            await asyncio.sleep(0)
            under_way[name] -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(visit(HERE, "hangs"))
        others = [group.create_task(visit(THERE, "quick")) for _ in range(20)]
        await asyncio.wait(others)
        assert most == {"hangs": 3, "quick": 1}
        hanging.set()
    assert most["hangs"] == 3
    assert not of_all._of  # noqa: SLF001 - nothing is kept of endpoints that nobody goes to


async def _begins_to_hang(box: Mailbox) -> None:
    """Let a receiver take some, then hang while others are claimed ahead."""
    await until(lambda: arrived(box, 60))
    box.hang = asyncio.Event()
    count = len(box.posts)
    await until(lambda: arrived(box, count + 1))
    await asyncio.sleep(0.1)


async def test_what_is_claimed_ahead_of_a_receiver_that_hangs_is_due_again(
    desk: Desk, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    desk.send_terms = replace(desk.send_terms, lease_ms=2_000)  # 0.5 s to wait for a place
    run = await sent_once(desk, await desk.report(box.url), MANY)
    async with working(desk):
        await _begins_to_hang(box)
        assert box.hang is not None
        await asyncio.sleep(0.6)
        box.hang.set()
        box.hang = None
        await until(lambda: is_ended(desk, run))
    assert len(by_id(box.posts)) == len(MANY)
    assert all(len(bodies) == 1 for bodies in by_id(box.posts).values())
    assert box.at_once_max <= desk.send_terms.caps.endpoint
    found = await desk.reports.attempts(list(by_id(box.posts)))
    assert any(it.reason.startswith("not sent") for it in found)
    assert all(it.outcome is not AttemptOutcome.SENDING for it in found)


async def test_at_its_end_a_dispatcher_sends_what_is_under_way_and_nothing_that_waits(
    desk: Desk, mailbox: Mailboxes
) -> None:
    box = await mailbox()
    run = await sent_once(desk, await desk.report(box.url), MANY)
    async with working(desk) as dispatcher:
        await _begins_to_hang(box)
        assert box.hang is not None
        dispatcher.stop()
        arrived_so_far = len(box.posts)
        box.hang.set()
        box.hang = None
    assert len(box.posts) == arrived_so_far
    assert not await is_ended(desk, run)
    async with working(desk):  # at once: nobody waits for a lease
        await until(lambda: is_ended(desk, run))
    assert len(by_id(box.posts)) == len(box.posts) == len(MANY)
