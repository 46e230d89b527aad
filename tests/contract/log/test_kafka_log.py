"""What only the log on Kafka does: its topic, and brokers that die, freeze and come back."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from meterline.backends.kafka.asking import fetch
from meterline.backends.kafka.growth import AGGREGATOR, older_members
from meterline.backends.kafka.log import TOPIC_LOOK_S, KafkaLog, open_kafka_log
from meterline.backends.kafka.topic import Topic, inspect_topic
from meterline.backends.kafka.topic_settings import Replicas
from meterline.event import Growth, Layout, RecordKind
from meterline.ports import Unavailable, Unsuitable
from tests.services.kafka import local_kafka
from tests.services.local import LocalService
from tests.services.service import Service

RETENTION_MS = 3_600_000


@pytest.fixture
async def admin(kafka: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await client.start()
    yield client
    await client.close()


def fresh_topic() -> str:
    return f"log_{uuid.uuid4().hex}"


async def values(log: KafkaLog, partition: int = 0) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while records := await log.read(partition, offset, 100):
        found += [record.value for record in records]
        offset = records[-1].offset + 1
    return found


async def test_a_topic_with_other_settings_is_refused_by_name(
    kafka: str, admin: AIOKafkaAdminClient
) -> None:
    topic = fresh_topic()
    settings = {"cleanup.policy": "compact", "retention.ms": "1000", "max.message.bytes": "5000"}
    await admin.create_topics([NewTopic(topic, 2, 1, topic_configs=settings)])
    told = ""
    async with asyncio.timeout(60):
        while "cannot hold a log" not in told:  # the brokers learn of a new topic one by one
            with pytest.raises((Unsuitable, Unavailable)) as caught:
                await open_kafka_log(kafka, topic, 2, RETENTION_MS)
            told = str(caught.value)
    assert topic in told
    for setting in (
        "message.timestamp.type=LogAppendTime",
        "cleanup.policy=delete",
        "max.message.bytes=",
        "retention.ms=3600000",
    ):
        assert setting in told


async def test_a_consumer_that_nobody_reads_by_asks_for_nothing(kafka: str) -> None:
    topic = fresh_topic()
    log = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka, enable_auto_commit=False, auto_offset_reset="none"
    )
    await consumer.start()
    try:
        for place in (0, 1, 0):
            where, first = TopicPartition(topic, place), await log.end(place)
            for value in (b"a", b"b"):
                await log.append(place, value)
            found = [await fetch(consumer, where, offset, 1) for offset in (first, first + 1)]
            assert [record.value for records in found for record in records] == [b"a", b"b"]
            assert consumer.paused() == {where}
            assert await fetch(consumer, where, first + 2, 1) == []
            assert consumer.paused() == {where}
    finally:
        await consumer.stop()
        await log.close()


async def test_a_topic_made_anew_is_another_log(kafka: str, admin: AIOKafkaAdminClient) -> None:
    topic = fresh_topic()
    first = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    await first.append(0, b"a")
    await first.close()
    again = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    assert again.id == first.id
    await again.close()
    await admin.delete_topics([topic])
    async with asyncio.timeout(60):
        topics = await admin.list_topics()
        while topic in topics:
            await asyncio.sleep(0.1)
            topics = await admin.list_topics()
    other = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    assert other.id != first.id
    await other.append(0, b"b")
    (record,) = await other.read(0, 0, 10)
    assert record.log_id == other.id
    await other.close()


async def test_a_record_of_another_writer_is_read_as_it_is(kafka: str) -> None:
    log = await open_kafka_log(kafka, fresh_topic(), 1, RETENTION_MS)
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    await producer.send_and_wait(log.topic, b"foreign", partition=0)
    await producer.send_and_wait(log.topic, None, key=b"k", partition=0)
    await producer.stop()
    records = await log.read(0, 0, 10)
    assert [(r.kind, r.value, r.log_id) for r in records] == [
        (RecordKind.PACK, b"foreign", ""),
        (RecordKind.PACK, b"", ""),
    ]
    await log.close()


async def test_gaps_that_transactions_leave_are_passed(kafka: str) -> None:
    log = await open_kafka_log(kafka, fresh_topic(), 1, RETENTION_MS)
    await log.append(0, b"one")
    producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=f"t{uuid.uuid4().hex}")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait(log.topic, b"two", partition=0)
    await producer.stop()
    await log.append(0, b"three")
    assert await values(log) == [b"one", b"two", b"three"]
    assert await log.end(0) == 4  # the marker has an offset too
    await log.close()


async def test_a_topic_that_was_made_anew_takes_nothing_in_under_the_old_id(
    kafka: str, admin: AIOKafkaAdminClient
) -> None:
    log = await open_kafka_log(kafka, fresh_topic(), 1, RETENTION_MS)
    await log.append(0, b"before")
    await admin.delete_topics([log.topic])
    other = None
    async with asyncio.timeout(60):
        while other is None or other.id == log.id:  # deleting it takes a while
            await asyncio.sleep(0.1)
            with contextlib.suppress(Unavailable):
                other = await open_kafka_log(kafka, log.topic, 1, RETENTION_MS)
    await asyncio.sleep(TOPIC_LOOK_S)
    for _ in range(2):
        with pytest.raises(Unavailable, match="was made anew"):
            await log.append(0, b"after")
    assert await values(other) == []
    await log.close()
    await other.close()


async def test_a_topic_gets_more_partitions_while_it_is_used(kafka: str) -> None:
    topic = fresh_topic()
    log = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    gateway = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    await gateway.append(1, b"before")
    layout = Layout(6, (Growth(2, 6, 1_000),))
    log.lay_out(layout)
    await log.grow(6)
    await log.grow(6)  # again, as after a crash
    await asyncio.sleep(TOPIC_LOOK_S)
    assert gateway.routes == 2
    await gateway.append(0, b"between")
    assert gateway.routes == 6, "whoever appends knows it within a second"
    await gateway.append(5, b"after")
    await log.append(5, b"[]", RecordKind.MARK)

    found = await log.read(5, 0, 9)
    assert [(it.offset, it.value) for it in found] == [(1_000, b"after"), (1_001, b"[]")]
    assert found[1].kind is RecordKind.MARK
    assert (await log.begin(5), await log.end(5)) == (1_000, 1_002)
    assert (await log.begin(4), await log.end(4)) == (1_000, 1_000)
    assert await log.end(1) == 1
    assert (log.home(5, 999), log.home(5, 1_000)) == (1, 5)
    again = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    assert (again.partitions, again.routes) == (6, 6)
    for one in (log, gateway, again):
        await one.close()


async def test_a_gateway_whose_clock_stood_still_knows_by_append_times(kafka: str) -> None:
    """Its machine was suspended: since it looked, no time has passed for it."""
    topic = fresh_topic()
    log = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    gateway = await open_kafka_log(kafka, topic, 2, RETENTION_MS, now_s=lambda: 7.0)
    await gateway.append(0, b"before")
    await log.grow(6)
    await gateway.append(0, b"soon after")
    assert gateway.routes == 2
    await asyncio.sleep(TOPIC_LOOK_S)
    await gateway.append(0, b"later")
    assert gateway.routes == 6
    for one in (log, gateway):
        await one.close()


async def test_a_topic_is_asked_whether_it_may_grow_and_stays_as_it_is(kafka: str) -> None:
    topic = fresh_topic()
    log = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    assert [await log.ask_to_grow(number) for number in (6, 2, 1)] == [2, 2, 2]
    assert (await inspect_topic(kafka, topic, {})).topic == Topic(topic, log.id, 2, Replicas(1, 1))
    await log.close()


async def test_partitions_that_are_no_multiple_take_no_event_in(
    kafka: str, admin: AIOKafkaAdminClient
) -> None:
    topic = fresh_topic()
    log = await open_kafka_log(kafka, topic, 2, RETENTION_MS)
    await log.append(0, b"before")
    await admin.create_partitions({topic: NewPartitions(3)})
    await asyncio.sleep(TOPIC_LOOK_S)
    with pytest.raises(Unavailable, match="another tool gave the topic 3"):
        await log.append(0, b"between")
    await log.grow(4)
    await asyncio.sleep(TOPIC_LOOK_S)
    await log.append(0, b"after")
    assert log.routes == 4
    await log.close()


async def test_aggregators_of_releases_that_know_of_no_growth_are_found(kafka: str) -> None:
    topic, group = fresh_topic(), fresh_topic()
    await (await open_kafka_log(kafka, topic, 2, RETENTION_MS)).close()
    members = [
        AIOKafkaConsumer(topic, bootstrap_servers=kafka, group_id=group, client_id=name)
        for name in (AGGREGATOR, "faust-0.15.3")
    ]
    await asyncio.gather(*(member.start() for member in members))
    assert await older_members(kafka, group, {}) == ["127.0.0.1"]
    await members[1].stop()
    assert await older_members(kafka, group, {}) == []
    await members[0].stop()


async def test_a_log_with_fewer_partitions_than_wanted_is_refused_with_the_way_on(
    kafka: str,
) -> None:
    topic = fresh_topic()
    await (await open_kafka_log(kafka, topic, 2, RETENTION_MS)).close()
    with pytest.raises(Unsuitable, match="migrate --partitions 4"):
        await open_kafka_log(kafka, topic, 4, RETENTION_MS)


async def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="no answer in time"):
        await open_kafka_log("127.0.0.1:1", "log", 1, RETENTION_MS)


async def test_a_killed_broker_loses_nothing_acknowledged(kafka_service: Service) -> None:
    topic = fresh_topic()
    log = await open_kafka_log(kafka_service.url, topic, 1, RETENTION_MS, deadline_ms=1_500)
    acknowledged: list[bytes] = []
    unknown: list[bytes] = []
    ended = asyncio.Event()

    async def send() -> None:
        number = 0
        while not ended.is_set() or len(acknowledged) < 20:
            value = b"%d" % number
            number += 1
            try:
                await log.append(0, value)
                acknowledged.append(value)
            except Unavailable:
                unknown.append(value)
                await asyncio.sleep(0.05)

    sender = asyncio.create_task(send())
    await asyncio.sleep(0.5)
    await asyncio.to_thread(kafka_service.kill)
    await asyncio.sleep(2.5)
    with pytest.raises(Unavailable):
        await log.end(0)
    await asyncio.to_thread(kafka_service.start)
    before = len(acknowledged)
    async with asyncio.timeout(120):
        while len(acknowledged) < before + 20:  # noqa: ASYNC110 - the sender knows nothing of it
            await asyncio.sleep(0.1)
    ended.set()
    await sender
    assert unknown, "the broker was away for longer than the deadline"
    await log.close()
    patient = await open_kafka_log(kafka_service.url, topic, 1, RETENTION_MS)
    found = await values(patient)
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))
    assert await patient.end(0) >= len(acknowledged)
    await patient.close()


@pytest.fixture
async def freezer() -> AsyncIterator[LocalService]:
    """A broker of its own, as a local process: one that others use must not be frozen."""
    service = await asyncio.to_thread(local_kafka, print)
    await asyncio.to_thread(service.start)
    yield service
    await asyncio.to_thread(service.stop)


async def test_a_frozen_broker_is_unavailable_and_what_was_given_up_stays_out(
    freezer: LocalService,
) -> None:
    patient = await open_kafka_log(freezer.url, fresh_topic(), 2, RETENTION_MS)
    await patient.append(0, b"before")
    log = await open_kafka_log(freezer.url, patient.topic, 2, RETENTION_MS, deadline_ms=1_000)
    freezer.freeze()
    try:
        with pytest.raises(Unavailable, match="in time"):
            await log.append(0, b"on its way")  # its bytes may lie in the broker's socket
        for number in range(3):
            with pytest.raises(Unavailable):
                await log.append(1, b"given up %d" % number)
    finally:
        freezer.thaw()
    async with asyncio.timeout(120):
        while True:
            try:
                await log.append(1, b"after")
                break
            except Unavailable:
                await asyncio.sleep(0.1)
    await log.close()
    assert await values(patient, 0) in ([b"before"], [b"before", b"on its way"])
    assert set(await values(patient, 1)) == {b"after"}, "nothing of what was given up before"
    await patient.close()
