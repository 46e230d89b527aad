"""Partitions that come with a growth go on from where their parents were at their marks."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from aggregator.drivers.openings import Openings
from aggregator.drivers.standing import UNREADY_AFTER_S, Standing
from aggregator.slice.partition import Partition
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables.meters import logs
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.event import Growth, Layout, Record, RecordKind, encode_mark, encode_pack
from meterline.meter import Aggregation
from meterline.ports import Unavailable
from meterline.usage import SliceId
from meterline.window import HOUR_MS
from tests.unit.aggregator.dropping import DAY_FROM_MS
from tests.unit.aggregator.test_blocks import Blocks
from tests.unit.aggregator.world import Meters, World

FIRST = Growth(1, 2, 1_000)
SECOND = Growth(2, 4, 2_000)


def pack(name: str) -> bytes:
    document = {
        "specversion": "1.0", "id": name, "source": "s", "type": "t", "subject": "s",
        "data": {}, "namespace": "default", "recordedtime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return encode_pack([msgspec.json.encode(document)])


@pytest.fixture
async def grown(world: World) -> AsyncIterator[World]:
    """A log that was made with one partition, and has got two, then four."""
    number = world.log.number
    log = world.log = open_sqlite_log(world.folder / "more", 4, world.clock)
    log.number = number

    async def register(connection: Connection) -> None:
        await connection.execute(logs.insert(), [{"number": number, "id": log.id, "partitions": 1}])

    await world.database.write(register)
    yield world
    await log.close()


async def grow(world: World, *growths: Growth) -> None:
    """The last of these growths, and its marks."""
    log, growth = world.log, growths[-1]
    await world.progress.begin_growth(log.number, Layout(growth.partitions, growths), 7)
    for heir in range(growth.before, growth.partitions):
        await log.put_back(heir, growth.first, [])
    for parent in range(growth.before):
        await log.append(parent, encode_mark(growth.partitions), RecordKind.MARK)


async def test_their_append_times_go_on_from_those_of_their_parents(
    grown: World, fresh_numbers: Iterator[int]
) -> None:
    """Else keys that they take over may be of a later generation than their own, and a copy of an
    older key is not found, though it is within the horizon.
    """
    meters = Meters(0)
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker, log, latest_ms = grown.worker(meters), grown.log, grown.clock.at_ms
    await log.append(0, pack("a"))
    await worker.open(0)
    for growths, parents in (([FIRST], [0]), ([FIRST, SECOND], [0, 1])):
        await grow(grown, *growths)
        for parent in parents:
            await worker.open(parent)
            while await worker.read_some(parent):
                pass
    early = Record(3, SECOND.first, latest_ms - 5_000, RecordKind.PACK, pack("b"), log.id)
    await log.put_back(3, SECOND.first, [early])
    heir = await worker.open(3)
    assert heir.append_ms == latest_ms, "the one before it had no events"
    await worker.read_some(3)
    await worker.seal(heir)
    rows = await grown.usage.slice_events(SliceId(log.number, 3, SECOND.first))
    assert [row.append_ms for row in rows] == [latest_ms]
    await worker.close_all()


async def test_one_that_waits_for_its_parent_does_not_make_a_worker_unready(
    grown: World, fresh_numbers: Iterator[int]
) -> None:
    meters, standing, failed = Meters(0), Standing(), 0
    meters.add(Aggregation.COUNT, next(fresh_numbers))
    worker, time_s = grown.worker(meters), asyncio.get_running_loop().time
    await grow(grown, FIRST)
    prepared = worker.prepared

    async def telling(number: int) -> Partition:
        nonlocal failed
        try:
            return await prepared(number)
        except Unavailable:
            failed += 1
            raise

    worker.prepared = telling  # type: ignore[method-assign]
    standing.failed(1, "the log was away", time_s())
    openings = Openings(worker, standing)
    while failed < 2:
        assert not openings.is_open(1)
        await asyncio.sleep(0.01)
    standing.check(time_s() + UNREADY_AFTER_S)
    await worker.open(0)
    await worker.read_some(0)
    while not openings.is_open(1):  # noqa: ASYNC110 - it is asked as a worker asks, turn by turn
        await asyncio.sleep(0.01)
    await openings.close()
    await worker.close_all()


async def test_a_block_without_the_new_partitions_is_not_read(
    grown: World, fresh_numbers: Iterator[int]
) -> None:
    """What they have would be missing in each answer, but for late events."""
    grown.clock.at_ms = DAY_FROM_MS
    blocks = Blocks(grown, Meters(0))
    meter = blocks.meters.add(Aggregation.SUM, next(fresh_numbers))
    maker = blocks.maker()
    maker.partitions = FIRST.before  # it has not heard of the growth yet
    await grow(grown, FIRST)
    for _ in range(2):
        await blocks.seal()
        grown.clock.at_ms += 2 * HOUR_MS
    assert not await maker.step()
    await blocks.check(meter)
    maker.partitions = FIRST.partitions
    assert await maker.step()
    await blocks.check(meter)
