"""What a worker on Faust does for each partition is not held up by what another one waits for, and
Faust itself waits where too much would be held.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.completeness import Completeness
from aggregator.drivers.faust_worker import FaustWorker
from aggregator.drivers.held_records import HeldBounds
from aggregator.drivers.membership import Membership
from aggregator.drivers.poll_worker import PollWorker
from aggregator.housekeeping import Housekeeping
from meterline.event import Record
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from tests.unit.aggregator.test_catch_up import HORIZON_MS, Brought, Watching, counted, until
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered


class Stream:
    """What Faust brings, in its order."""

    def __init__(self, events: Sequence[Brought]) -> None:
        self._left = list(events)
        self.taken = 0

    def noack(self) -> "Stream":
        return self

    def events(self) -> "Stream":
        return self

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Brought:
        if not self._left:
            raise StopAsyncIteration
        self.taken += 1
        return self._left.pop(0)


class Assigned(FaustWorker):
    """A worker of these partitions, that a test turns by hand."""

    numbers: Collection[int] = range(PARTITIONS)

    def _assigned(self) -> set[int]:
        return set(self.numbers)

    async def turn(self) -> None:
        await self._tick_alone()

    async def revoked(self, *numbers: int) -> None:
        await self._on_revoked(None, [SimpleNamespace(partition=number) for number in numbers])

    async def work(self, stream: Stream) -> None:
        await self._agent(stream)

    def stop(self) -> None:
        self._stopping = True

    @property
    def failure(self) -> BaseException | None:
        assert self._failed is not None
        return self._failed.exception() if self._failed.done() else None


class Parts:
    """A worker on Faust, and the world it is in. The seen store of partition 0 does not come up
    before it is let.
    """

    def __init__(self, world: World, meters: Meters, watching: Watching, folder: Path) -> None:
        self.world = world
        self.watching = watching
        watching.held = {0}
        self.aggregator = world.worker(meters, horizon_ms=HORIZON_MS)
        self.housekeeping = Housekeeping(self.aggregator, Completeness(self.aggregator, 0), AT_ONCE)
        membership = Membership("group", "127.0.0.1:9", "topic", str(folder / "faust"))
        self.worker = Assigned(
            self.aggregator,
            self.housekeeping,
            world.clock,
            lambda it: it.record,
            membership,
            bounds=HeldBounds(1, 1),
        )

    async def brought(self, number: int) -> list[Brought]:
        records = await self.world.log.read(number, 0, await self.world.log.end(number))
        return [
            Brought(
                SimpleNamespace(
                    record=record, value=b"", partition=record.partition, offset=record.offset
                )
            )
            for record in records
        ]

    async def opened(self, *numbers: int) -> None:
        while self.aggregator.partitions.keys() != set(numbers):
            await self.worker.turn()
            await asyncio.sleep(0.01)


@pytest.fixture
async def parts(world: World, fresh_numbers: Iterator[int], tmp_path: Path) -> Parts:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    return Parts(world, meters, await counted(world, meters), tmp_path)


async def ended(parts: Parts) -> None:
    parts.watching.free.set()
    await parts.worker._openings.close()  # noqa: SLF001 - `run` does it
    await parts.aggregator.close_all()


@pytest.mark.parametrize("bounds", [HeldBounds(1, 1), HeldBounds(1)], ids=["both", "ahead"])
@pytest.mark.parametrize("by", ["opened", "revoked", "stopped"])
async def test_faust_waits_where_a_partition_that_is_not_open_holds_too_much(
    parts: Parts, by: str, bounds: HeldBounds
) -> None:
    parts.worker._bounds = bounds  # noqa: SLF001
    events = [*await parts.brought(0), *await parts.brought(1)]
    stream = Stream(events)
    await parts.opened(1)
    working = asyncio.create_task(parts.worker.work(stream))
    await until(lambda: stream.taken == 2)
    for _ in range(5):
        await parts.worker.turn()  # it does not wait with the lock
        await asyncio.sleep(0.01)
    assert stream.taken == 2 < len(events)
    if by == "opened":
        parts.watching.free.set()
        await parts.opened(0, 1)
        await parts.worker.turn()
    elif by == "revoked":
        parts.worker.numbers = {1}
        await parts.worker.revoked(0)
        while not working.done():
            await parts.worker.turn()  # what was fetched before is let go of
            await asyncio.sleep(0.01)
    else:
        parts.worker.stop()
    await working
    assert stream.taken == len(events)
    await ended(parts)


async def test_others_are_read_past_faust_while_it_is_kept_from_bringing_more(
    parts: Parts,
) -> None:
    """A partition that is not open may wait for just that: a new one for its parent."""
    stream = Stream(await parts.brought(0))
    await parts.opened(1)
    working = asyncio.create_task(parts.worker.work(stream))
    await until(lambda: stream.taken == 2)
    await parts.world.send(numbered(120, 200))
    end = await parts.world.log.end(1)
    await parts.worker.turn()
    assert parts.aggregator.partitions[1].next_offset == end
    assert stream.taken == 2
    parts.worker.stop()
    await working
    await ended(parts)


@pytest.mark.parametrize("only", [True, False])
async def test_others_are_read_past_faust_while_it_brings_only_what_is_not_counted_now(
    parts: Parts, *, only: bool
) -> None:
    """It hands on all that it has fetched of one partition before anything of the next."""
    held = await parts.brought(0)
    parts.worker._bounds = HeldBounds(len(held), len(held))  # noqa: SLF001 - it does not wait
    await parts.opened(1)
    before = parts.aggregator.partitions[1].next_offset
    await parts.world.send(numbered(120, 160))
    await parts.world.send(numbered(160, 200))
    end = await parts.world.log.end(1)
    assert end > before + 1
    follows = (await parts.brought(1))[before : before + 1]
    await parts.worker.work(Stream(held if only else [*held, *follows]))
    for _ in range(3):
        await parts.worker.turn()
    assert parts.aggregator.partitions[1].next_offset == (end if only else before + 1)
    await ended(parts)


async def test_what_the_log_has_of_a_partition_that_is_taken_on_is_read_without_faust(
    parts: Parts,
) -> None:
    await parts.world.send(numbered(120, 200))
    end = await parts.world.log.end(1)
    await parts.opened(1)
    await parts.worker.turn()
    assert parts.aggregator.partitions[1].next_offset == end
    await ended(parts)


async def test_the_pause_between_turns_ends_when_a_partition_is_prepared(parts: Parts) -> None:
    await parts.opened(1)
    pausing = asyncio.create_task(parts.worker._openings.pause(3_600))  # noqa: SLF001
    await parts.worker._openings.pause(0)  # noqa: SLF001
    assert not pausing.done()
    parts.watching.free.set()
    await pausing
    await parts.worker.turn()
    assert parts.aggregator.partitions.keys() == {0, 1}
    await ended(parts)


async def test_a_rebalance_gives_up_only_what_is_assigned_to_others_then(parts: Parts) -> None:
    await parts.opened(1)
    await until(lambda: 0 in parts.aggregator.catching_up)
    asked = len(parts.watching.asked)
    await parts.worker.revoked(0, 1)
    for event in await parts.brought(1):
        await parts.worker._take(event)  # noqa: SLF001 - it sees what was revoked
    assert 0 in parts.aggregator.catching_up
    await parts.opened(1)
    assert {span.partition for span, _ in parts.watching.asked[asked:]} <= {1}
    parts.worker.numbers = {1}
    await parts.worker.turn()
    await until(lambda: 0 not in parts.aggregator.catching_up)
    assert parts.worker._openings.numbers == set()  # noqa: SLF001
    await ended(parts)


def unreadable(world: World, number: int) -> None:
    """Of this partition the log has no leader."""
    read = world.log.read

    async def reading(partition: int, offset: int, limit: int) -> Sequence[Record]:
        if partition == number:
            raise Unavailable(f"partition {number} has no leader")
        return await read(partition, offset, limit)

    world.log.read = reading  # type: ignore[method-assign, assignment]


async def test_others_are_read_and_flushed_while_the_log_of_one_is_away(parts: Parts) -> None:
    parts.watching.free.set()
    await parts.opened(0, 1)
    ends = [await parts.world.log.end(number) for number in range(PARTITIONS)]
    await parts.world.send(numbered(120, 200))
    later = [await parts.world.log.end(number) for number in range(PARTITIONS)]
    unreadable(parts.world, 0)
    for number in range(PARTITIONS):
        parts.worker._fed_end[number] = later[number]  # noqa: SLF001 - Faust brought nothing
    for _ in range(2):
        with pytest.raises(Unavailable, match="partition 0 has no leader"):
            await parts.worker.turn()
    assert parts.aggregator.partitions[0].next_offset == ends[0]
    assert parts.aggregator.partitions[1].next_offset == later[1]
    await parts.aggregator.settle()
    await until(lambda: not parts.aggregator._writer.busy)  # noqa: SLF001
    await parts.aggregator.settle()
    assert parts.aggregator.partitions[1].flushed_end == later[1]
    await ended(parts)


async def test_an_embedded_worker_reads_the_others_as_well(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker, stop = world.worker(meters), asyncio.Event()
    housekeeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE)
    await world.send(numbered(0, 40))
    for number in range(PARTITIONS):
        await worker.open(number)
    unreadable(world, 0)
    running = PollWorker(worker, housekeeping, world.clock, lambda _: asyncio.sleep(0.01))
    working = asyncio.create_task(running.run(stop))
    await until(lambda: 1 in worker.partitions and worker.partitions[1].flushed_end == 1)
    stop.set()
    await working
