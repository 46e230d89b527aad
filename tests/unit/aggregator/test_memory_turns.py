"""A worker whose open slices may take no more memory counts one partition after another, and all of
them in the end.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from types import SimpleNamespace

from aggregator.completeness import Completeness
from aggregator.drivers.membership import Membership
from aggregator.drivers.poll_worker import PollWorker
from aggregator.drivers.standing import Standing
from aggregator.housekeeping import Housekeeping
from meterline.limits import OPEN_TURN_MS, SLICE_SPAN_MS
from meterline.meter import Aggregation
from tests.unit.aggregator.test_catch_up import Brought
from tests.unit.aggregator.test_faust_turns import Assigned
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered, sealed

NARROW = replace(AT_ONCE, open_bytes=1)  # whatever is open is too much
SLICES = 4


async def filled(world: World) -> list[int]:
    """A log with some slices in each partition, each of several records; where it ends."""
    for number in range(SLICES * 3):
        await world.send(numbered(number * 20, number * 20 + 20))
        if number % 3 == 2:
            world.clock.at_ms += SLICE_SPAN_MS
    return [await world.log.end(number) for number in range(PARTITIONS)]


async def test_partitions_on_faust_take_turns(
    world: World, fresh_numbers: Iterator[int], tmp_path: Path
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    ends = await filled(world)
    aggregator = world.worker(meters)
    housekeeping = Housekeeping(aggregator, Completeness(aggregator, 0), NARROW)
    membership = Membership("group", "127.0.0.1:9", "topic", str(tmp_path / "faust"))
    standing = Standing()
    worker = Assigned(
        aggregator, housekeeping, world.clock, lambda it: it.record, membership, standing
    )
    while len(aggregator.partitions) < PARTITIONS:
        await worker.turn()
        await asyncio.sleep(0.01)
    records = [await world.log.read(number, 0, end) for number, end in enumerate(ends)]
    together = [it for it in chain.from_iterable(zip_longest(*records)) if it is not None]

    def open_slices() -> dict[int, tuple[int, int]]:
        held = aggregator.partitions.values()
        return {it.number: (it.slice.id.slice, it.slice.border.events) for it in held if it.slice}

    turns = 0
    for record in together:
        before, was_full = open_slices(), housekeeping.room.is_full
        at = record.partition
        message = SimpleNamespace(record=record, partition=at, value=b"", offset=record.offset)
        await worker._take(Brought(message))  # noqa: SLF001 - as its agent does
        grew = [number for number, it in open_slices().items() if before.get(number) != it]
        if was_full:
            assert len(grew) <= 1
            turns += record.partition not in grew
        await worker.turn()
    assert turns, "some waited for others"
    while any(aggregator.partitions[n].next_offset < end for n, end in enumerate(ends)):
        world.clock.at_ms += OPEN_TURN_MS // 4
        await worker.turn()
        await sealed(aggregator)  # in its own time: the clock of the test is far ahead of it
    await aggregator.flush()
    await world.check(meter)
    await aggregator.close_all()


async def test_partitions_of_an_embedded_worker_take_turns(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    ends = await filled(world)
    aggregator, stop = world.worker(meters), asyncio.Event()
    housekeeping = Housekeeping(aggregator, Completeness(aggregator, 0), NARROW)

    async def news(_timeout_s: float) -> None:
        await asyncio.sleep(0.01)

    running = asyncio.create_task(
        PollWorker(aggregator, housekeeping, world.clock, news, Standing()).run(stop)
    )

    def reached() -> list[bool]:
        held = aggregator.partitions
        return [n in held and held[n].flushed_end == end for n, end in enumerate(ends)]

    full = False
    while not all(reached()):
        full |= housekeeping.room.is_full
        world.clock.at_ms += OPEN_TURN_MS // 50
        await asyncio.sleep(0.01)
    assert full
    await world.check(meter)
    stop.set()
    await running
