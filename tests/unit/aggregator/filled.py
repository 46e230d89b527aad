"""Old slices that are to be filled in, and what was read and written of them."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from aggregator.backfill.filler import Backfill
from aggregator.step import Aggregator
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.usage import Flush, RawEvent
from tests.unit.aggregator.world import Meters, World, numbered

SLICES = 6
EACH = 40


class Counting:
    """A usage store that remembers what was read of it, and what was written."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.read = 0
        self.flushes: list[Flush] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def raw_events(self, *asked: Any) -> AsyncIterator[list[RawEvent]]:
        async for rows in self._port.raw_events(*asked):
            self.read += len(rows)
            yield rows

    async def write(self, flush: Flush) -> None:
        self.flushes.append(flush)
        await self._port.write(flush)


async def aged(world: World, meters: Meters) -> Aggregator:
    """A worker behind some sealed slices, counted without the meters that are made next."""
    worker = world.worker(meters)
    for number in range(SLICES):
        await world.send(numbered(number * EACH, (number + 1) * EACH))
        await world.run(worker, seal=True)
        world.clock.at_ms += SLICE_SPAN_MS
    return worker


def made(meters: Meters, fresh_numbers: Iterator[int], count: int) -> None:
    kinds = (Aggregation.SUM, Aggregation.COUNT)
    for number in range(count):
        meters.add(kinds[number % 2], next(fresh_numbers))


async def filled(backfill: Backfill, at_ms: int) -> None:
    """Turns until there is nothing to do."""
    while await backfill.turn(at_ms):
        pass
