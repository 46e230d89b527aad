"""The inbox on a real broker, into the SQLite log: all arrives, and how far it is can be told."""

import asyncio
import contextlib
import json
import sqlite3
import struct
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.record.util import calc_crc32c

from ingest.admission import AdmissionRules
from ingest.inbox.consumer import Inbox, Topics
from ingest.publisher import Publisher
from meterline.backends.clock import SystemClock
from meterline.backends.kafka.inbox import InboxWatch
from meterline.backends.sqlite_log import DATABASE_NAME, SqliteLog, open_sqlite_log
from meterline.event import Event, Unreadable, decode_record
from meterline.limits import CLOCK_SKEW_MS, PRODUCE_DEADLINE_MS
from meterline.ports import Unavailable, Unsuitable

MARGIN_MS = PRODUCE_DEADLINE_MS + CLOCK_SKEW_MS


@dataclass(slots=True)
class Place:
    """A broker's inbox topic and a log."""

    bootstrap: str
    topic: str
    group: str
    log: SqliteLog

    def watch(self) -> InboxWatch:
        return InboxWatch(self.bootstrap, self.group, [self.topic])

    @contextlib.asynccontextmanager
    async def running(self, topics: Topics | None = None) -> AsyncIterator[None]:
        """An inbox at work, of what Kafka says of its topic, or of what it is told to say."""
        publisher = Publisher(self.log, SystemClock())
        watch = self.watch()
        inbox = Inbox(
            self.bootstrap,
            self.group,
            {self.topic: "space"},
            publisher,
            self.log,
            AdmissionRules(self.log.partitions),
            topics or watch,
        )
        task = asyncio.create_task(inbox.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await watch.close()

    async def found(self) -> tuple[list[Event], list[Unreadable]]:
        """What is in the log."""
        events: list[Event] = []
        refused: list[Unreadable] = []
        for partition in range(self.log.partitions):
            for record in await self.log.read(partition, 0, 10_000):
                for event in decode_record(record):
                    if isinstance(event, Event):
                        events.append(event)
                    else:
                        refused.append(event)
        return events, refused

    async def wait_for(self, events: int, refused: int) -> tuple[list[Event], list[Unreadable]]:
        """What is in the log once it is so many."""
        async with asyncio.timeout(60):
            while True:
                found = await self.found()
                if len(found[0]) >= events and len(found[1]) >= refused:
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture
async def place(kafka: str, tmp_path: Path) -> AsyncIterator[Place]:
    name = uuid.uuid4().hex
    await make_topic(kafka, f"inbox_{name}", "LogAppendTime")
    log = open_sqlite_log(tmp_path / "log", 4, SystemClock())
    yield Place(kafka, f"inbox_{name}", f"group_{name}", log)
    await log.close()


async def make_topic(bootstrap: str, topic: str, times: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    settings = {"message.timestamp.type": times}
    await admin.create_topics([NewTopic(topic, 3, 1, topic_configs=settings)])
    await admin.close()


async def until_gone(admin: AIOKafkaAdminClient, topic: str) -> None:
    for _ in range(1_200):
        if topic not in await admin.list_topics():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{topic} is there yet")


async def make_anew(place: Place) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=place.bootstrap)
    await admin.start()
    await admin.delete_topics([place.topic])
    await until_gone(admin, place.topic)
    await admin.close()
    await make_topic(place.bootstrap, place.topic, "LogAppendTime")


async def send(place: Place, *values: bytes, first: int = 0) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=place.bootstrap)
    await producer.start()
    for number, value in enumerate(values):
        await producer.send_and_wait(place.topic, value, partition=(first + number) % 3)
    await producer.stop()


def event(number: int) -> bytes:
    members = {"specversion": "1.0", "id": str(number), "source": "s", "type": "t", "subject": "u"}
    return json.dumps(members).encode()


async def send_with_header(
    producer: AIOKafkaProducer, place: Place, name: bytes, values: Sequence[bytes]
) -> None:
    """One batch to partition 0; the header of its last record has a name that may be no UTF-8."""
    batch = producer.create_batch()
    stand_in = b"Z" * len(name)
    for number, value in enumerate(values, 1):
        headers = [(stand_in.decode(), b"x")] if number == len(values) else []
        batch.append(key=None, value=value, timestamp=None, headers=headers)
    built = batch._build()  # noqa: SLF001 - the client itself writes only good names
    assert built.count(stand_in) == 1
    built[:] = built.replace(stand_in, name)
    struct.pack_into(">I", built, 17, calc_crc32c(memoryview(built)[21:]))
    await (await producer.send_batch(batch, place.topic, partition=0))


async def drained_past(watch: InboxWatch, now_ms: int) -> None:
    """Return once all that is in the inbox is in the log too."""
    async with asyncio.timeout(60):
        drained_ms = await watch.drained_until(now_ms)
        while drained_ms is None or drained_ms < now_ms - MARGIN_MS:
            await asyncio.sleep(0.05)
            drained_ms = await watch.drained_until(now_ms)


async def test_records_become_events_or_refusals_once(place: Place) -> None:
    before_ms = SystemClock().now_ms()
    await send(place, *(event(number) for number in range(60)), b"broken", b"{}")
    async with place.running():
        events, refused = await place.wait_for(60, 2)
        after_ms = SystemClock().now_ms()
        assert sorted(int(e.id) for e in events) == list(range(60))
        assert {e.namespace for e in events} == {"space"}
        assert all(before_ms <= e.recorded_ms <= after_ms for e in events)
        assert sorted(r.field for r in refused) == ["", "id"]
        await send(place, event(60))
        await place.wait_for(61, 2)

    # Another member of the group goes on behind what was committed.
    await send(place, event(61))
    async with place.running():
        events, refused = await place.wait_for(62, 2)
    assert sorted(int(e.id) for e in events) == list(range(62))
    assert len(refused) == 2


async def test_how_far_the_inbox_is(place: Place) -> None:
    watch = place.watch()
    assert await watch.drained_until(1_000_000) is None
    # Nothing was ever sent: all up to the first asking is in the log.
    assert await watch.drained_until(2_000_000) == 1_000_000 - MARGIN_MS

    await send(place, event(1), event(2))
    assert await watch.drained_until(3_000_000) == 2_000_000 - MARGIN_MS  # asked before the sending
    for now_ms in (4_000_000, 5_000_000):
        assert await watch.drained_until(now_ms) == 2_000_000 - MARGIN_MS
    async with place.running():
        await place.wait_for(2, 0)
        async with asyncio.timeout(60):
            drained_ms = await watch.drained_until(6_000_000)
            while drained_ms != 3_000_000 - MARGIN_MS:
                await asyncio.sleep(0.05)
                drained_ms = await watch.drained_until(6_000_000)
    await watch.close()


async def test_a_topic_that_is_made_anew_is_not_waited_for_as_it_was(place: Place) -> None:
    watch = place.watch()
    await send(place, *(event(number) for number in range(9)))
    assert await watch.drained_until(1_000_000) is None
    await make_anew(place)
    await send(place, event(20))
    async with place.running():
        await place.wait_for(1, 0)
        await drained_past(watch, 2_000_000)
    await watch.close()


async def test_what_was_committed_of_a_topic_before_it_was_made_anew_drains_nothing(
    place: Place,
) -> None:
    await send(place, event(1), event(2))
    await commit(place, 1_000, "")
    watch = place.watch()
    for now_ms in (1_000_000, 2_000_000, 3_000_000):
        assert await watch.drained_until(now_ms) is None
    async with place.running():
        await place.wait_for(2, 0)
        await drained_past(watch, 4_000_000)
    await watch.close()


async def commit(place: Place, offset: int, topic_id: str) -> None:
    """What an inbox commits of a topic with this id."""
    committed = {TopicPartition(place.topic, n): (offset, topic_id) for n in range(3)}
    member = AIOKafkaConsumer(
        bootstrap_servers=place.bootstrap, group_id=place.group, enable_auto_commit=False
    )
    await member.start()
    member.assign(list(committed))
    await member.commit(committed)
    await member.stop()


async def test_a_topic_made_anew_that_has_grown_is_read_from_its_first_record(
    place: Place,
) -> None:
    await send(place, *(event(number) for number in range(6)))
    async with place.running():
        await place.wait_for(6, 0)
        watch = place.watch()
        await drained_past(watch, 1_000_000)
        before = await watch.topic_ids()
    await make_anew(place)
    await send(place, *(event(number) for number in range(6, 21)))
    assert (await watch.topic_ids()).keys() == before.keys()
    assert await watch.topic_ids() != before
    await commit(place, 2, before[place.topic])  # Kafka itself may have forgotten it
    for now_ms in (2_000_000, 3_000_000):
        assert await watch.drained_until(now_ms) == 1_000_000 - MARGIN_MS
    async with place.running():
        events, _ = await place.wait_for(21, 0)
        assert sorted(int(e.id) for e in events) == list(range(21))
        await drained_past(watch, 4_000_000)
    await watch.close()


async def test_a_topic_that_is_another_one_while_it_is_read_is_read_again(place: Place) -> None:
    class Renamed:
        async def check(self) -> None:
            """It can be read."""

        async def topic_ids(self) -> Mapping[str, str]:
            events, _ = await place.found()
            return {place.topic: "before" if len(events) < 6 else "anew"}

    await send(place, *(event(number) for number in range(6)))
    async with place.running(Renamed()):
        events, _ = await place.wait_for(12, 0)
    assert sorted(int(e.id) for e in events) == sorted([*range(6)] * 2)


async def test_what_was_committed_of_another_topic_drains_nothing(place: Place) -> None:
    await send(place, event(1), event(2))
    watch = place.watch()
    assert await watch.drained_until(1_000_000) is None
    await commit(place, 1, "of-a-topic-before")
    assert await watch.drained_until(2_000_000) is None
    (topic_id,) = (await watch.topic_ids()).values()
    await commit(place, 1, topic_id)
    assert await watch.drained_until(3_000_000) == 1_000_000 - MARGIN_MS
    await watch.close()


async def test_offsets_of_a_build_before_are_believed(place: Place) -> None:
    await send(place, *(event(number) for number in range(6)))
    await commit(place, 1, "")
    async with place.running():
        await place.wait_for(3, 0)
        watch = place.watch()
        await drained_past(watch, 1_000_000)
        await watch.close()
    events, _ = await place.found()
    assert sorted(int(e.id) for e in events) == [3, 4, 5]


async def test_transactions_of_senders_do_not_hold_back_completeness(place: Place) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=place.bootstrap, transactional_id=f"sender_{place.topic}"
    )
    await producer.start()
    watch = place.watch()
    async with place.running():
        async with producer.transaction():
            await producer.send(place.topic, event(1), partition=0)
        await place.wait_for(1, 0)
        await drained_past(watch, 1_000_000)  # nothing follows the marker of its end

        await producer.begin_transaction()
        await producer.send_and_wait(place.topic, event(2), partition=1)
        reached_ms = await watch.drained_until(2_000_000)
        for now_ms in (3_000_000, 4_000_000, 5_000_000):
            await asyncio.sleep(0.6)
            # It may yet be committed, with a time of append that is past.
            assert await watch.drained_until(now_ms) == reached_ms == 1_000_000 - MARGIN_MS
        await producer.abort_transaction()
        await drained_past(watch, 6_000_000)

        async with producer.transaction():
            await producer.send(place.topic, event(3), partition=1)
        events, refused = await place.wait_for(2, 0)
        assert sorted(e.id for e in events) == ["1", "3"]
        assert refused == []
        await drained_past(watch, 7_000_000)
    await producer.stop()
    await watch.close()


async def test_records_that_cannot_be_decoded_are_passed_and_refused(place: Place) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=place.bootstrap)
    await producer.start()
    await producer.send_and_wait(place.topic, event(0), partition=0, headers=[("ce_x", None)])
    await send_with_header(producer, place, b"\xff\xfe\xff\xfe", [event(1), event(2), b"lost"])
    await send_with_header(producer, place, b"\xff\xfe\xff\xfe", [b"lost, too"])
    await send(place, event(3), event(4), event(5))
    async with place.running():
        events, refused = await place.wait_for(6, 2)
        assert sorted(int(e.id) for e in events) == list(range(6))
        assert sorted(r.field for r in refused) == ["headers", "headers"]
        told = sorted((r.namespace, r.source, r.id) for r in refused)
        assert told == [("space", place.topic, "0/3"), ("space", place.topic, "0/4")]
        watch = place.watch()
        await drained_past(watch, 1_000_000)
        await watch.close()
        await producer.send_and_wait(place.topic, event(6), partition=0)
        await place.wait_for(7, 2)
    await producer.stop()


async def test_the_inbox_waits_for_a_log_that_is_away(place: Place, tmp_path: Path) -> None:
    await place.log.append(0, b"[]")
    trigger = (
        "CREATE TRIGGER full BEFORE INSERT ON records_{0} "
        "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    breaker = sqlite3.connect(tmp_path / "log" / DATABASE_NAME, isolation_level=None)
    for partition in range(4):
        breaker.execute(trigger.format(partition).replace("full", f"full{partition}"))
    await send(place, event(1), b"broken")
    async with place.running():
        watch = place.watch()
        await watch.drained_until(1_000_000)
        await asyncio.sleep(2)
        assert await place.found() == ([], [])
        assert await watch.drained_until(2_000_000) is None
        for partition in range(4):
            breaker.execute(f"DROP TRIGGER full{partition}")
        await place.wait_for(1, 1)
        await watch.close()
    breaker.close()


async def test_a_topic_with_times_of_its_senders_is_refused(kafka: str) -> None:
    topic = f"inbox_{uuid.uuid4().hex}"
    await make_topic(kafka, topic, "CreateTime")
    watch = InboxWatch(kafka, "group", [topic])
    told = ""
    async with asyncio.timeout(60):
        while "LogAppendTime" not in told:  # the brokers learn of a new topic one by one
            with pytest.raises((Unsuitable, Unavailable)) as caught:
                await watch.check()
            told = str(caught.value)
    assert topic in told
    with pytest.raises(Unsuitable, match="there is no inbox topic"):
        await InboxWatch(kafka, "group", [f"missing_{topic}"]).check()
    await watch.close()
