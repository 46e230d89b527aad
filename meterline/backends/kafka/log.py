"""The log on Kafka: the distributed set-up's (docs/architecture.md, "Ports and set-ups").

Appends go through one idempotent producer with acks=all. A producer that missed a deadline, or met
an error that it cannot get out of by itself (aiokafka #1017), is dropped with all that it still
holds, and a new one is made: what was answered with "not known" must not come much later. Offsets
of begin and end are asked of the leader each time. A topic that was made anew under its name is
another log, and one that has more partitions takes events in by another number: while one appends,
the topic is looked at again every second (`looks`).
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from meterline.backends.clock import uptime_s
from meterline.backends.kafka.asking import STOP_TIMEOUT_S, Asked, fetch
from meterline.backends.kafka.growth import ask_to_grow, grow_topic
from meterline.backends.kafka.looks import Looks
from meterline.backends.kafka.record import headers_of, kafka_record
from meterline.backends.kafka.topic import ensure_topic, renew_password, topic_at
from meterline.event import Layout, Record, RecordKind, routes_known
from meterline.limits import (
    APPEND_DEADLINE_MS,
    APPEND_QUEUE_BYTES_MAX,
    LOG_TIMEOUT_S,
    PACK_BYTES_MAX,
    ROUTES_KNOWN_S,
)
from meterline.ports import Unavailable, Unsuitable

BATCH_BYTES: Final = PACK_BYTES_MAX + PACK_BYTES_MAX // 9  # of one partition: a pack and its frame
TOPIC_LOOK_S: Final = ROUTES_KNOWN_S
LOG_APPEND_TIME: Final = 1  # the type of a timestamp that the leader gave a record


class KafkaLog:
    """`Log` on one topic, made by `open_kafka_log`; whoever registers it sets `number`, and of a
    log that was restored `firsts`: what the first record of each partition counts as.

    Belongs to the event loop that opened it. `now_s` is the clock of this machine.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        log_id: str,
        partitions: int,
        deadline_ms: int,
        security: Mapping[str, Any],
        timeout_s: float = LOG_TIMEOUT_S,
        now_s: Callable[[], float] = uptime_s,
    ) -> None:
        self.number = 0
        self.firsts: Sequence[int] = ()
        self._bootstrap = bootstrap
        self._topic = topic
        self._id = log_id
        self._layout = Layout(partitions)
        self._routes = partitions
        self._deadline_s = deadline_ms / 1000
        self._security = security
        self._timeout_s = timeout_s
        self._headers = {kind: headers_of(log_id, kind) for kind in RecordKind}
        self._producer: AIOKafkaProducer | None = None
        self._producing = asyncio.Lock()
        self._dropping: set[asyncio.Task[None]] = set()
        self._appending_bytes = 0
        self._now_s = now_s
        self._looks = Looks(TOPIC_LOOK_S)
        self._looking = defaultdict[int, asyncio.Lock](asyncio.Lock)  # by broker
        # Borders have a connection of their own: behind a fetch that waits they would wait too.
        self._reading, self._asking = (
            Asked(bootstrap, topic, security, timeout_s) for _ in range(2)
        )
        self._closed = False

    @property
    def id(self) -> str:
        """Kafka's id of the topic."""
        return self._id

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._topic

    @property
    def partitions(self) -> int:
        """As found when the log was opened, and as it was laid out since."""
        return self._layout.partitions

    @property
    def routes(self) -> int:
        """As the topic has them, by the last look."""
        return self._routes

    def lay_out(self, layout: Layout) -> None:
        """See `Log.lay_out`."""
        self._layout = layout

    async def look(self) -> None:
        """Have `routes` as they are now; where the topic cannot be asked, the next append tells."""
        with contextlib.suppress(KafkaError, OSError, TimeoutError, Unavailable):
            async with asyncio.timeout(self._deadline_s):
                await self._look_before(self._producer or await self._new_producer())

    def home(self, partition: int, offset: int) -> int:
        """See `Log.home`."""
        return self._layout.home(partition, offset)

    async def ask_to_grow(self, partitions: int) -> int:
        """See `GrowingLog.ask_to_grow`."""
        of = self._bootstrap, self._topic, partitions, self._security, self._timeout_s
        return await ask_to_grow(*of)

    async def grow(self, partitions: int) -> None:
        """See `GrowingLog.grow`."""
        await grow_topic(self._bootstrap, self._topic, partitions, self._security, self._timeout_s)
        self._routes = max(partitions, self._routes)

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        """See `Log.append`; returns when all in-sync replicas have the record."""
        self._check(partition)
        if self._appending_bytes + len(value) > APPEND_QUEUE_BYTES_MAX:
            raise Unavailable("Kafka is too slow: too many events are waiting to be written")
        self._appending_bytes += len(value)
        try:
            await self._append(partition, value, kind)
        finally:
            self._appending_bytes -= len(value)

    async def _append(self, partition: int, value: bytes, kind: RecordKind) -> None:
        producer = None
        try:
            async with asyncio.timeout(self._deadline_s):
                producer = self._producer or await self._new_producer()
                with contextlib.suppress(
                    KafkaError, OSError
                ):  # a broker that is away: so is the log
                    await self._look_before(producer)
                await self._knows(producer, partition)
                leaders = self._leaders(producer, partition)
                acknowledged = await producer.send(
                    self._topic, value, partition=partition, headers=self._headers[kind]
                )
                stored = await acknowledged
                leaders |= self._leaders(producer, partition)
                has_time = stored.timestamp_type == LOG_APPEND_TIME
                await self._look_after(
                    producer, leaders, partition, stored.timestamp if has_time else None
                )
        except MessageSizeTooLargeError as error:
            raise ValueError(f"a record of {len(value)} bytes is too large for a log") from error
        except TimeoutError as error:
            self._drop(producer)
            raise Unavailable(f"Kafka topic {self._topic}: no acknowledgement in time") from error
        except (KafkaError, OSError) as error:
            self._drop(producer)
            raise Unavailable(f"Kafka topic {self._topic}: {error!r}") from error

    async def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        """See `Log.read`; one read is at most what one fetch brings, 4 MiB or a single record."""
        self._check(partition)
        where = TopicPartition(self._topic, partition)
        first = self.first_of(partition)
        place = max(0, offset - first)
        found = await self._reading.ask(lambda it: fetch(it, where, place, records_max))
        return [
            kafka_record(partition, first + e.offset, e.timestamp, e.headers, e.value)
            for e in found
        ]

    def first_of(self, partition: int) -> int:
        """The offset that the first record of a partition of the topic counts as."""
        if partition < len(self.firsts):
            return self.firsts[partition]
        return self._layout.first(partition)

    async def put_back(self, partition: int, offset: int, records: Sequence[Record]) -> None:
        """Of a log that is being restored: records from `offset` on, each as it was, behind those
        that were put back before. Raises `Unavailable`, `Unsuitable` where others write.
        """
        self._check(partition)
        try:
            producer = self._producer or await self._new_producer()
            send = partial(producer.send, self._topic, partition=partition)
            sent = [
                await send(it.value, headers=headers_of(self._id, it.kind, it.append_ms))
                for it in records
            ]
            places = [one.offset for one in await asyncio.gather(*sent)]
        except (KafkaError, OSError, TimeoutError) as error:
            raise Unavailable(f"Kafka topic {self._topic}: {error!r}") from error
        first = offset - self.first_of(partition)
        if places != list(range(first, first + len(records))):
            raise Unsuitable(f"others write to Kafka topic {self._topic}: stop the gateways")

    async def begin(self, partition: int) -> int:
        """See `Log.begin`."""
        self._check(partition)
        where = TopicPartition(self._topic, partition)
        begins = await self._asking.ask(lambda it: it.beginning_offsets([where]))
        return int(begins[where]) + self.first_of(partition)

    async def end(self, partition: int) -> int:
        """See `Log.end`: a ListOffsets request to the leader, every time.

        A leader that is new answers only when its end is past all that was acknowledged (KIP-207).
        """
        self._check(partition)
        where = TopicPartition(self._topic, partition)
        ends = await self._asking.ask(lambda it: it.end_offsets([where]))
        return int(ends[where]) + self.first_of(partition)

    async def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        """Nothing: Kafka drops records by the topic's `retention.ms`, checked on opening."""

    async def compact(self) -> None:
        """Nothing: Kafka removes the files of what it dropped."""

    async def close(self) -> None:
        """See `Log.close`."""
        self._closed = True
        async with self._producing:
            producer, self._producer = self._producer, None
        if producer is not None:
            try:
                async with asyncio.timeout(self._deadline_s):
                    await producer.stop()
            except TimeoutError:
                await _abort(producer)
        await asyncio.gather(*self._dropping)
        await self._reading.close()
        await self._asking.close()

    def _check(self, partition: int) -> None:
        there = max(self._layout.partitions, self._routes)
        if not 0 <= partition < there:
            raise ValueError(f"partition {partition} of a log with {there}")

    async def _new_producer(self) -> AIOKafkaProducer:
        async with self._producing:
            if self._closed:
                raise Unavailable("the log is closed")
            if self._producer is not None:  # another append made it while this one waited
                return self._producer
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                enable_idempotence=True,
                acks="all",
                compression_type="zstd",  # half of lz4's time and bytes, as aiokafka does lz4
                linger_ms=0,  # the publisher packs; see there
                max_batch_size=BATCH_BYTES,
                max_request_size=BATCH_BYTES,
                request_timeout_ms=int(self._deadline_s * 1000),
                **self._security,
            )
            try:
                await producer.start()
            except BaseException:
                await _abort(producer)
                raise
            self._producer = producer
            return producer

    async def _look_before(self, producer: AIOKafkaProducer) -> None:
        """Return where the topic was this log's a moment ago, as one of the brokers knows it.

        Raises `Unavailable`: what is appended now would lie in another log, under a wrong name.
        """
        if not self._looks.is_recent(self._now_s()):
            await self._look(
                producer,
                producer.client.get_random_node(),
                lambda: self._looks.is_recent(self._now_s()),
            )

    async def _look_after(
        self,
        producer: AIOKafkaProducer,
        leaders: Collection[int],
        partition: int,
        append_ms: int | None,
    ) -> None:
        """Return where a record that came to the log is in this one, and `routes` were right when
        it came. Its append time is None where the topic does not say it. Raises `Unavailable`.
        """
        self._looks.appended(partition, append_ms)
        if not leaders:
            raise Unavailable(f"Kafka topic {self._topic}: partition {partition} has no leader now")
        for leader in leaders:

            def is_known(leader: int = leader) -> bool:
                return self._looks.holds(leader, partition, append_ms, self._now_s())

            if not is_known():
                await self._look(producer, leader, is_known)

    async def _look(
        self, producer: AIOKafkaProducer, broker: int, is_known: Callable[[], bool]
    ) -> None:
        """Ask a broker for the topic, unless somebody else has done so meanwhile."""
        async with self._looking[broker]:
            if is_known():
                return
            look = self._looks.begun(self._now_s())
            renew_password(producer.client, self._security)
            found = await topic_at(producer.client, broker, self._topic)
            if found is None or found.id != self._id:
                there = "is not there" if found is None else f"was made anew ({found.id})"
                raise Unavailable(
                    f"Kafka topic {self._topic} {there}, and this log is {self._id}. Nothing is"
                    " taken in. If the old one is gone for good, start this process again"
                )
            self._routes = routes_known(self._routes, found.partitions)
            self._looks.ended(broker, look)

    def _leaders(self, producer: AIOKafkaProducer, partition: int) -> set[int]:
        """The broker that takes records of a partition in, as a producer knows it."""
        where = TopicPartition(self._topic, partition)
        leader = producer.client.cluster.leader_for_partition(where)
        return set() if leader is None or leader < 0 else {leader}

    async def _knows(self, producer: AIOKafkaProducer, partition: int) -> None:
        """Raise `Unavailable` where a producer does not know a partition that the topic has got."""
        cluster = producer.client.cluster
        if partition in (cluster.partitions_for_topic(self._topic) or {partition}):
            return
        await producer.client.force_metadata_update()
        if partition not in (cluster.partitions_for_topic(self._topic) or ()):
            raise Unavailable(f"Kafka topic {self._topic}: partition {partition} is not ready yet")

    def _drop(self, producer: AIOKafkaProducer | None) -> None:
        """Let go of a producer with all that it still holds; whoever waits for that is told."""
        if producer is None or producer is not self._producer:
            return  # it never came to be, or another append has dropped it
        self._producer = None
        task = asyncio.create_task(_abort(producer))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)


async def open_kafka_log(
    bootstrap: str,
    topic: str,
    partitions: int,
    retention_ms: int,
    *,
    deadline_ms: int = APPEND_DEADLINE_MS,
    security: Mapping[str, Any] | None = None,
    timeout_s: float = LOG_TIMEOUT_S,
    now_s: Callable[[], float] = uptime_s,
) -> KafkaLog:
    """Open the log on a topic, which is made if it is missing.

    `security` holds aiokafka's own arguments (`security_protocol`, `ssl_context`, `sasl_...`).
    Raises `Unavailable`, and `Unsuitable` with words where the topic there cannot be this log.
    """
    security = security or {}
    found = await ensure_topic(bootstrap, topic, partitions, retention_ms, security, timeout_s)
    of = bootstrap, topic, found.id, found.partitions, deadline_ms, security, timeout_s, now_s
    return KafkaLog(*of)


async def _abort(producer: AIOKafkaProducer) -> None:
    """Stop a producer without sending what it holds; aiokafka has no word for that, only parts."""
    gone = KafkaError("the producer was dropped")
    producer._closed = True  # noqa: SLF001 - or it warns of not being closed
    producer._message_accumulator.fail_all(gone)  # noqa: SLF001
    sender = producer._sender  # noqa: SLF001
    task = sender.sender_task
    if task is not None:
        task.cancel()
    await producer.client.close()  # ends the requests that the sender waits for
    if task is not None:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await task
