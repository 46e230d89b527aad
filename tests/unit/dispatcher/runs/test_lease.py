"""The lease of a run: held as long as the run is worked at, and left to others where it is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Literal, cast

import pytest

from dispatcher.runs.lease import Holding
from dispatcher.runs.planner import find_due, make_runs
from meterline.delivery import DeliveryDraft
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.report import Claim, Report, ReportStore, RunState
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.dispatcher.conftest import START_MS, Rig
from tests.unit.dispatcher.runs.test_planner import (
    END_MS,
    LATER_MS,
    URL,
    deliveries,
    first_run,
    make,
    report,
)

__all__ = ["report"]


async def test_a_run_that_takes_long_keeps_its_lease(rig: Rig) -> None:
    rig.usage.cells = {(f"s{n:04}", "a", START_MS): UNIT for n in range(3_000)}
    report = await rig.report(URL)
    await rig.complete(LATER_MS)
    await find_due(rig.reports, END_MS, 10)
    ((run, _),) = (await rig.reports.undecided(END_MS, 10)).found
    terms = replace(rig.plan_terms, lease_ms=1_000)
    now_ms = END_MS
    thefts = []

    def instant() -> int:
        nonlocal now_ms
        now_ms += 200  # so that all of it takes longer than a lease
        return now_ms

    async def steal() -> None:
        while now_ms < END_MS + 2_000:
            claim = await rig.reports.claim_run(run.id, f"thief{now_ms}", now_ms, now_ms + 1)
            thefts.append(claim)
            await asyncio.sleep(0.005)

    tasks = []

    async def begin() -> None:
        tasks.append(asyncio.create_task(steal()))

    rig.usage.meanwhile = begin
    assert await make_runs(rig.sources, terms, instant, "h") == 1
    assert now_ms > END_MS + 2_000
    await asyncio.gather(*tasks)
    assert set(thefts) == {None}
    assert (await first_run(rig, report)).state is RunState.DELIVERING


async def test_a_question_that_takes_longer_than_a_lease_keeps_it(rig: Rig, report: Report) -> None:
    await rig.complete(LATER_MS)
    now_ms, over_ms = END_MS, END_MS + 61
    terms = replace(rig.plan_terms, lease_ms=60)

    async def ask_long() -> None:
        nonlocal now_ms
        now_ms += 59
        for _ in range(2_000):
            if not (await rig.reports.undecided(over_ms, 10)).found:
                return
            await asyncio.sleep(0.01)
        pytest.fail("another one could take it")

    rig.usage.meanwhile = ask_long
    await find_due(rig.reports, END_MS, 10)
    assert await make_runs(rig.sources, terms, lambda: now_ms, "h") == 1
    run = await first_run(rig, report)
    assert run.state is RunState.DELIVERING
    assert len(await deliveries(rig, run)) == 2


async def test_who_lost_its_lease_leaves_the_run_to_others(rig: Rig, report: Report) -> None:
    await rig.complete(LATER_MS)
    await find_due(rig.reports, END_MS, 10)
    ((run, _),) = (await rig.reports.undecided(END_MS, 10)).found
    after_ms = END_MS + rig.plan_terms.lease_ms

    async def take_over() -> None:  # while usage is asked for, which takes too long
        claim = await rig.reports.claim_run(run.id, "other", after_ms, after_ms + 60_000)
        assert claim is not None

    rig.usage.meanwhile = take_over
    assert await make_runs(rig.sources, rig.plan_terms, lambda: END_MS, "h") == 0
    assert (await first_run(rig, report)).state is RunState.MATERIALIZING
    assert await make(rig, after_ms + 60_001) == 1
    assert len(await deliveries(rig, run)) == 2


async def test_each_lease_begins_when_it_is_taken(rig: Rig, report: Report) -> None:
    await rig.report(URL, "second")
    await rig.complete(LATER_MS)
    await find_due(rig.reports, END_MS, 10)
    instants = chain([END_MS, END_MS + 1], repeat(END_MS + 1_000_000))
    assert await make_runs(rig.sources, rig.plan_terms, lambda: next(instants), "h") == 2
    assert (await first_run(rig, report)).state is RunState.DELIVERING


class Staging:
    """A store that takes note of what is staged, at which second, and is away as long as it is told
    to be.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.away_until_s = 0.0
        self.asked: list[tuple[int, int]] = []

    async def stage(
        self, _claim: Claim, drafts: Sequence[DeliveryDraft], _until_ms: int
    ) -> Literal[True]:
        self.asked.append((round(self._loop.time()), len(drafts)))
        if self._loop.time() < self.away_until_s:
            raise Unavailable("the control store is away")
        return True


LEASE_S = 90
CHUNK = DeliveryDraft("id", "acme", 1, 1, b"{}", b"", b"")


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.end()


def _held(loop: VirtualLoop, staging: Staging, work: Callable[[Holding], Awaitable[None]]) -> None:
    """Work under a lease of 90 seconds, by a clock that only the loop moves."""

    async def hold() -> None:
        reports, claim = cast("ReportStore", staging), cast("Claim", None)
        holding = Holding(reports, claim, LEASE_S * 1_000, lambda: round(loop.time() * 1_000))
        async with holding.renewed():
            await work(holding)

    loop.run_until_complete(hold())


def test_a_lease_that_chunks_renew_is_not_renewed_beside_them(loop: VirtualLoop) -> None:
    staging = Staging(loop)

    async def work(holding: Holding) -> None:
        for _ in range(10):
            await asyncio.sleep(20)
            await holding.stage([CHUNK])
        await asyncio.sleep(65)  # a third of the lease after the last of them, it is

    _held(loop, staging, work)
    assert staging.asked == [*((at_s, 1) for at_s in range(20, 201, 20)), (230, 0), (260, 0)]


def test_a_lease_that_could_not_be_renewed_is_tried_again_after_a_third_of_it(
    loop: VirtualLoop,
) -> None:
    staging = Staging(loop)
    staging.away_until_s = 40

    async def work(_holding: Holding) -> None:
        await asyncio.sleep(100)

    _held(loop, staging, work)
    assert staging.asked == [(30, 0), (60, 0), (90, 0)]
