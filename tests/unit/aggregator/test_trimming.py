"""What the log may drop, and what must stay there."""

from collections.abc import Iterator

from aggregator.completeness import Completeness
from aggregator.housekeeping import Housekeeping
from meterline.limits import TRIM_INTERVAL_MS
from meterline.meter import Aggregation
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered


async def test_the_last_sealed_record_stays_however_old(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    """By it a log is known that was restored to an older state and has grown since."""
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = world.worker(meters)
    for first in range(0, 60, 20):
        await world.send(numbered(first, first + 20))
        world.clock.at_ms += 1_000
    await world.run(worker, seal=True)
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    await housekeeping.claim(world.clock.at_ms + TRIM_INTERVAL_MS)
    for number in range(PARTITIONS):
        seal = await world.progress.last_seal(world.log.number, number)
        assert seal is not None
        assert await world.log.begin(number) == seal.end - 1 > 0
    await worker.close_all()
