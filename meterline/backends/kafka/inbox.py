"""How far the inbox topics are in the log: their part in completeness (docs/architecture.md,
"Completeness").

A fact about Kafka, whoever asks: the ends of all inbox partitions, asked of their leaders, are
compared with the offsets that the inbox's group committed, which it does only once the records are
in the log.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from meterline.backends.kafka.topic import check_inbox_topic, described, started
from meterline.limits import CLOCK_SKEW_MS, LOG_TIMEOUT_S, PRODUCE_DEADLINE_MS
from meterline.ports import Unavailable

logger = structlog.get_logger()
Offsets = Mapping[TopicPartition, int]
# A partition that is added to an inbox topic is known before anything in it could be claimed.
METADATA_AGE_MS: Final = PRODUCE_DEADLINE_MS // 2


def _made_anew(waited: Offsets, committed: Offsets, ends: Offsets) -> set[str]:
    """The topics that were deleted and made again: an end is less than it was, or than what was
    committed. What was waited for of these is gone, and what was committed says nothing of them.
    One that has grown since has another id.
    """
    before = {where: max(end, committed[where]) for where, end in waited.items()}
    return {where.topic for where, end in before.items() if ends.get(where, 0) < end}


class InboxWatch:
    """Answers up to when every record of the inbox topics is in the log.

    The aggregator asks *before* it fetches the end of a partition of the log, and claims
    completeness up to at most that: what the inbox brought in by then lies below that end.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        security: Mapping[str, Any] | None = None,
        *,
        margin_ms: int = PRODUCE_DEADLINE_MS + CLOCK_SKEW_MS,
        timeout_s: float = LOG_TIMEOUT_S,
    ) -> None:
        self._timeout_ms = int(timeout_s * 1_000)
        self._margin_ms = margin_ms
        self._bootstrap = bootstrap
        self._group = group
        self._topics = tuple(topics)
        self._security = security or {}
        self._consumer: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient | None = None
        self._ends: dict[TopicPartition, int] | None = None
        self._ids: Mapping[str, str] = {}  # of the topics with these ends
        self._asked_ms = 0
        self._drained_ms: int | None = None

    async def drained_until(self, now_ms: int) -> int | None:
        """The instant up to which the log has all that was appended to the inbox; None: not known.

        Cheap enough for once a second. Raises `Unavailable`.
        """
        try:
            if self._ends is None:
                ends, begins = await self._borders()
                self._await(ends, begins, await self._topic_ids(), now_ms)
                return self._drained_ms
            committed = await self._committed(self._ends)
            # Behind what was committed: that lies below the ends of now, if they are of one topic.
            ends, begins = await self._borders()
            ids = await self._topic_ids()
            anew = _made_anew(self._ends, committed, ends)
            anew |= {topic for topic, found in ids.items() if found != self._ids.get(topic)}
            if anew:
                logger.warning("inbox", action="made_anew", topics=sorted(anew))
            elif all(committed[where] >= end for where, end in self._ends.items()):
                # A record may have its time some time before it is below the end: the same margin
                # as for the log itself.
                self._drained_ms = self._asked_ms - self._margin_ms
            else:
                return self._drained_ms
            self._await(ends, begins, ids, now_ms)
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise Unavailable(f"inbox topics at {self._bootstrap}: {error!r}") from error
        return self._drained_ms

    async def check(self) -> None:
        """Raises `Unsuitable` with words for a topic that cannot be an inbox, and `Unavailable`."""
        for topic in self._topics:
            await check_inbox_topic(self._bootstrap, topic, self._security)

    async def close(self) -> None:
        """Let go of connections."""
        consumer, self._consumer = self._consumer, None
        admin, self._admin = self._admin, None
        if consumer is not None:
            await consumer.stop()
        if admin is not None:
            await admin.close()

    async def topic_ids(self) -> Mapping[str, str]:
        """See `ingest.inbox.consumer.Topics`."""
        try:
            return await self._topic_ids()
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise Unavailable(f"inbox topics at {self._bootstrap}: {error!r}") from error

    async def _topic_ids(self) -> Mapping[str, str]:
        admin = self._admin or await self._asking()
        ids: dict[str, str] = {}
        for name in self._topics:
            topic = await described(admin, name)
            if topic is None:
                raise Unavailable(f"there is no inbox topic {name} at {self._bootstrap} now")
            ids[name] = topic.id
        return ids

    def _await(self, ends: Offsets, begins: Offsets, ids: Mapping[str, str], now_ms: int) -> None:
        """Wait for the ends that were asked for at `now_ms`, of partitions that are not empty."""
        self._ids = ids
        self._ends = {where: end for where, end in ends.items() if end > begins[where]}
        self._asked_ms = now_ms

    async def _borders(self) -> tuple[Offsets, Offsets]:
        """The end of each inbox partition, and its oldest record, as its leader says now."""
        consumer = self._consumer or await self._connected()
        partitions = [
            TopicPartition(topic, number)
            for topic in self._topics
            for number in await consumer._client._wait_on_metadata(topic)  # noqa: SLF001
        ]
        ends = await consumer.end_offsets(partitions)
        return ends, await consumer.beginning_offsets(partitions)

    async def _committed(self, ends: Offsets) -> Offsets:
        """What the inbox's group committed of these partitions, as long as their topics are those
        that are waited for; below 0 where nothing.
        """
        if not ends:
            return {}
        admin = self._admin or await self._asking()
        found = await admin.list_consumer_group_offsets(self._group, partitions=list(ends))
        return {at: found[at].offset if self._is_of(at, found[at]) else -1 for at in ends}

    def _is_of(self, where: TopicPartition, entry: OffsetAndMetadata) -> bool:
        """Whether an offset was committed of the topic that is waited for. Builds before did not
        say of which one.
        """
        return not entry.metadata or entry.metadata == self._ids.get(where.topic)

    async def _asking(self) -> AIOKafkaAdminClient:
        self._admin = AIOKafkaAdminClient(
            bootstrap_servers=self._bootstrap,
            request_timeout_ms=self._timeout_ms,
            **self._security,
        )
        await self._admin.start()
        return self._admin

    async def _connected(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            metadata_max_age_ms=METADATA_AGE_MS,
            request_timeout_ms=self._timeout_ms,
            **self._security,
        )
        self._consumer = await started(consumer)
        return consumer
