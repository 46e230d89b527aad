"""What is claimed to be complete, and when; backfill of meters made later."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.catch_up import LogTruncated
from aggregator.completeness import Completeness
from aggregator.step import Aggregator
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.limits import NEWER_METERS_WITHIN_MS
from meterline.meter import Aggregation
from meterline.runtime.settings.fields import Settings
from meterline.runtime.wiring.telemetry import Telemetry, telemetry
from tests.unit.aggregator.world import PARTITIONS, Meters, World, numbered, taken_on
from tests.unit.backends.telemetry.test_prometheus import values

MINUTE_MS: Final = 60_000


async def test_a_meter_created_after_its_events_is_filled_in(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 60))
    await world.run(worker, seal=True)
    await world.send(numbered(60, 90))
    await world.run(worker)  # an open slice, which is read again
    later = meters.add(Aggregation.SUM, next(fresh_numbers))
    assert await taken_on(worker)
    await world.run(worker)
    complete = world.progress.complete_until
    completeness = Completeness(worker, lag_ms=0)
    await completeness.probe(range(PARTITIONS), 5_000)
    await completeness.claim()
    assert await complete(world.log.number, PARTITIONS, first.revision) == 5_000
    assert await complete(world.log.number, PARTITIONS, later.revision) is None, "not filled yet"
    await world.fill(worker)
    assert await complete(world.log.number, PARTITIONS, later.revision) == 5_000
    await world.check(first, later)
    await worker.close_all()


@pytest.fixture
async def measured() -> AsyncIterator[Telemetry]:
    """What a process measures."""
    async with AsyncExitStack() as stack:
        yield telemetry(Settings(), "aggregate", stack)


async def _counted(world: World, revision: int, *, seal: bool = False) -> tuple[Meters, Aggregator]:
    """A meter, and a worker that has counted some events by it."""
    meters = Meters(0)
    meters.add(Aggregation.SUM, revision)
    worker = world.worker(meters)
    await world.send(numbered(0, 60))
    await world.run(worker, seal=seal)
    return meters, worker


async def _look(measured: Telemetry, world: World, meters: Meters) -> None:
    stores = SimpleNamespace(log=world.log, progress=world.progress, catalogue=meters)
    measured.scrape.looks.clear()
    measured.of_progress(SimpleNamespace(stores=stores))  # type: ignore[arg-type]
    (look,) = measured.scrape.looks
    await look()


async def test_freshness_does_not_wait_for_what_a_new_meter_lacks(
    world: World, measured: Telemetry, fresh_numbers: Iterator[int]
) -> None:
    meters, worker = await _counted(world, next(fresh_numbers), seal=True)
    later = meters.add(Aggregation.SUM, next(fresh_numbers))
    assert await taken_on(worker)
    completeness = Completeness(worker, lag_ms=0)
    await _look(measured, world, meters)
    assert measured.complete_until_ms is None, "nothing is claimed yet"
    await completeness.probe(range(PARTITIONS), 5_000)
    await completeness.claim()
    await _look(measured, world, meters)
    assert measured.complete_until_ms == 5_000
    complete_until = world.progress.complete_until
    assert await complete_until(world.log.number, PARTITIONS, later.revision) is None
    await worker.close_all()


async def test_freshness_waits_for_a_meter_that_is_not_new_any_more(
    world: World, measured: Telemetry, fresh_numbers: Iterator[int]
) -> None:
    meters, worker = await _counted(world, next(fresh_numbers), seal=True)
    meters.made_ms = measured.clock.now_ms() - NEWER_METERS_WITHIN_MS + MINUTE_MS
    later = meters.add(Aggregation.SUM, next(fresh_numbers))  # no worker takes it on
    completeness = Completeness(worker, lag_ms=0)

    async def claimed(until_ms: int) -> int | None:
        await completeness.probe(range(PARTITIONS), until_ms)
        await completeness.claim()
        await _look(measured, world, meters)
        return measured.complete_until_ms

    assert await claimed(5_000) == 5_000
    assert await claimed(6_000) == 6_000
    meters.made_at_ms[later.revision] -= 2 * MINUTE_MS
    assert await claimed(7_000) == 6_000, "all but this meter is fresher"
    assert await taken_on(worker)
    assert await claimed(8_000) == 8_000
    await worker.close_all()


async def test_a_new_meter_is_no_lag(
    world: World, measured: Telemetry, fresh_numbers: Iterator[int]
) -> None:
    meters, worker = await _counted(world, next(fresh_numbers))
    meters.add(Aggregation.SUM, next(fresh_numbers))  # open slices have not taken it in yet
    await _look(measured, world, meters)
    lags = values(measured.recorder, "meterline_log_lag_records")
    assert lags == {(str(number),): 0.0 for number in range(PARTITIONS)}
    await world.send(numbered(60, 90))
    await _look(measured, world, meters)
    assert sum(values(measured.recorder, "meterline_log_lag_records").values()) > 0
    await worker.close_all()


async def test_no_claim_before_everything_below_the_end_is_durable(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.run(worker)
    completeness = Completeness(worker, lag_ms=11_000)
    await world.send(numbered(0, 30))
    await completeness.probe(range(PARTITIONS), 100_000)
    await completeness.claim()
    log = world.log.number
    assert await world.progress.complete_until(log, PARTITIONS, meter.revision) is None
    for number in range(PARTITIONS):
        await worker.read_some(number)
    await completeness.claim()
    assert await world.progress.complete_until(log, PARTITIONS, meter.revision) is None
    await completeness.probe(range(PARTITIONS), 200_000)  # what was asked first still waits
    await world.run(worker)
    await completeness.claim()
    assert await world.progress.complete_until(log, PARTITIONS, meter.revision) == 89_000
    await worker.close_all()


async def test_no_claim_for_a_partition_that_is_another_workers_now(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.run(worker)
    completeness = Completeness(worker, lag_ms=0)
    await completeness.probe(range(PARTITIONS), 5_000)
    worker.close(0)
    await completeness.claim()
    log = world.log.number
    assert await world.progress.complete_until(log, PARTITIONS, meter.revision) is None
    await worker.close_all()


async def test_a_log_that_ends_before_what_was_counted_is_noticed_when_it_is_asked(
    world: World, fresh_numbers: Iterator[int], tmp_path: Path
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 30))
    await world.run(worker)
    worker.log = open_sqlite_log(tmp_path / "anew", PARTITIONS, world.clock)
    with pytest.raises(LogTruncated, match="ends at offset 0"):
        await Completeness(worker, lag_ms=0).probe(range(PARTITIONS), 5_000)
    await worker.log.close()
    await worker.close_all()


class SlowLog:
    """A log whose answers about its end are under way while more is counted."""

    def __init__(self, log: Any, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._log = log
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def end(self, partition: int) -> int:
        """As it was when it was asked."""
        end: int = await self._log.end(partition)
        await self._meanwhile()
        return end


async def test_what_is_counted_while_the_log_is_asked_for_its_end_is_no_loss(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters, worker = await _counted(world, next(fresh_numbers))
    sent = iter(range(60, 60 + 30 * PARTITIONS, 30))

    async def more() -> None:
        first = next(sent)
        await world.send(numbered(first, first + 30))
        worker.log = world.log
        await world.run(worker)
        worker.log = slow

    slow: Any = SlowLog(world.log, more)
    worker.log = slow
    completeness = Completeness(worker, lag_ms=0)
    await completeness.probe(range(PARTITIONS), 5_000)
    worker.log = world.log
    await completeness.claim()
    assert not completeness.ends, "all of it was reached"
    complete_until = world.progress.complete_until
    assert await complete_until(world.log.number, PARTITIONS, meters.version) == 5_000
    await worker.close_all()


async def test_claims_wait_for_the_inbox(world: World, fresh_numbers: Iterator[int]) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.run(worker)
    answers = iter([None, 40_000, 200_000])

    async def drained(_now_ms: int) -> int | None:
        return next(answers)

    completeness = Completeness(worker, 11_000, drained)
    for expected in (None, 40_000, 89_000):
        await completeness.probe(range(PARTITIONS), 100_000)
        await completeness.claim()
        until = await world.progress.complete_until(world.log.number, PARTITIONS, meter.revision)
        assert until == expected
    await worker.close_all()
