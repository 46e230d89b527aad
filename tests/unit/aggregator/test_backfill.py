"""Backfill: what a step takes together, when it is asked whether anything lacks, and that others
on the loop come first.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from aggregator.backfill.filler import (
    Backfill,
    FillStores,
    StepBounds,
    backfilled_some,
    begun,
    next_run,
    portions,
)
from aggregator.slice.background import Background
from meterline.limits import (
    FILL_LOOK_MS,
    FILL_SHARE_MIN,
    FILL_WAIT_MS,
)
from meterline.usage import Filling, Flush, Lacking, RawEvent, Seal, SliceId, TallyRow
from tests.unit.aggregator.filled import EACH, SLICES, Counting, aged, filled, made
from tests.unit.aggregator.world import PARTITIONS, Meters, World, filled_up, taken_on

BOUNDS = StepBounds(slices=10, events=100, folds=300, revisions=10)
ONE_BY_ONE = StepBounds(slices=1, revisions=1)


def lacks(
    slice_: int, revisions: tuple[int, ...], events: int = 10, counting: tuple[int, ...] = (1, 2, 3)
) -> Lacking:
    own = tuple(it for it in revisions if it in counting) if events else ()
    return Lacking(Seal(1, 0, slice_, slice_ + 10, events, 0, 5), revisions, own)


def taken(found: Sequence[Lacking], bounds: StepBounds = BOUNDS) -> tuple[list[int], Any, Any]:
    run = next_run(found, bounds)
    return [seal.slice for seal in run.slices], run.revisions, run.counting


def test_a_run_ends_where_other_revisions_lack_the_slice() -> None:
    found = [lacks(0, (1, 2)), lacks(10, (1, 2)), lacks(20, (1,)), lacks(30, (1, 2))]
    assert taken(found) == ([0, 10], (1, 2), (1, 2))


def test_a_run_ends_where_other_revisions_count_the_events() -> None:
    found = [lacks(0, (1, 2), counting=(1,)), lacks(10, (1, 2), 0), lacks(20, (1, 2))]
    assert taken(found) == ([0, 10], (1, 2), (1,)), "a slice without events fits to any"
    assert taken(found[1:]) == ([10, 20], (1, 2), (1, 2))
    assert taken([lacks(0, (1, 2), 0), lacks(10, (1, 2), 0)]) == ([0, 10], (1, 2), ())


def test_a_run_ends_where_other_subjects_are_erased() -> None:
    gone = lacks(10, (1, 2))._replace(erased=(("default", "acme", "erased-1"),))
    assert taken([lacks(0, (1, 2)), gone]) == ([0], (1, 2), (1, 2))
    assert next_run([gone, gone], BOUNDS).erased == gone.erased


def test_a_run_is_bounded_in_slices_events_and_folds() -> None:
    many = [lacks(at, (1,)) for at in range(0, 300, 10)]
    assert len(taken(many)[0]) == BOUNDS.slices
    assert len(taken([lacks(at, (1,), 30) for at in range(0, 300, 10)])[0]) == 3
    assert len(taken([lacks(at, (1, 2, 3), 30) for at in range(0, 300, 10)])[0]) == 3
    assert len(taken([lacks(at, (1, 2, 3), 40) for at in range(0, 300, 10)])[0]) == 2
    assert taken([lacks(0, (1, 2, 3), 150), lacks(10, (1, 2, 3), 1)]) == ([0], (1, 2), (1, 2)), (
        "of a large slice the oldest revisions come first"
    )
    assert taken([lacks(0, (1, 2, 3), 10_000)]) == ([0], (1,), (1,)), "one slice at least"


def test_rows_are_written_in_portions_none_left_out() -> None:
    rows: list[Any] = list(range(10))
    found = list(portions(Flush(tallies=rows, members=rows[:3], late_tallies=rows[:5]), 4))
    assert [one.tallies for one in found] == [rows[:4], rows[4:8], rows[8:]]
    assert [one.members for one in found] == [rows[:3], [], []]
    assert [one.late_tallies for one in found] == [rows[:4], rows[4:5], []]
    assert list(portions(Flush(), 4)) == []


async def test_all_meters_are_filled_in_by_one_reading_of_many_slices(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    made(meters, fresh_numbers, 4)
    await taken_on(worker)
    usage = Counting(world.usage)
    stores = FillStores(usage, world.progress, world.log.number)
    steps = [await filled_up(stores, worker.catalogue, number) for number in range(PARTITIONS)]
    assert steps == [1] * PARTITIONS
    assert usage.read == SLICES * EACH, "each event once"
    await world.check(*meters.meters)
    await worker.close_all()


async def test_steps_of_any_size_write_the_same_rows(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    made(meters, fresh_numbers, 3)
    await taken_on(worker)
    written: list[list[TallyRow]] = []
    for bounds in (ONE_BY_ONE, StepBounds(), StepBounds(events=EACH, folds=2 * EACH)):
        rows: list[TallyRow] = []
        for number in range(PARTITIONS):
            usage, progress = Counting(world.usage), Unmarked(world.progress)
            stores = FillStores(usage, progress, world.log.number, bounds)  # type: ignore[arg-type]
            await filled_up(stores, worker.catalogue, number)
            rows += [row for flush in usage.flushes for row in flush.tallies]
        written.append(sorted(rows))
    assert written[0]
    assert written[0] == written[1] == written[2]
    await worker.close_all()


class Unmarked:
    """What is filled in is known to this step only: another one may do it again."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self._filled: set[tuple[int, int]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def lacking(
        self, log: int, partition: int, revisions: Sequence[int], limit: int
    ) -> list[Lacking]:
        found = []
        for oldest in sorted(revisions):
            for one in await self._port.lacking(log, partition, list(revisions), 1 << 20):
                left = tuple(it for it in one.revisions if (one.seal.slice, it) not in self._filled)
                if oldest in left:
                    counting = tuple(it for it in one.counting if it in left)
                    found.append(one._replace(revisions=left, counting=counting))
            if found:
                break
        return found[:limit]

    async def settle(self, *_: Any) -> None:
        """It is not."""

    async def mark_filled(
        self, _log: int, _partition: int, slices: Sequence[int], revisions: Sequence[int], _: int
    ) -> None:
        self._filled |= {(slice_, revision) for slice_ in slices for revision in revisions}


async def test_what_somebody_else_filled_meanwhile_is_not_written(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    made(meters, fresh_numbers, 2)
    await taken_on(worker)

    class Overtaken(Counting):
        async def raw_events(self, *asked: Any) -> AsyncIterator[list[RawEvent]]:
            async for rows in self._port.raw_events(*asked):
                yield rows
            await world.fill(worker)

    usage = Overtaken(world.usage)
    stores = FillStores(usage, world.progress, world.log.number)
    await filled_up(stores, worker.catalogue, 0)
    assert usage.flushes == []
    await world.check(*meters.meters)
    await worker.close_all()


class Asked:
    """Progress that remembers when it was asked what is not settled."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def unsettled(self, *asked: Any) -> Any:
        self.times += 1
        return await self._port.unsettled(*asked)


async def test_it_is_asked_when_something_changed_and_besides_that_seldom(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    asked = Asked(world.progress)
    worker.progress = asked
    backfill, now_ms = Backfill(worker), world.clock.at_ms

    async def times(at_ms: int) -> int:
        before = asked.times
        await filled(backfill, at_ms)
        return asked.times - before

    assert await times(now_ms) == PARTITIONS, "taken on"
    assert await times(now_ms + FILL_LOOK_MS - 1) == 0
    assert await times(now_ms + FILL_LOOK_MS) == PARTITIONS
    now_ms += FILL_LOOK_MS
    worker.partitions[0].left += 1
    assert await times(now_ms + 1) == 1, "somebody else has sealed there"
    made(meters, fresh_numbers, 1)
    assert await times(now_ms + 2) == 0, "it is not known here yet"
    await taken_on(worker)
    assert await times(now_ms + 3) >= PARTITIONS
    await world.check(*meters.meters)
    assert await times(now_ms + 4 + FILL_WAIT_MS) <= PARTITIONS
    assert await times(now_ms + 5 + 2 * FILL_WAIT_MS) == 0
    worker.close(1)
    await worker.open(1)
    assert await times(now_ms + 6 + 2 * FILL_WAIT_MS) == 1
    await worker.close_all()


async def test_it_is_told_how_far_it_is(world: World, fresh_numbers: Iterator[int]) -> None:
    meters = Meters(0)
    worker = await aged(world, meters)
    made(meters, fresh_numbers, 2)
    await taken_on(worker)
    log, now_ms = world.log.number, 1_000
    events = len(await world.usage.slice_events(SliceId(log, 0, 0)))
    stores = FillStores(worker.usage, worker.progress, log, StepBounds(slices=2))
    assert await begun(stores, worker.catalogue, 0, now_ms)
    first = await backfilled_some(stores, worker.catalogue, 0, now_ms, Background())
    assert first == (True, False)
    (told,) = await worker.progress.fillings(log)
    pairs, of_events = 2 * SLICES, told.events_filled + told.events_left
    assert told == Filling(0, 1_000, 1_000, 4, pairs - 4, told.events_filled, told.events_left)
    assert told.events_filled >= 2 * events > 0
    await backfilled_some(stores, worker.catalogue, 0, now_ms + 500, Background())
    (told,) = await worker.progress.fillings(log)
    assert (told.begun_ms, told.seen_ms, told.slices_left) == (1_000, 1_500, pairs - 8)
    assert await begun(stores, worker.catalogue, 0, now_ms + 900)
    again = await backfilled_some(stores, worker.catalogue, 0, now_ms + 900, Background())
    assert again.did
    (told,) = await worker.progress.fillings(log)
    assert told == Filling(0, 1_000, 1_900, pairs, 0, of_events, 0), "it went on"
    await worker.close_all()


@pytest.mark.parametrize("busy", [False, True])
async def test_others_on_the_loop_come_first(busy: bool) -> None:
    clock = 0.0
    loop = asyncio.get_running_loop()
    loop.time = lambda: clock  # type: ignore[method-assign]
    background, others = Background(), 0

    async def work() -> None:
        nonlocal clock, others
        while True:
            clock += 0.01
            others += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(work()) if busy else None
    await background.give_way()
    others, mine = 0, 0.0
    for _ in range(10):
        clock, mine = clock + 0.05, mine + 0.05
        await background.give_way()
    if other is None:
        assert clock == pytest.approx(mine)
    else:
        other.cancel()
        share = mine / (mine + others * 0.01)
        assert share == pytest.approx(FILL_SHARE_MIN, rel=0.1)
