"""Kafka tells which inbox topics are read, whoever reads them."""

import asyncio
import uuid
from collections.abc import Collection

from aiokafka import AIOKafkaConsumer

from meterline.backends.kafka.inbox_readers import InboxReaders
from tests.contract.log.test_inbox import make_topic


async def tells(
    bootstrap: str, group: str, known: Collection[str], expected: Collection[str]
) -> None:
    """Return once Kafka tells that just these are read and not known."""
    readers = InboxReaders(bootstrap, group, known)
    async with asyncio.timeout(60):
        while True:
            if await readers.unknown() == frozenset(expected):
                break
            await asyncio.sleep(0.1)
    await readers.close()


async def test_topics_that_are_read_and_not_known_are_told(kafka: str) -> None:
    name = uuid.uuid4().hex
    group, topics = f"group_{name}", [f"orders_{name}", f"calls_{name}"]
    for topic in topics:
        await make_topic(kafka, topic, "LogAppendTime")
    await tells(kafka, group, [], [])  # nobody reads
    first, second = (
        AIOKafkaConsumer(topic, bootstrap_servers=kafka, group_id=group) for topic in topics
    )
    await first.start()
    await second.start()
    await tells(kafka, group, [], topics)
    await tells(kafka, group, topics[:1], topics[1:])
    await tells(kafka, group, [*topics, "more"], [])
    await second.stop()
    await tells(kafka, group, [], topics[:1])
    await first.stop()


async def test_a_broker_that_is_away_tells_nothing() -> None:
    readers = InboxReaders("127.0.0.1:1", "group", [])
    assert await readers.unknown() is None
    await readers.close()
