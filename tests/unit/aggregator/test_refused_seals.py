"""Seals that are refused or differ because newer meters must be known first."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import pytest

from aggregator.slice.sealing import CountBackDiffers
from meterline.limits import COUNT_BACK_TRIES_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation
from meterline.ports import OutdatedMeters
from meterline.usage import Counted, Seal, SliceId
from tests.unit.aggregator.held import Held
from tests.unit.aggregator.world import numbered, sealed, taken_on

TRIES_MAX: Final = 2_000


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
    held.refuse_old_meters(1)
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
    await held.first_sealed()
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
        await held.turn()
        assert all(it.count_back_tries == 0 for it in held.worker.partitions.values())
    await taken_on(held.worker)
    await held.check_all()


async def test_events_that_are_lost_are_told_though_meters_come_and_go(
    held: Held, fresh_numbers: Iterator[int]
) -> None:
    await held.first_sealed()
    await held.next_slices()
    await held.worker.flush()
    count_back = held.world.usage.count_back

    async def lost(slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        held.meters.meters.pop()
        held.meters.add(Aggregation.COUNT, next(fresh_numbers))
        return {**await count_back(slice_id, revisions), "events": Counted(0, 0)}

    held.world.usage.count_back = lost  # type: ignore[method-assign]

    async def turns() -> None:
        for _ in range(TRIES_MAX):
            await held.turn()
            await held.worker.read_ahead()

    with pytest.raises(CountBackDiffers):
        await turns()


@pytest.mark.parametrize("agent_first", [False, True])
async def test_a_slice_that_ends_again_before_it_was_read_is_read_all_the_same(
    held: Held, fresh_numbers: Iterator[int], *, agent_first: bool
) -> None:
    """With Faust, records come in as soon as a turn is over."""
    held.refuse_old_meters()
    await held.count()
    held.meters.add(Aggregation.COUNT, next(fresh_numbers))
    held.may.set()
    turns = 0
    while held.worker.catalogue.version < held.meters.version:
        turns += 1
        assert turns < TRIES_MAX
        with suppress(OutdatedMeters):
            await held.worker.flush_soon()
            await held.worker.settle_seals()
        for act in [held.read, held.worker.read_ahead][:: 1 if agent_first else -1]:
            await act()
        await asyncio.sleep(0.005)  # seals are on their way in threads
    await held.check_all()
