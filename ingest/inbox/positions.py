"""How far a consumer of the inbox is, and of which topic that is said.

A topic that is deleted and made again under its name has offsets from 0 on once more. What was
committed of the one before says nothing of it, however far it has grown. So each offset is
committed with the id of its topic, which no other topic ever has (Kafka, KIP-516).
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from meterline.ports import Unavailable

_log: Final = structlog.get_logger("ingest.inbox.consumer")


class Positions(ConsumerRebalanceListener):  # type: ignore[misc]
    """Of one connected consumer, while its topics have these ids."""

    def __init__(self, consumer: AIOKafkaConsumer, ids: Mapping[str, str]) -> None:
        self._consumer = consumer
        self._ids = ids
        self._known: set[TopicPartition] = set()  # what was committed of these is of these topics
        self._committed: Mapping[TopicPartition, int] = {}

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Others may commit them meanwhile."""
        del revoked
        self._known.clear()
        self._committed = {}

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """See `back_to_begin`: an error in here would be told to nobody."""

    async def back_to_begin(self) -> Collection[TopicPartition]:
        """Newly assigned partitions of which another topic's offset was committed: they are read
        from their first record on. Offsets without an id, of builds before, are believed.
        """
        fresh = self._consumer.assignment() - self._known
        if not fresh:
            return ()
        coordinator = self._consumer._coordinator  # noqa: SLF001 - the consumer tells no metadata
        committed = await coordinator.fetch_committed_offsets(list(fresh))
        stale = [
            where
            for where, told in committed.items()
            if told.metadata and told.metadata != self._ids.get(where.topic)
        ]
        if stale:
            _log.warning("inbox", action="made_anew", topics=sorted({it.topic for it in stale}))
            for where, begin in (await self._consumer.beginning_offsets(stale)).items():
                self._consumer.seek(where, begin)
        self._known |= fresh
        return stale

    async def commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Commit the next offsets, unless they are as they were."""
        if reached == self._committed:
            return
        ids = {where: self._ids.get(where.topic, "") for where in reached}
        await self._consumer.commit({at: (offset, ids[at]) for at, offset in reached.items()})
        self._committed = reached

    def check(self, ids: Mapping[str, str]) -> None:
        """Raises `Unavailable` where a topic has another id by now."""
        if anew := sorted(topic for topic, told in ids.items() if told != self._ids.get(topic)):
            raise Unavailable(f"inbox topics {', '.join(anew)} were made anew: they are read anew")


async def consumed(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    """The next offset of each partition that the consumer has, as far as it is known by now.

    Unlike the offset after the last record, it is also past what holds no record for us: the
    markers that end transactions, and batches that were aborted.
    """
    positions: dict[TopicPartition, int] = {}
    for where in consumer.assignment():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):  # one not known yet is not waited for
                positions[where] = await consumer.position(where)
    return positions
