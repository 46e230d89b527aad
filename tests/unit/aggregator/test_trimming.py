"""What the log may drop, and what must stay there."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from aggregator.catch_up import CountedMeanwhile, LogTruncated
from aggregator.completeness import Completeness
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.limits import TRIM_INTERVAL_MS
from meterline.meter import Aggregation, Meter
from meterline.ports import Unavailable
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered


class PartlyAway:
    """A log in which one partition is away."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        if partition == 0:
            raise Unavailable("partition 0 is away")
        await self._log.trim(partition, before, older_than_ms)

    async def end(self, partition: int) -> int:
        if partition == 0:
            raise Unavailable("partition 0 has no leader")
        end: int = await self._log.end(partition)
        return end


async def with_sealed_slices(world: World, meters: Meters) -> Aggregator:
    """A worker that has sealed slices in each partition."""
    worker = world.worker(meters)
    for first in range(0, 60, 20):
        await world.send(numbered(first, first + 20))
        world.clock.at_ms += 1_000
    await world.run(worker, seal=True)
    return worker


async def test_the_last_sealed_record_stays_however_old(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    """By it a log is known that was restored to an older state and has grown since."""
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = await with_sealed_slices(world, meters)
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    await housekeeping.claim(world.clock.at_ms + TRIM_INTERVAL_MS)
    for number in range(PARTITIONS):
        seal = await world.progress.last_seal(world.log.number, number)
        assert seal is not None
        assert await world.log.begin(number) == seal.end - 1 > 0
    await worker.close_all()


async def test_an_inbox_that_is_away_keeps_nothing_but_claims_from_being_done(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = await with_sealed_slices(world, meters)

    async def away(_now_ms: int) -> int | None:
        raise Unavailable("inbox topics: unknown topic")

    housekeeping = Housekeeping(worker, Completeness(worker, 0, away), AT_ONCE)
    with pytest.raises(Unavailable, match="unknown topic"):
        await housekeeping.claim(world.clock.at_ms + TRIM_INTERVAL_MS)
    for number in range(PARTITIONS):
        assert await world.log.begin(number) > 0, "the log was trimmed"
    await worker.close_all()


async def test_a_partition_that_is_away_keeps_no_other_from_its_turn(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = await with_sealed_slices(world, meters)
    whole, partly = worker.log, PartlyAway(worker.log)
    worker.log = cast("Any", partly)
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    now_ms = world.clock.at_ms + TRIM_INTERVAL_MS
    with pytest.raises(Unavailable, match="no leader"):  # the first of two errors
        await housekeeping.claim(now_ms)
    begins = [await world.log.begin(number) for number in range(PARTITIONS)]
    assert [begin > 0 for begin in begins] == [False, *[True] * (PARTITIONS - 1)]
    # what was told as away is done once it is back
    worker.log = whole
    await housekeeping.claim(now_ms + TRIM_INTERVAL_MS)
    assert await world.log.begin(0) > 0
    await worker.close_all()


async def test_meters_are_retired_however_the_log_is(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    retired: list[int] = []

    class Retiring(Meters):
        async def retire(self, now_ms: int) -> set[int]:
            retired.append(now_ms)
            return set()

    meters = Retiring(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = await with_sealed_slices(world, meters)
    worker.log = cast("Any", PartlyAway(worker.log))
    now_ms = world.clock.at_ms + TRIM_INTERVAL_MS
    with pytest.raises(Unavailable, match="no leader"):
        await Housekeeping(worker, Completeness(worker, 0), AT_ONCE).claim(now_ms)
    assert retired == [now_ms]
    await worker.close_all()


class Frozen:
    """A store of seals whose first answer about a last one comes late: what it says is old then."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._progress, name)

    async def last_seal(self, log: int, partition: int) -> Any:
        seal = await self._progress.last_seal(log, partition)
        if not self.asked.is_set():
            self.asked.set()
            await self.goes_on.wait()
        return seal


async def counted_by_another(world: World, meters: Meters) -> None:
    """A worker of another machine counts and seals all that is sent, and the log drops that. Then
    more is sent, with copies.
    """
    here, world.folder = world.folder, world.folder / "another machine"
    other = await with_sealed_slices(world, meters)
    for number in range(PARTITIONS):
        seal = await world.progress.last_seal(world.log.number, number)
        assert seal is not None
        await world.log.trim(number, seal.end, world.clock.at_ms + 1)
    await other.close_all()
    world.folder = here
    await world.send(numbered(50, 80))


async def counts_exactly(world: World, worker: Aggregator, meter: Meter) -> None:
    """It takes on anew what it let go of, and goes on."""
    assert not worker.partitions
    await world.run(worker, seal=True)
    await world.check(meter)
    await worker.close_all()


async def test_a_worker_that_was_frozen_while_it_took_a_partition_on_takes_it_on_anew(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    progress, frozen = world.progress, Frozen(world.progress)
    world.progress = cast("Any", frozen)
    worker = world.worker(meters)
    opening = asyncio.create_task(worker.open(0))
    await frozen.asked.wait()
    world.progress = progress
    await counted_by_another(world, meters)
    frozen.goes_on.set()
    with pytest.raises(CountedMeanwhile, match="another worker has counted"):
        await opening
    await counts_exactly(world, worker, meter)


async def test_a_worker_that_was_frozen_lets_go_of_a_partition_that_another_one_counted(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = world.worker(meters)
    for number in range(PARTITIONS):
        await worker.open(number)
    await counted_by_another(world, meters)
    for number in range(PARTITIONS):
        with pytest.raises(CountedMeanwhile, match="another worker has counted"):
            await worker.read_some(number)
    await counts_exactly(world, worker, meter)


async def test_what_nobody_counted_is_lost_also_where_another_worker_counted_some(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = world.worker(meters)
    await worker.open(0)
    await counted_by_another(world, meters)
    await world.send(numbered(80, 140))
    await world.log.trim(0, await world.log.end(0) - 1, world.clock.at_ms + 1)
    with pytest.raises(CountedMeanwhile):
        await worker.read_some(0)
    with pytest.raises(LogTruncated, match="expired first"):
        await worker.open(0)
    await worker.close_all()
