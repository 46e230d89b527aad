"""When housekeeping begins flushes, and when it tries again."""

from collections.abc import Iterator

from aggregator.completeness import Completeness
from aggregator.housekeeping import Housekeeping, Intervals
from aggregator.slice.flush_due import FlushBounds
from meterline.limits import FLUSH_BYTES, FLUSH_EVENTS
from meterline.meter import Aggregation
from tests.unit.aggregator.world import Meters, World, numbered


async def test_one_that_could_not_begin_is_due_at_the_next_look(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters, tried = Meters(0), list[int]()
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    bounds = Intervals(FlushBounds(1_000, FLUSH_EVENTS, FLUSH_BYTES), 0)
    housekeeping = Housekeeping(worker, Completeness(worker, 0), bounds)
    await world.run(worker)
    await housekeeping.tick(10_000)
    await worker.flush()
    await world.send(numbered(0, 9))
    await worker.read_some(0)
    begin, on_its_way = worker.flush_soon, True

    async def flush_soon() -> bool:
        tried.append(worker.now_ms)
        return not on_its_way and await begin()

    worker.flush_soon = flush_soon  # type: ignore[method-assign]
    for now_ms in (11_000, 11_100):
        assert not await housekeeping.tick(now_ms)
    on_its_way = False
    for now_ms in (11_200, 11_300, 12_100):
        assert await housekeeping.tick(now_ms) == (now_ms == 11_200)
    assert tried == [11_000, 11_100, 11_200]
    await worker.close_all()
