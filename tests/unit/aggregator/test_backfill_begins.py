"""Backfill begins: it is told how much there is before the first step, and meters that are made one
after another are filled in together.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from aggregator.backfill.filler import Backfill, StepBounds
from meterline.limits import FILL_JOIN_MS, FILL_JOIN_MS_MAX
from meterline.ports import Unavailable
from tests.unit.aggregator.filled import EACH, SLICES, Counting, aged, filled, made
from tests.unit.aggregator.world import PARTITIONS, Meters, World, taken_on

SMALL = StepBounds(slices=1, revisions=10)  # so that slices of these tests are many


async def test_meters_made_one_after_another_are_filled_in_together(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    backfill, now_ms = Backfill(worker, SMALL), 1_000_000
    await filled(backfill, now_ms)
    usage = Counting(world.usage)
    worker.usage = usage
    for passed_ms in range(0, 5 * FILL_JOIN_MS, FILL_JOIN_MS - 1):
        made(meters, fresh_numbers, 1)
        await taken_on(worker)
        assert not await backfill.turn(now_ms + passed_ms), "another one may join"
    fillings = await world.progress.fillings(world.log.number)
    assert [it.slices_left for it in fillings] == [len(meters.meters) * SLICES] * PARTITIONS
    assert [it.slices_filled for it in fillings] == [0] * PARTITIONS, "told before the first step"
    now_ms += passed_ms + FILL_JOIN_MS
    await filled(backfill, now_ms)
    assert usage.read == SLICES * EACH, "each event once"
    await world.check(*meters.meters)
    await worker.close_all()


async def test_a_meter_waits_for_others_no_longer_than_it_may(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    backfill, now_ms, waited = Backfill(worker, SMALL), 1_000_000, 0
    await filled(backfill, now_ms)
    while True:
        made(meters, fresh_numbers, 1)
        await taken_on(worker)
        if await backfill.turn(now_ms + waited):
            break
        waited += FILL_JOIN_MS - 1
        assert waited < FILL_JOIN_MS_MAX + FILL_JOIN_MS
    made(meters, fresh_numbers, 1)
    await taken_on(worker)
    assert await backfill.turn(now_ms + waited + 1), "what goes on waits for nobody"
    await filled(backfill, now_ms + waited + 2)
    await world.check(*meters.meters)
    await worker.close_all()


class Told:
    """Progress whose beginnings are remembered, with what happens while they are under way."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.began: dict[int, set[int]] = {}
        self.fails: set[int] = set()
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def begin_filling(
        self, log: int, partition: int, revisions: Sequence[int], now_ms: int
    ) -> None:
        if partition in self.fails:
            raise Unavailable("too much is counted")
        await self._port.begin_filling(log, partition, revisions, now_ms)
        self.began.setdefault(partition, set()).update(revisions)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()

    async def mark_filled(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        revisions: Sequence[int],
        now_ms: int = 0,
    ) -> None:
        assert partition in self.fails or self.began[partition].issuperset(revisions)
        await self._port.mark_filled(log, partition, slices, revisions, now_ms)


async def test_what_is_told_of_a_partition_does_not_hold_up_filling_in(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    made(meters, fresh_numbers, 2)
    await taken_on(worker)
    told = Told(world.progress)
    told.fails, worker.progress = {1}, told
    backfill, now_ms = Backfill(worker), world.clock.at_ms
    await filled(backfill, now_ms)
    assert sorted(told.began) == [it for it in range(PARTITIONS) if it != 1]
    await world.check(*meters.meters)
    await worker.close_all()


async def test_what_comes_while_it_is_told_is_told_before_its_first_step(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    told = Told(world.progress)
    worker.progress = told
    worker.close(1)

    async def change() -> None:
        made(meters, fresh_numbers, 1)
        await taken_on(worker)
        await worker.open(1)

    made(meters, fresh_numbers, 1)
    await taken_on(worker)
    told.meanwhile = change
    backfill, now_ms = Backfill(worker), world.clock.at_ms
    await filled(backfill, now_ms)
    revisions = {it.revision for it in meters.meters}
    assert told.began == dict.fromkeys(range(PARTITIONS), revisions)
    await world.check(*meters.meters)
    await worker.close_all()
