"""A partition that is taken on by a worker without its seen store."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.catch_up import generations, shares
from aggregator.completeness import Completeness
from aggregator.drivers.faust_worker import FaustWorker
from aggregator.drivers.membership import Membership
from aggregator.drivers.openings import Openings
from aggregator.drivers.poll_worker import PollWorker
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.limits import CATCH_UP_TELL_MS, SEEN_SHARE_KEYS
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from meterline.usage import CatchingUp, SeenExtent, SeenSpan
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered

HORIZON_MS = 1_000_000
SPAN = SeenSpan(1, 0, 5, 50, -7, 2**62)


def test_generations_cover_a_span_without_gaps() -> None:
    assert list(generations(SPAN, SeenExtent(0, 0, 0), 100)) == []
    assert list(generations(SPAN, SeenExtent(9, 100, 199), 100)) == [SPAN]
    parts = list(generations(SPAN, SeenExtent(9, 99, 200), 100))
    assert [(part.from_ms, part.to_ms) for part in parts] == [(0, 100), (100, 200), (200, 300)]
    assert {part[:4] for part in parts} == {SPAN[:4]}
    cut = SPAN._replace(from_ms=150)
    assert [it.from_ms for it in generations(cut, SeenExtent(9, 160, 230), 100)] == [150, 200]


@pytest.mark.parametrize("rows", [1, SEEN_SHARE_KEYS, SEEN_SHARE_KEYS + 1, 10**9, 10**15])
def test_shares_cover_all_first_bytes(rows: int) -> None:
    found = list(shares(rows))
    assert found[0][0] == 0
    assert found[-1][1] == 1 << 16
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert all(low < high for low, high in found)
    assert len(found) == min(max(1, -(-rows // SEEN_SHARE_KEYS)), 1 << 16)


class Watching:
    """A usage store that keeps what is asked of its seen rows, and lets nobody have them before it
    is told to.
    """

    def __init__(self, usage: Any) -> None:
        self._usage = usage
        self.asked: list[tuple[SeenSpan, SeenExtent]] = []
        self.held: set[int] = set()
        self.free = asyncio.Event()
        self.away = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usage, name)

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        extent: SeenExtent = await self._usage.seen_extent(span)
        self.asked.append((span, extent))
        return extent

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        if span.partition in self.held:
            await self.free.wait()
        if self.away:
            self.away -= 1
            raise Unavailable("the usage store is away")
        keys: bytes = await self._usage.seen_keys(span, low, high)
        return keys


@dataclass(slots=True)
class Brought:
    """An event of Faust's."""

    message: Any
    value: bytes | None = b""


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it is asked as a worker asks, turn by turn
        await asyncio.sleep(0.01)


async def one_told(world: World, wanted: Callable[[CatchingUp], bool]) -> CatchingUp:
    """What a worker tells of the only partition that it catches up, as soon as it is wanted."""
    while True:
        told = await world.progress.catch_ups(world.log.number)
        if told and wanted(told[0]):
            (one,) = told
            return one
        await asyncio.sleep(0.01)


async def counted(world: World, meters: Meters) -> Watching:
    """Three times ten events and their seals, half a horizon from each other; then the seen stores
    are lost.
    """
    worker = world.worker(meters, horizon_ms=HORIZON_MS)
    for first in range(0, 120, 40):
        await world.send(numbered(first, first + 40))
        await world.run(worker, seal=True)
        world.clock.at_ms += HORIZON_MS * 3 // 4
    await worker.close_all()
    shutil.rmtree(world.folder / "seen")
    world.usage = watching = Watching(world.usage)  # type: ignore[assignment]
    return watching


async def test_keys_beyond_the_horizon_are_not_brought_and_verdicts_stay(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    watching = await counted(world, meters)
    world.clock.at_ms -= HORIZON_MS * 3 // 4  # as it was when the last was sent
    await world.send(numbered(40, 120))  # known: the first forty are beyond the horizon
    worker = world.worker(meters, horizon_ms=HORIZON_MS)
    await world.run(worker)
    assert await world.value(meter) == 120
    whole = [extent.rows for span, extent in watching.asked if span.to_ms == 2**62]
    assert sum(whole) == 80
    await worker.close_all()


async def test_others_are_counted_while_one_catches_up(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    watching = await counted(world, meters)
    watching.held, watching.away = {0}, 1
    worker = world.worker(meters, horizon_ms=HORIZON_MS)
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    stop = asyncio.Event()

    async def news(_timeout_s: float) -> None:
        await asyncio.sleep(0.01)

    running = asyncio.create_task(PollWorker(worker, housekeeping, world.clock, news).run(stop))
    await world.send(numbered(120, 200))
    ends = [await world.log.end(number) for number in range(PARTITIONS)]

    def reached() -> list[bool]:
        held = worker.partitions
        return [n in held and held[n].flushed_end == end for n, end in enumerate(ends)]

    await until(lambda: reached() == [False] + [True] * (PARTITIONS - 1))
    await until(lambda: worker.catching_up[0].keys_total > 0)
    assert 0 not in worker.partitions
    first_told_ms = world.clock.at_ms
    world.clock.at_ms += CATCH_UP_TELL_MS  # the worker may have told before it knew how many
    told = await one_told(world, lambda one: one.seen_ms > first_told_ms)
    assert told == CatchingUp(0, told.begun_ms, told.seen_ms, 0, worker.catching_up[0].keys_total)
    watching.free.set()
    await until(lambda: all(reached()))
    assert not worker.catching_up
    while await world.progress.catch_ups(world.log.number):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    assert await world.value(meter) == 200
    stop.set()
    await running


class Assigned(FaustWorker):
    """A worker of all partitions, whose records a test brings."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.acknowledged: list[tuple[int, int]] = []

    def _acknowledge(self, number: int, offset: int) -> None:
        super()._acknowledge(number, offset)
        self.acknowledged.append((number, offset))

    def _assigned(self) -> set[int]:
        return set(range(PARTITIONS))

    async def brought(self, world: World) -> list[Brought]:
        """What Faust would bring, in its order."""
        ends = [await world.log.end(number) for number in range(PARTITIONS)]
        return [
            Brought(
                SimpleNamespace(
                    record=record, value=b"", partition=record.partition, offset=record.offset
                )
            )
            for number, end in enumerate(ends)
            for record in await world.log.read(number, 0, end)
        ]


async def test_what_faust_brings_for_a_partition_that_is_not_open_is_read_later(
    world: World, fresh_numbers: Iterator[int], tmp_path: Path
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    watching = await counted(world, meters)
    watching.held = {0}
    await world.send(numbered(120, 200))
    aggregator = world.worker(meters, horizon_ms=HORIZON_MS)
    housekeeping = Housekeeping(aggregator, Completeness(aggregator, 0), AT_ONCE)
    membership = Membership("group", "127.0.0.1:9", "topic", str(tmp_path / "faust"))
    worker = Assigned(
        aggregator, housekeeping, world.clock, lambda message: message.record, membership
    )

    async def opened(*numbers: int) -> None:
        while aggregator.partitions.keys() != set(numbers):
            await worker._tick()  # noqa: SLF001 - Faust is not started
            await asyncio.sleep(0.01)

    await opened(*range(1, PARTITIONS))
    events = await worker.brought(world)
    for event in events:
        await worker._take(event)  # noqa: SLF001 - as its agent does
    assert 0 not in {number for number, _ in worker.acknowledged}
    watching.free.set()
    await opened(*range(PARTITIONS))
    await worker._tick()  # noqa: SLF001 - it is read from the log
    await aggregator.flush()
    assert await world.value(meter) == 200
    sealed = {number: it.sealed_end for number, it in aggregator.partitions.items()}
    assert sorted(worker.acknowledged) == [
        (number, offset) for number, end in sorted(sealed.items()) for offset in range(end)
    ]
    await aggregator.close_all()


async def test_a_partition_that_is_taken_away_meanwhile_is_let_go_and_can_come_back(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    watching = await counted(world, meters)
    watching.held = {0}
    worker = world.worker(meters, horizon_ms=HORIZON_MS)
    openings = Openings(worker)
    await until(lambda: openings.is_open(1))
    assert not openings.is_open(0)
    await until(lambda: 0 in worker.catching_up)
    openings.give_up([0, 1, 2])
    assert openings.numbers == set()
    assert not openings.is_open(0), "its files are not closed yet"
    watching.free.set()
    await until(lambda: openings.is_open(0))
    assert openings.is_open(1), "what is open is not its own any more"
    await openings.close()
    await worker.close_all()


async def test_what_was_prepared_and_given_up_is_closed(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    await counted(world, meters)
    worker = world.worker(meters, horizon_ms=HORIZON_MS)
    openings = Openings(worker)
    assert not openings.is_open(0)
    await asyncio.gather(*openings.tasks)
    await openings.close()
    assert worker.partitions == {}
    await worker.open(0)  # RocksDB lets nobody open what is open
    await worker.close_all()


async def test_what_ends_the_preparing_ends_the_worker(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker: Aggregator = world.worker(meters)
    await world.run(worker, seal=True)
    await worker.close_all()

    async def failing(_number: int) -> Any:
        raise ArithmeticError("not of the world")

    worker.prepared = failing  # type: ignore[method-assign, assignment]
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    running = PollWorker(worker, housekeeping, world.clock, lambda _: asyncio.sleep(0.01))
    with pytest.raises(ArithmeticError):
        await running.run(asyncio.Event())
