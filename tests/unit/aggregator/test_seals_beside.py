"""A slice is sealed while the one behind it is counted."""

import asyncio
from collections.abc import Iterator
from typing import Any

from meterline.limits import SEALS_AT_ONCE_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.ports import SeenDamaged
from meterline.usage import Flush, TallyRow
from tests.unit.aggregator.held import Held
from tests.unit.aggregator.world import LOOK_S, PARTITIONS, numbered, sealed, taken_on


async def test_what_follows_is_counted_meanwhile_and_knows_what_came_before(held: Held) -> None:
    await held.count()
    assert held.asked == PARTITIONS <= SEALS_AT_ONCE_MAX
    assert held.ends() == [0] * PARTITIONS
    await held.world.check(held.meter)
    assert held.world.copies == 30
    held.may.set()
    await sealed(held.worker)
    for number, partition in held.worker.partitions.items():
        seal = await held.world.progress.last_seal(held.world.log.number, number)
        assert seal is not None
        assert seal.end == partition.sealed_end == partition.seen.applied > 0
        assert partition.slice is not None
        assert partition.slice.id.slice == seal.end
        assert seal.append_ms == held.world.clock.at_ms - SLICE_SPAN_MS, "of its own records"
    await held.world.run(held.worker, seal=True)
    await held.world.check(held.meter)


async def test_one_slice_at_a_time_waits_for_its_seal(held: Held) -> None:
    await held.count()
    held.world.clock.at_ms += SLICE_SPAN_MS
    await held.world.send(numbered(90, 120))
    counting = asyncio.create_task(held.count())
    await asyncio.sleep(0.2)
    assert not counting.done()
    assert held.ends() == [0] * PARTITIONS
    held.may.set()
    await counting
    await held.world.run(held.worker, seal=True)
    await held.world.check(held.meter)


async def test_a_newer_catalogue_waits_for_seals_by_the_one_before(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    await held.count()
    before = held.worker.catalogue.version
    held.meters.add(Aggregation.COUNT, next(fresh_numbers))
    assert await held.worker.refresh_catalogue()
    for _ in range(5):
        await held.worker.flush()
        await held.worker.read_ahead()
        await held.worker.settle_seals()
    assert held.worker.catalogue.version == before
    held.may.set()
    await sealed(held.worker)
    await taken_on(held.worker)
    assert held.worker.catalogue.version == held.meters.version
    for number in range(PARTITIONS):
        seal = await held.world.progress.last_seal(held.world.log.number, number)
        assert seal is not None
        assert seal.catalogue == before
    await held.check_all()


async def test_newer_meters_that_are_ready_come_before_the_end_of_a_slice(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    await held.first_sealed()
    held.may.clear()
    await held.newer_meters(next(fresh_numbers))
    await held.next_slices()
    assert held.worker.catalogue.version == held.meters.version
    assert held.waiting() == list(range(PARTITIONS)), "what ends together holds up nothing"
    held.may.set()
    await held.check_all()


async def test_a_slice_ends_behind_the_flush_that_brings_newer_meters(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    await held.first_sealed()
    await held.newer_meters(next(fresh_numbers))
    assert await held.worker.flush_soon()
    assert held.worker.catalogue.version < held.meters.version, "it is on its way"
    await held.next_slices()
    assert held.worker.catalogue.version == held.meters.version
    await sealed(held.worker)
    assert all(it.count_back_tries == 0 for it in held.worker.partitions.values())
    for number in range(PARTITIONS):
        seal = await held.world.progress.last_seal(held.world.log.number, number)
        assert seal is not None
        assert seal.catalogue == held.meters.version
    await held.check_all()


async def test_newer_meters_do_not_wait_for_ever_for_slices_that_end_in_turn(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    held.free.add(1)  # the seal of 0 waits all the time
    await held.count()
    await held.newer_meters(next(fresh_numbers))
    await held.until_waiting([0])
    await held.next_slices(1)
    assert held.waiting() == [0, 1], "it is let end one slice beside the next"
    await held.until_waiting([0])
    await held.next_slices(1)
    assert held.waiting() == [0], "and no other"
    assert held.worker.is_adopting
    held.may.set()
    await sealed(held.worker)
    await taken_on(held.worker)
    await held.check_all()


async def test_where_the_store_differs_both_slices_are_read_again(held: Held) -> None:
    real = held.world.usage.write
    lost: list[TallyRow] = []

    async def losing(flush: Flush) -> None:
        if not lost and flush.tallies:
            lost.append(flush.tallies.pop(0))
        await real(flush)

    held.world.usage.write = losing  # type: ignore[method-assign]
    held.may.set()
    await held.count()
    await held.world.run(held.worker, seal=True)
    assert lost
    await held.world.check(held.meter)


async def test_a_seen_store_that_breaks_when_a_seal_is_set_is_made_anew(held: Held) -> None:
    await held.count()

    def broken(*_: Any) -> None:
        raise SeenDamaged("a block")

    for partition in held.worker.partitions.values():
        partition.seen.apply = broken  # type: ignore[method-assign, assignment]
    held.may.set()
    while held.worker.partitions:
        await held.worker.settle_seals()
        await asyncio.sleep(LOOK_S)
    await held.world.run(held.worker, seal=True)
    await held.world.check(held.meter)
    assert len(list((held.world.folder / "seen").glob("*/*.damaged-1"))) == PARTITIONS


async def test_a_worker_that_ends_leaves_no_seal_on_its_way(held: Held) -> None:
    await held.count()
    before = len(asyncio.all_tasks())
    await held.worker.close_all()
    assert len(asyncio.all_tasks()) == before - PARTITIONS
    held.may.set()
    held.worker = held.world.worker(held.meters)
    await held.world.run(held.worker, seal=True)
    await held.world.check(held.meter)
