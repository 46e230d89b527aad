"""Seals that wait as long as a test wants."""

import asyncio
from contextlib import suppress

from aggregator.step import Aggregator
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation, Meter
from meterline.ports import OutdatedMeters
from meterline.usage import Seal
from tests.unit.aggregator.world import LOOK_S, PARTITIONS, Meters, World, numbered, sealed


class Held:
    """Two slices in each partition, of which the first waits: the control store takes no seal of a
    partition that is not free until it may.
    """

    def __init__(self, world: World, meters: Meters, meter: Meter) -> None:
        self.world = world
        self.meters = meters
        self.meter = meter
        self.may = asyncio.Event()
        self.free: set[int] = set()
        self.asked = 0
        self._sent = 90
        self._seal = world.progress.seal
        world.progress.seal = self.seal  # type: ignore[method-assign]
        self.worker: Aggregator = world.worker(meters)

    async def seal(self, seal: Seal) -> None:
        self.asked += 1
        if seal.partition not in self.free:
            await self.may.wait()
        await self._seal(seal)

    async def count(self) -> None:
        """All that the log has; seals begin and are not waited for."""
        for number in range(PARTITIONS):
            await self.worker.open(number)
            while await self.worker.read_some(number):
                pass
        await self.worker.flush()
        while self.worker.is_sealing and self.asked < PARTITIONS:
            await self.worker.settle_seals()
            await asyncio.sleep(LOOK_S)

    async def first_sealed(self) -> None:
        """All that the log has is counted, and of each partition the first slice is sealed."""
        self.may.set()
        await self.count()
        await sealed(self.worker)

    def refuse_old_meters(self, *numbers: int) -> None:
        """Seals of these partitions, or of all, are refused if they are by older meters."""
        before, of = self._seal, numbers or range(PARTITIONS)

        async def refusing(seal: Seal) -> None:
            if seal.partition in of and seal.catalogue < self.meters.version:
                raise OutdatedMeters("by newer ones")
            await before(seal)

        self._seal = refusing

    async def newer_meters(self, number: int) -> None:
        """Another meter, of which open slices lack nothing that is durable."""
        self.meters.add(Aggregation.COUNT, number)
        assert await self.worker.refresh_catalogue()
        while await self.worker.read_ahead():
            pass

    async def check_all(self) -> None:
        """All that was sent counts in all meters."""
        await self.world.run(self.worker, seal=True)
        await self.world.fill(self.worker)
        await self.world.check(*self.meters.meters)

    async def next_slices(self, *numbers: int) -> None:
        """Those that are open end, and the next are begun: of these partitions, or of all."""
        self.world.clock.at_ms += SLICE_SPAN_MS
        await self.world.send(numbered(self._sent, self._sent + 30))
        self._sent += 30
        for number in numbers or range(PARTITIONS):
            while await self.worker.read_some(number):
                pass

    async def read(self) -> None:
        """What the log has, as far as it can be taken in."""
        for number in range(PARTITIONS):
            with suppress(OutdatedMeters):
                while await self.worker.read_some(number):
                    pass

    async def turn(self) -> None:
        """Seals are waited for, then all is read."""
        with suppress(OutdatedMeters):
            await sealed(self.worker)
        await self.read()

    def waiting(self) -> list[int]:
        """Partitions with a slice that has ended and is not sealed."""
        return [n for n, it in self.worker.partitions.items() if it.ended is not None]

    async def until_waiting(self, numbers: list[int]) -> None:
        """Flush, and set seals, until only these wait."""
        await self.worker.flush()
        while self.waiting() != numbers:
            await self.worker.settle_seals()
            await asyncio.sleep(LOOK_S)

    def ends(self) -> list[int]:
        return [it.sealed_end for it in self.worker.partitions.values()]
