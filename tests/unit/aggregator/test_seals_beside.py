"""A slice is sealed while the one behind it is counted."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from aggregator.step import Aggregator
from meterline.limits import COUNT_BACK_TRIES_MAX, SEALS_AT_ONCE_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation, Meter
from meterline.ports import OutdatedMeters, SeenDamaged
from meterline.usage import Counted, Flush, Seal, SliceId, TallyRow
from tests.unit.aggregator.world import PARTITIONS, Meters, World, numbered, sealed, taken_on

TRIES_MAX: Final = 200


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
            await asyncio.sleep(0)

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

    def waiting(self) -> list[int]:
        """Partitions with a slice that has ended and is not sealed."""
        return [n for n, it in self.worker.partitions.items() if it.ended is not None]

    async def until_waiting(self, numbers: list[int]) -> None:
        """Flush, and set seals, until only these wait."""
        await self.worker.flush()
        while self.waiting() != numbers:
            await self.worker.settle_seals()
            await asyncio.sleep(0)

    def ends(self) -> list[int]:
        return [it.sealed_end for it in self.worker.partitions.values()]


@pytest.fixture
async def held(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Held]:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 60))
    world.clock.at_ms += SLICE_SPAN_MS
    await world.send(numbered(0, 30))  # copies of what is not sealed
    await world.send(numbered(60, 90))
    made = Held(world, meters, meter)
    yield made
    made.may.set()
    await made.worker.close_all()


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
    held.may.set()
    await held.count()
    await sealed(held.worker)
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
    held.may.set()
    await held.count()
    await sealed(held.worker)
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


async def test_a_slice_whose_meters_are_too_old_is_open_again(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    newer = held.meters.add(Aggregation.COUNT, next(fresh_numbers))
    held.meters.meters.pop()
    held.meters.version -= 1
    before = held._seal  # noqa: SLF001

    async def outdated(seal: Seal) -> None:
        if seal.catalogue < newer.revision:
            held.meters.meters.append(newer)
            held.meters.version = newer.revision
            held._seal = before  # noqa: SLF001
            raise OutdatedMeters("by newer ones")
        await before(seal)

    held._seal = outdated  # noqa: SLF001
    held.meters.version = held.meters.meters[0].revision
    await held.count()
    held.may.set()
    with pytest.raises(OutdatedMeters):
        await sealed(held.worker)
    reopened = [it for it in held.worker.partitions.values() if it.ended is None]
    assert [it.slice is not None and it.slice.id.slice for it in reopened] == [0]
    assert [it.next_offset for it in reopened] == [it.flushed_end for it in reopened]
    await sealed(held.worker)
    await taken_on(held.worker)
    await held.check_all()
    of_all = [await held.world.progress.last_seal(held.world.log.number, n) for n in range(2)]
    assert all(seal is not None and seal.catalogue == newer.revision for seal in of_all)


async def test_whoever_waits_for_newer_meters_does_what_these_wait_for(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    """A driver may feed one record until it is taken in, and let nothing else be done."""
    held.free.add(0)
    await held.count()
    await held.newer_meters(next(fresh_numbers))
    before = held._seal  # noqa: SLF001

    async def outdated(seal: Seal) -> None:
        if seal.partition == 1 and seal.catalogue < held.meters.version:
            raise OutdatedMeters("by newer ones")
        await before(seal)

    held._seal = outdated  # noqa: SLF001
    held.may.set()
    held.world.clock.at_ms += SLICE_SPAN_MS
    await held.world.send(numbered(90, 120))
    refused = 0
    for _ in range(TRIES_MAX):
        try:
            if not await held.worker.read_some(1):
                break
        except OutdatedMeters:
            refused += 1
            await held.worker.read_ahead()  # a task of its own, in a worker
            await asyncio.sleep(0.01)
    assert 0 < refused < TRIES_MAX
    assert held.worker.catalogue.version == held.meters.version
    await held.check_all()


async def test_rows_of_meters_that_go_are_not_judged(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    """Another worker, which knows newer meters, drops them again and again."""
    gone = held.meters.meters[0]
    held.may.set()
    await held.count()
    await sealed(held.worker)
    await held.next_slices()
    await held.worker.flush()
    held.meters.add(Aggregation.COUNT, next(fresh_numbers))
    held.meters.meters.remove(gone)
    count_back = held.world.usage.count_back

    async def dropped(slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        there = await count_back(slice_id, revisions)
        if gone.revision in revisions:
            there["tallies"] = Counted(there["tallies"].rows + 1, 0)
        return there

    held.world.usage.count_back = dropped  # type: ignore[method-assign]
    for _ in range(COUNT_BACK_TRIES_MAX + 1):
        with suppress(OutdatedMeters):
            await sealed(held.worker)
        for number in range(PARTITIONS):
            with suppress(OutdatedMeters):
                await held.worker.read_some(number)
        assert all(it.count_back_tries == 0 for it in held.worker.partitions.values())
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
        await asyncio.sleep(0)
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
