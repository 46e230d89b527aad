"""A worker with nothing to do sleeps until an append wakes it, and seldom tells how far it is."""

import asyncio
from collections.abc import Iterable, Iterator

from aggregator.completeness import Completeness
from aggregator.drivers.poll_worker import PollWorker
from aggregator.housekeeping import Housekeeping, Intervals
from aggregator.slice.flush_due import FlushBounds
from aggregator.step import Aggregator
from meterline.limits import (
    BUSY_RESTS,
    CLAIM_IDLE_MS,
    CLAIM_INTERVAL_MS,
    CLAIM_MOVED_MS,
    LATE_INTERVALS,
    LATE_RESTS,
)
from meterline.meter import Aggregation
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered, taken_on

NEVER_S = 3_600.0


class Asking(Completeness):
    """Remembers when it was asked how far the log is."""

    def __init__(self, aggregator: Aggregator, lag_ms: int) -> None:
        super().__init__(aggregator, lag_ms)
        self.at_ms: list[int] = []

    async def probe(self, numbers: Iterable[int], now_ms: int) -> None:
        self.at_ms.append(now_ms)
        await super().probe(numbers, now_ms)


async def test_a_resting_worker_is_woken_by_an_append_and_by_its_end(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    resting, stop = asyncio.Event(), asyncio.Event()

    async def news(_timeout_s: float) -> None:
        resting.set()
        await world.log.news(NEVER_S)

    running = asyncio.create_task(PollWorker(worker, housekeeping, world.clock, news).run(stop))
    for first in (0, 30):
        await resting.wait()
        await world.send(numbered(first, first + 30))
        while await world.value(meter) != sum(world.sent.values()):
            resting.clear()
            await resting.wait()
    stop.set()
    await running


async def test_while_nothing_moves_it_is_told_seldom_how_far_all_is_counted(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = world.worker(meters)
    await world.run(worker)
    asking = Asking(worker, 0)
    housekeeping = Housekeeping(worker, asking, AT_ONCE)

    async def within(begin_ms: int, span_ms: int) -> list[int]:
        asking.at_ms.clear()
        for at_ms in range(begin_ms, begin_ms + span_ms, 100):
            await housekeeping.claim(at_ms)
        return list(asking.at_ms)

    begin_ms = world.clock.at_ms
    moved = await within(begin_ms, CLAIM_MOVED_MS)
    assert len(moved) == CLAIM_MOVED_MS // CLAIM_INTERVAL_MS, "somebody may wait for it"
    rested_ms = begin_ms + CLAIM_MOVED_MS + CLAIM_IDLE_MS
    seldom = await within(rested_ms, 10 * CLAIM_IDLE_MS)
    assert len(seldom) == 10
    await world.send(numbered(0, PARTITIONS * 10))
    await world.run(worker)
    again = await within(rested_ms + 10 * CLAIM_IDLE_MS, 10 * CLAIM_INTERVAL_MS)
    assert len(again) == 10, "events came"
    later = rested_ms + 20 * CLAIM_IDLE_MS + 2 * CLAIM_MOVED_MS
    await within(later, CLAIM_IDLE_MS)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    assert await taken_on(worker)
    await world.run(worker)
    assert len(await within(later + CLAIM_IDLE_MS, 10 * CLAIM_INTERVAL_MS)) == 10, "a new meter"
    await worker.close_all()


async def test_what_can_wait_rests_by_what_counting_has_before_it(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker, interval_ms = world.worker(meters), 700
    completeness = Completeness(worker, 0)
    intervals = Intervals(FlushBounds(interval_ms, 100, 1 << 20), 0)
    housekeeping = Housekeeping(worker, completeness, intervals)
    await world.run(worker)
    now_ms = world.clock.at_ms
    assert housekeeping.rests(now_ms) == 0
    await world.send(numbered(0, PARTITIONS * 10))
    await completeness.probe(list(worker.partitions), now_ms)
    assert housekeeping.rests(now_ms + 1) == BUSY_RESTS
    usual_ms = LATE_INTERVALS * interval_ms
    assert housekeeping.rests(now_ms + usual_ms) == BUSY_RESTS, "flushes explain it"
    assert housekeeping.rests(now_ms + usual_ms + 1) == LATE_RESTS
    await world.run(worker)
    await completeness.claim()
    assert housekeeping.rests(now_ms + usual_ms + 1) == 0
    await worker.close_all()
