"""Meters that change while slices are open: nothing is dropped, nothing is claimed too early."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aggregator.completeness import Completeness
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from meterline.usage import RawEvent
from tests.unit.aggregator.world import PARTITIONS, Meters, World, numbered


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


async def test_a_reading_that_broke_off_goes_on_where_it_was(
    world: World, fresh_numbers: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 60))
    await world.run(worker)
    second = meters.add(Aggregation.COUNT, next(fresh_numbers))
    real = world.usage.raw_events
    broken: list[int] = []

    async def breaking(*asked: Any) -> AsyncIterator[list[RawEvent]]:
        async for rows in real(*asked):
            half = max(1, len(rows) // 2)
            if not broken:
                broken.append(half)
                yield rows[:half]
                raise Unavailable("the store went away")
            yield rows

    monkeypatch.setattr(worker.usage, "raw_events", breaking)
    await worker.refresh_catalogue()
    failed = 0
    while worker.is_adopting:
        try:
            await worker.read_ahead()
        except Unavailable:
            failed += 1
        await worker.flush()
    assert failed == 1
    await world.check(second)
    await worker.close_all()
