"""An open slice whose events were erased while a newer catalogue joined it: the flush that would
take it on drops it instead, wherever that flush comes from.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from aggregator.step import Aggregator
from meterline.event.erased import ERASED_START, is_erased
from meterline.limits import SLICE_SPAN_MS, UNFLUSHED_BYTES_MAX
from meterline.meter import Aggregation, Meter
from meterline.usage import RawEvent
from tests.unit.aggregator.world import PARTITIONS, Meters, World, numbered


class Redacting:
    """A usage store in which the first events of each portion are as an erasure leaves them."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.redacted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def raw_events(self, *asked: Any) -> AsyncIterator[list[RawEvent]]:
        async for first, *others in self._port.raw_events(*asked):
            self.redacted += 1
            rest, _, recorded = bytes(first.text).rpartition(b',"recordedtime":')
            text = ERASED_START.encode() + recorded[:-1] + b"," + rest[1:] + b"}"
            assert is_erased(text)
            yield [first._replace(text=text), *others]


async def spoiled(world: World, meters: Meters, number: int) -> tuple[Aggregator, Meter]:
    """A worker whose open slices are spoiled, and nothing of that is flushed yet."""
    worker = world.worker(meters)
    await world.send(numbered(0, 40))
    await world.run(worker)
    added = meters.add(Aggregation.COUNT, number)
    redacting: Any = Redacting(world.usage)
    worker._meters._usage = redacting  # noqa: SLF001 - as an erasure's redaction would show it
    assert await worker.refresh_catalogue()
    while await worker.read_ahead():
        pass
    assert redacting.redacted == PARTITIONS
    assert all(it.slice is not None and it.slice.spoiled for it in worker.partitions.values())
    return worker, added


async def test_a_flush_that_makes_room_drops_it_and_the_record_waits(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker, second = await spoiled(world, meters, next(fresh_numbers))
    await world.send(numbered(40, 80))
    (record,) = await world.log.read(0, 1, 10)
    worker.partitions[1].untaken_bytes = UNFLUSHED_BYTES_MAX
    assert not await worker.feed(record, record.offset), "what lies before it is to be read"
    assert worker.partitions[0].slice is None
    assert worker.partitions[0].next_offset == 0
    await world.run(worker, seal=True)
    await world.check(first, second)
    await worker.close_all()


async def test_a_slice_that_ends_then_is_read_again_and_sealed(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker, second = await spoiled(world, meters, next(fresh_numbers))
    world.clock.at_ms += SLICE_SPAN_MS
    await world.send(numbered(40, 80))
    (record,) = await world.log.read(0, 1, 10)
    assert not await worker.feed(record, record.offset), "what lies before it is to be read"
    assert worker.partitions[0].next_offset == 0
    assert await world.progress.last_seal(world.log.number, 0) is None
    await world.run(worker)
    seal = await world.progress.last_seal(world.log.number, 0)
    assert seal is not None
    assert (seal.slice, seal.end) == (0, 1)
    await world.run(worker, seal=True)
    await world.check(first, second)
    await worker.close_all()
