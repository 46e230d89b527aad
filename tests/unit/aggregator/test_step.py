"""The aggregator's step over real embedded adapters, killed between any two effects."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Never

import msgspec
import pytest

from aggregator.catch_up import LogTruncated, check_same_log
from aggregator.completeness import Completeness
from aggregator.slice.sealing import CountBackDiffers
from meterline.backends.clock import SystemClock
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.event import encode_pack
from meterline.limits import COUNT_BACK_TRIES_MAX, SLICE_EVENTS_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation, Meter
from meterline.ports import SeenDamaged, Unavailable
from tests.unit.aggregator.world import PARTITIONS, Killed, Meters, World, numbered, taken_on


async def test_events_sent_twice_count_once_over_restarts(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 100))
    worker = world.worker(meters)
    await world.run(worker)
    await worker.close_all()
    await world.send(numbered(50, 150))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    await worker.close_all()
    await world.send(numbered(0, 150))
    worker = world.worker(meters)
    await world.run(worker)
    await world.check(meter)
    await worker.close_all()


async def test_a_seen_store_that_breaks_while_counting_is_rebuilt(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 100))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    broken = []

    def break_down(_keys: Sequence[bytes]) -> Never:
        broken.append(1)
        raise SeenDamaged("a block")

    for partition in worker.partitions.values():
        partition.seen.get_many = break_down  # type: ignore[method-assign, assignment]
    await world.send(numbered(0, 150))
    await world.run(worker)
    assert len(broken) == PARTITIONS
    await world.check(meter)
    await worker.close_all()
    assert len(list((world.folder / "seen").glob("*/*.damaged-1"))) == PARTITIONS


@pytest.mark.parametrize("seed", range(12))
async def test_killed_and_failing_between_any_two_effects(
    world: World, fresh_numbers: Iterator[int], seed: int
) -> None:
    rng = random.Random(seed)
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    second: Meter | None = None
    fates = ["die before", "die after", "fail before", "fail after"]
    happened: Counter[str] = Counter()

    def fate() -> str:
        met = rng.choice(fates) if rng.random() < 0.12 else "well"
        happened[met] += 1
        return met

    worker = world.worker(meters, fate)
    for turn in range(8):
        world.clock.at_ms += rng.randrange(SLICE_SPAN_MS)
        start = rng.randrange(60)
        await world.send(numbered(start, start + rng.randrange(1, 40)))
        if turn == 4:
            second = meters.add(Aggregation.COUNT, next(fresh_numbers))
        if rng.random() < 0.1:
            await worker.close_all()
            shutil.rmtree(world.folder / "seen", ignore_errors=True)  # the seen store is lost
        try:
            await taken_on(worker)
            await world.run(worker)
        except Unavailable:
            continue
        except Killed:
            await worker.close_all()
            worker = world.worker(meters, fate)
    await worker.close_all()
    assert second is not None
    assert happened["well"] < sum(happened.values()), "the fates must bite"
    worker = world.worker(meters)
    await world.run(worker)
    sealed = [await world.progress.last_seal(world.log.number, n) for n in range(PARTITIONS)]
    assert None not in sealed, "borders were crossed"
    await world.fill(worker)
    await world.check(first, second)
    await worker.close_all()


async def test_a_store_that_loses_rows_is_noticed_and_repaired(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    real = world.usage.write
    lost: list[object] = []

    async def forgetful(flush: Any) -> None:
        if not lost and flush.tallies:
            lost.append(flush.tallies.pop())
        await real(flush)

    world.usage.write = forgetful  # type: ignore[method-assign]
    await world.run(worker, seal=True)
    assert lost
    await world.run(worker, seal=True)
    await world.check(meter)
    await worker.close_all()


async def test_a_store_that_always_differs_stops_the_worker_with_words(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    real = world.usage.write

    async def forgetful(flush: Any) -> None:
        flush.tallies.clear()
        await real(flush)

    world.usage.write = forgetful  # type: ignore[method-assign]
    for _ in range(COUNT_BACK_TRIES_MAX - 1):
        await world.run(worker, seal=True)
    with pytest.raises(CountBackDiffers, match="Nothing is lost"):
        await world.run(worker, seal=True)
    await worker.close_all()


async def test_a_log_made_anew_stops_the_worker_with_words(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    await worker.close_all()
    number = world.log.number
    await world.log.close()
    world.log = open_sqlite_log(world.folder / "other", PARTITIONS, SystemClock())
    world.log.number = number
    with pytest.raises(LogTruncated, match="created again"):
        await world.worker(meters).open(0)


async def test_what_a_lost_partition_had_unflushed_is_not_waited_for(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 40))
    for number in range(PARTITIONS):
        await worker.open(number)
        await worker.read_some(number)
    assert worker.unflushed.events == 40
    worker.close(0)
    assert 0 < worker.unflushed.events < 40
    worker.close(1)
    assert worker.unflushed.events == 0
    await worker.close_all()


async def test_a_log_that_was_restored_and_grew_again_stops_the_worker_with_words(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    await world.log_closed()
    shutil.copytree(world.folder / "log", world.folder / "copy")
    await world.log_opened("log")
    await world.send(numbered(40, 80))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    await world.check(meter)
    await worker.close_all()
    await world.log_closed()
    await world.log_opened("copy")
    world.clock.at_ms += 1_000
    for _ in range(3):
        await world.send(numbered(80, 120))
    for number in range(PARTITIONS):
        with pytest.raises(LogTruncated, match="restored to an older state and has grown"):
            await world.worker(meters).open(number)
    await world.log_closed()
    await world.log_opened("log")
    worker = world.worker(meters)
    await world.run(worker)
    assert await world.value(meter) == sum(value for _, value in numbered(0, 80))
    await worker.close_all()


async def test_a_sealed_record_that_expired_or_has_no_digest_is_not_asked_for(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    await worker.close_all()
    seal = await world.progress.last_seal(world.log.number, 0)
    assert seal is not None
    other = seal._replace(digest=bytes(16))
    with pytest.raises(LogTruncated, match="is not the one that was counted"):
        await check_same_log(world.log, 0, other, seal.end)
    await check_same_log(world.log, 0, seal, seal.end)
    await check_same_log(world.log, 0, seal._replace(digest=None), seal.end)
    with pytest.raises(LogTruncated, match=f"ends at offset {seal.end}"):
        await check_same_log(world.log, 0, seal, seal.end + 1)
    await world.log.trim(0, seal.end, world.clock.at_ms + 1)
    await check_same_log(world.log, 0, other, seal.end)


async def test_slices_end_where_the_log_says(world: World, fresh_numbers: Iterator[int]) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    document = {
        "specversion": "1.0", "source": "s", "type": "t", "subject": "x",
        "namespace": "default", "recordedtime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    packs = SLICE_EVENTS_MAX // 500 + 2
    for pack in range(packs):
        texts = [msgspec.json.encode({**document, "id": f"{pack}.{place}"}) for place in range(500)]
        await world.log.append(0, encode_pack(texts))
    worker = world.worker(meters)
    await world.run(worker)
    seal = await world.progress.last_seal(world.log.number, 0)
    assert seal is not None
    assert seal.events <= SLICE_EVENTS_MAX
    assert seal.end <= packs
    assert await world.value(meter) == packs * 500
    await worker.close_all()


async def test_another_horizon_begins_with_an_empty_store_that_catches_up(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 50))
    await world.run(worker, seal=True)
    await worker.close_all()
    for days in (60, 7, 35):
        worker = world.worker(meters, horizon_ms=days * 86_400_000)
        await world.send(numbered(0, 50))
        await world.run(worker, seal=True)
        await world.check(meter)
        await worker.close_all()


async def test_a_slice_that_is_read_again_gets_the_same_rows(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 20))
    world.clock.at_ms += 1_000
    await world.send(numbered(20, 40))
    await world.run(worker)
    before = [r for n in range(PARTITIONS) for r in await world.rows(n)]
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    assert await taken_on(worker)
    await world.run(worker)
    assert [r for n in range(PARTITIONS) for r in await world.rows(n)] == before
    assert {row.append_ms for row in before} == {world.clock.at_ms, world.clock.at_ms - 1_000}
    await world.check(meter)
    await worker.close_all()


async def test_records_that_expired_uncounted_stop_the_worker_until_someone_accepts(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = world.worker(meters)
    await worker.open(0)
    for first in range(0, 60, 20):
        await world.send(numbered(first, first + 20))
        world.clock.at_ms += 1_000
    await world.log.trim(0, 2, world.clock.at_ms)
    with pytest.raises(LogTruncated, match="expired first"):
        await worker.read_some(0)
    await worker.close_all()
    worker = world.worker(meters)
    with pytest.raises(LogTruncated, match="losses_accepted"):
        await worker.open(0)
    worker = world.worker(meters, losses_accepted={0: 2})
    await world.run(worker)
    assert 0 < await world.value(meter) < len(world.sent)
    await worker.close_all()


async def test_an_idle_partition_stays_complete_when_its_closing_pack_expires(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 10))
    await world.run(worker)
    world.clock.at_ms += SLICE_SPAN_MS
    for number in range(PARTITIONS):
        await world.log.append(number, encode_pack([]))
    await world.run(worker)
    for number in range(PARTITIONS):
        await world.log.trim(number, 2, world.clock.at_ms + 1)
    later = meters.add(Aggregation.COUNT, next(fresh_numbers))
    assert await taken_on(worker)
    await world.run(worker)
    completeness = Completeness(worker, lag_ms=0)
    await completeness.probe(range(PARTITIONS), 7_000)
    await completeness.claim()
    await world.fill(worker)
    until = await world.progress.complete_until(world.log.number, PARTITIONS, later.revision)
    assert until == 7_000
    await world.check(meter, later)
    await worker.close_all()
    worker = world.worker(meters)
    await world.run(worker)
    await world.check(meter, later)
    await worker.close_all()
