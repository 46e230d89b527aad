"""Meters that change while slices are open: nothing is dropped, nothing is claimed too early."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from aggregator.completeness import Completeness
from aggregator.slice import adoption
from aggregator.slice.sealing import Sealer
from aggregator.step import Aggregator
from meterline.backends.rocksdb import RocksSeenStore
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from meterline.usage import RawEvent
from tests.unit.aggregator.world import (
    HORIZON_MS,
    PARTITIONS,
    Deadly,
    Meters,
    World,
    numbered,
    taken_on,
)


async def test_open_slices_go_on_and_the_new_meter_has_all_of_them(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 40))
    await world.run(worker)
    await world.send(numbered(40, 60))
    for number in range(PARTITIONS):
        while await worker.read_some(number):
            pass
    slices = {number: it.slice for number, it in worker.partitions.items()}
    reached = {number: it.next_offset for number, it in worker.partitions.items()}
    second = meters.add(Aggregation.COUNT, next(fresh_numbers))
    assert await worker.refresh_catalogue()
    assert not await worker.read_ahead(), "some of it is not durable"
    await world.send(numbered(60, 80))
    await world.run(worker)
    assert await worker.read_ahead()
    assert worker.catalogue.version < second.revision, "nothing is claimed so far"
    while worker.is_adopting:
        await worker.read_ahead()
        await worker.flush()
    assert {number: it.slice for number, it in worker.partitions.items()} == slices
    assert all(it.next_offset >= reached[n] for n, it in worker.partitions.items())
    await world.check(first, second)
    await world.run(worker, seal=True)
    assert all(it.count_back_tries == 0 for it in worker.partitions.values())
    await world.check(first, second)
    await worker.close_all()


async def test_a_claim_by_the_newer_catalogue_waits_for_what_it_adds(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 40))
    await world.run(worker)
    second = meters.add(Aggregation.COUNT, next(fresh_numbers))
    await worker.refresh_catalogue()
    while await worker.read_ahead():
        pass
    completeness = Completeness(worker, lag_ms=0)
    await completeness.probe(range(PARTITIONS), 7_000)
    await completeness.claim()
    complete = world.progress.complete_until
    assert await complete(world.log.number, PARTITIONS, second.revision) is None
    await worker.flush()
    assert worker.catalogue.version == second.revision
    await completeness.probe(range(PARTITIONS), 8_000)
    await completeness.claim()
    assert await complete(world.log.number, PARTITIONS, second.revision) == 8_000
    await worker.close_all()


async def test_many_meters_join_in_several_turns_and_each_has_all(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker, store = world.worker(meters), cast("Any", meters)
    # two meters of forty events at once
    worker._meters = meters_by = adoption.Meters(store, worker.usage, 90)  # noqa: SLF001
    worker.sealer = Sealer(worker.usage, worker.progress, meters_by)
    await world.send(numbered(0, 40))
    await world.run(worker)
    added = [meters.add(Aggregation.COUNT, next(fresh_numbers)) for _ in range(5)]
    versions = []
    while await taken_on(worker):
        versions.append(worker.catalogue.version)
        await world.check(*[it for it in added if it.revision <= versions[-1]])
    assert versions == [added[1].revision, added[3].revision, added[4].revision]
    await world.run(worker, seal=True)
    assert all(it.count_back_tries == 0 for it in worker.partitions.values())
    await world.check(*added)
    await worker.close_all()


class BreakingOnce(Deadly):
    """A usage store whose first reading of partition 1 ends behind its first event."""

    async def raw_events(self, log: int, number: int, *asked: Any) -> AsyncIterator[list[RawEvent]]:
        async for rows in self._port.raw_events(log, number, *asked):
            if number == 1 and not self._broke:
                self._broke = True
                yield rows[:1]
                raise Unavailable("the store went away")
            yield rows

    _broke = False


async def test_a_reading_that_broke_off_goes_on_where_it_was_also_behind_another_slice(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    worker._meters._usage = cast("Any", BreakingOnce(world.usage, lambda: "well"))  # noqa: SLF001
    await world.send(numbered(0, 40))
    await world.run(worker)
    added = meters.add(Aggregation.COUNT, next(fresh_numbers))
    await worker.refresh_catalogue()
    first = worker.partitions[0]
    first.flushed_end = 0  # it is not durable yet: the other one is read before it
    with pytest.raises(Unavailable):
        await worker.read_ahead()
    first.flushed_end = first.next_offset
    while await worker.read_ahead():
        pass
    await worker.flush()
    await world.check(added)
    await worker.close_all()


class Breaking:
    """A usage store that goes away in the middle of the first reading of raw events."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.broke = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def raw_events(self, *asked: Any) -> AsyncIterator[list[RawEvent]]:
        async for rows in self._port.raw_events(*asked):
            if not self.broke:
                self.broke = max(1, len(rows) // 2)
                yield rows[: self.broke]
                raise Unavailable("the store went away")
            yield rows


async def test_a_reading_that_broke_off_goes_on_where_it_was(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    usage: Any = Breaking(world.usage)
    known: Any = meters
    folder = world.folder / "seen"
    worker = Aggregator(
        world.log,
        usage,
        world.progress,
        known,
        lambda number: RocksSeenStore(folder / str(number), HORIZON_MS),
        HORIZON_MS,
    )
    await world.send(numbered(0, 60))
    await world.run(worker)
    second = meters.add(Aggregation.COUNT, next(fresh_numbers))
    await worker.refresh_catalogue()
    failed = 0
    while worker.is_adopting:
        try:
            await worker.read_ahead()
        except Unavailable:
            failed += 1
        await worker.flush()
    assert failed == 1
    assert usage.broke
    await world.check(second)
    await worker.close_all()
