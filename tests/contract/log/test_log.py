"""The contract of the `Log` port, over both adapters."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from meterline.backends.clock import SystemClock
from meterline.backends.kafka.log import open_kafka_log
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.event import Log, Record, RecordKind, record_digest
from meterline.ports import Unsuitable

PARTITIONS = 3
RETENTION_MS = 3_600_000


@dataclass(slots=True)
class Place:
    """Where a log lies, and how to open it with a number of partitions."""

    open_with: Callable[[int], Awaitable[Log]]

    async def open(self) -> Log:
        """The log with the number of partitions that it has."""
        return await self.open_with(PARTITIONS)


@pytest.fixture(params=["sqlite", "kafka"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place without a log, in each adapter."""
    if request.param == "sqlite":

        async def open_folder(partitions: int) -> Log:
            return open_sqlite_log(tmp_path / "log", partitions, SystemClock())

        return Place(open_folder)
    bootstrap = await asyncio.to_thread(request.getfixturevalue, "kafka")
    topic = f"log_{uuid.uuid4().hex}"

    async def open_topic(partitions: int) -> Log:
        return await open_kafka_log(bootstrap, topic, partitions, RETENTION_MS)

    return Place(open_topic)


@pytest.fixture
async def log(place: Place) -> AsyncIterator[Log]:
    """A log with three partitions, empty."""
    opened = await place.open()
    yield opened
    await opened.close()


async def read_all(log: Log, partition: int, offset: int = 0, step: int = 7) -> list[Record]:
    """Every record from `offset`, read in steps."""
    records: list[Record] = []
    while found := await log.read(partition, offset, step):
        records += found
        offset = found[-1].offset + 1
    return records


async def test_an_empty_log_begins_at_its_end(log: Log) -> None:
    for partition in range(PARTITIONS):
        assert await log.begin(partition) == await log.end(partition) == 0
        assert await log.read(partition, 0, 10) == []
    assert log.partitions == PARTITIONS
    assert log.id


async def test_what_was_appended_is_read_in_order(log: Log) -> None:
    before_ms = SystemClock().now_ms()
    sent = [f"record {number}".encode() for number in range(20)]
    for value in sent:
        await log.append(1, value)
    records = await read_all(log, 1)
    after_ms = SystemClock().now_ms()

    assert [record.value for record in records] == sent
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert all(record.partition == 1 for record in records)
    assert all(record.kind is RecordKind.PACK for record in records)
    assert all(record.log_id == log.id for record in records)
    times = [record.append_ms for record in records]
    assert times == sorted(times)
    assert before_ms <= times[0] <= times[-1] <= after_ms
    assert await log.end(1) > offsets[-1]
    assert await log.end(0) == await log.end(2) == 0


async def test_reading_begins_where_it_is_told_and_keeps_to_its_bound(log: Log) -> None:
    for number in range(10):
        await log.append(0, b"%d" % number)
    all_records = await read_all(log, 0)
    third = all_records[3].offset

    assert await log.read(0, third, 4) == all_records[3:7]
    assert await log.read(0, third, 100) == all_records[3:]
    assert await log.read(0, all_records[0].offset, 1) == all_records[:1]
    assert await log.read(0, await log.end(0), 5) == []
    assert await log.read(0, await log.end(0) + 1_000, 5) == []


async def test_partitions_are_read_in_turn(log: Log) -> None:
    for number in range(4):
        await log.append(number % 2, b"%d" % number)
    assert [r.value for r in await log.read(0, 0, 1)] == [b"0"]
    assert [r.value for r in await log.read(1, 0, 1)] == [b"1"]
    assert [r.value for r in await log.read(0, 1, 9)] == [b"2"]
    assert [r.value for r in await log.read(1, 1, 9)] == [b"3"]


async def test_the_kind_of_a_record_is_kept(log: Log) -> None:
    await log.append(0, b"[]")
    await log.append(0, b"{}", RecordKind.REFUSAL)
    kinds = [record.kind for record in await read_all(log, 0)]
    assert kinds == [RecordKind.PACK, RecordKind.REFUSAL]


async def test_the_end_is_above_every_append_that_returned(log: Log) -> None:
    ends: list[int] = []

    async def send(number: int) -> None:
        await log.append(2, b"%d" % number)
        ends.append(await log.end(2))

    await asyncio.gather(*(send(number) for number in range(50)))
    records = await read_all(log, 2)
    assert sorted(record.value for record in records) == sorted(b"%d" % n for n in range(50))
    assert all(end >= 1 for end in ends)
    for number, end in enumerate(sorted(ends), start=1):
        assert sum(record.offset < end for record in records) >= number


async def test_concurrent_appends_are_all_there_once(log: Log) -> None:
    values = [b"%d" % number for number in range(300)]
    await asyncio.gather(*(log.append(n % PARTITIONS, v) for n, v in enumerate(values)))
    found = [r.value for p in range(PARTITIONS) for r in await read_all(log, p)]
    assert sorted(found) == sorted(values)


async def test_large_records_pass(log: Log) -> None:
    values = [bytes([65 + number]) * 900_000 for number in range(3)]
    for value in values:
        await log.append(0, value)
    assert [record.value for record in await read_all(log, 0)] == values


async def test_everything_is_there_after_closing_and_opening(place: Place) -> None:
    first = await place.open()
    await first.append(0, b"one")
    await first.append(2, b"two")
    await first.close()
    again = await place.open()
    try:
        assert again.id == first.id
        assert [record.value for record in await read_all(again, 0)] == [b"one"]
        await again.append(0, b"three")
        assert [record.value for record in await read_all(again, 0)] == [b"one", b"three"]
        assert [record.value for record in await read_all(again, 2)] == [b"two"]
    finally:
        await again.close()


async def test_a_record_has_one_digest_however_often_the_log_is_opened(place: Place) -> None:
    log = await place.open()
    values = [b"a", b"a", b"b", b""]
    for value in values:
        await log.append(2, value)
    first = [record_digest(record) for record in await read_all(log, 2)]
    await log.close()
    log = await place.open()
    assert [record_digest(record) for record in await read_all(log, 2, step=1)] == first
    assert len(set(first)) == len(values), "a copy at another offset is another record"
    await log.close()


async def test_another_number_of_partitions_is_refused(place: Place) -> None:
    await (await place.open()).close()
    with pytest.raises(Unsuitable, match=r"3 partitions, the settings say 4.*set them to 3"):
        await place.open_with(4)


async def test_a_partition_that_is_not_there_is_an_error(log: Log) -> None:
    with pytest.raises(ValueError, match="partition 3"):
        await log.append(PARTITIONS, b"x")


async def test_trimming_twice_or_beyond_the_end_harms_nothing(log: Log) -> None:
    for number in range(5):
        await log.append(0, b"%d" % number)
    end = await log.end(0)
    for _ in range(2):
        await log.trim(0, end + 10, SystemClock().now_ms() + 60_000)
    assert await log.end(0) == end
    await log.append(0, b"next")
    assert [(r.offset, r.value) for r in await read_all(log, 0)][-1] == (end, b"next")
    assert await log.begin(0) <= end
