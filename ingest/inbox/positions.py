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
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.subscription_state import Assignment

from meterline.ports import Unavailable

_log: Final = structlog.get_logger("ingest.inbox.consumer")


class Positions:
    """Of one connected consumer, while its topics have these ids.

    Kafka may give the partitions out anew at any moment, beside what is done in here. What the
    consumer has then is where it was committed to begin: nothing that was known of its positions
    holds any more.
    """

    def __init__(self, consumer: AIOKafkaConsumer, ids: Mapping[str, str]) -> None:
        self._consumer = consumer
        self._ids = ids
        self._known: Assignment | None = None  # what is read of it is of these topics
        self._committed: Mapping[TopicPartition, int] = {}

    @property
    def _assigned(self) -> Assignment | None:
        subscription = self._consumer._subscription.subscription  # noqa: SLF001 - a set tells less
        return None if subscription is None else subscription.assignment

    async def settle(self) -> Collection[TopicPartition]:
        """See to it that what is newly assigned is read from where it must be. What was fetched of
        these partitions before is to be left: it is read again.

        Kafka is asked once more where that is: a commit that was on its way when partitions were
        given out may have come behind the answer by which the client began.
        """
        settled: set[TopicPartition] = set()
        while (assigned := self._assigned) is not self._known:
            begins = {} if assigned is None else await self._begins(assigned)
            if self._assigned is assigned:
                for where, begin in begins.items():
                    self._consumer.seek(where, begin)
                self._known, self._committed = assigned, {}
            settled |= begins.keys()
        return settled

    async def _begins(self, assigned: Assignment) -> dict[TopicPartition, int]:
        """The offset that was committed, or the first one where that was another topic's. Nothing
        where none was committed. Offsets without an id, of builds before, are believed.
        """
        coordinator = self._consumer._coordinator  # noqa: SLF001 - the consumer tells no metadata
        found = await coordinator.fetch_committed_offsets(list(assigned.tps))
        committed = {where: entry for where, entry in found.items() if entry.offset >= 0}
        stale = [
            where
            for where, entry in committed.items()
            if entry.metadata and entry.metadata != self._ids[where.topic]
        ]
        begins = {where: entry.offset for where, entry in committed.items()}
        if stale:
            _log.warning("inbox", action="made_anew", topics=sorted({it.topic for it in stale}))
            begins |= await self._consumer.beginning_offsets(stale)
        return begins

    async def commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Commit the next offsets, unless they are as they were, or of what was assigned before."""
        if not reached or reached == self._committed or self._assigned is not self._known:
            return
        offsets = {at: (offset, self._ids[at.topic]) for at, offset in reached.items()}
        await self._consumer.commit(offsets)
        self._committed = reached

    def check(self, ids: Mapping[str, str]) -> None:
        """Raises `Unavailable` where a topic has another id by now."""
        if anew := sorted(topic for topic, found in ids.items() if found != self._ids.get(topic)):
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
