"""Questions to a topic: one consumer for one question at a time, and what one fetch brings."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from meterline.backends.kafka.topic import renew_password, started
from meterline.limits import READ_BYTES_MAX
from meterline.ports import Unavailable

READ_WAIT_MS: Final = 20  # of a fetch for what is not there yet
STOP_TIMEOUT_S: Final = 5.0
_T = TypeVar("_T")


class Asked:
    """One consumer for one question at a time: made when first needed, and anew after an error."""

    def __init__(
        self, bootstrap: str, topic: str, security: Mapping[str, Any], timeout_s: float
    ) -> None:
        self._timeout_s = timeout_s
        self._bootstrap = bootstrap
        self._topic = topic
        self._security = security
        self._consumer: AIOKafkaConsumer | None = None
        self._turn = asyncio.Lock()

    async def ask(self, question: Callable[[AIOKafkaConsumer], Awaitable[_T]]) -> _T:
        """What a question brings. Raises `Unavailable`."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout_s):
                    consumer = self._consumer or await self._connected()
                    renew_password(consumer._client, self._security)  # noqa: SLF001
                    return await question(consumer)
            except (KafkaError, OSError, TimeoutError) as error:
                await self._stop()
                raise Unavailable(f"Kafka topic {self._topic}: {error!r}") from error

    async def close(self) -> None:
        """Let go of the consumer, once it has answered."""
        async with self._turn:
            await self._stop()

    async def _connected(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_uncommitted",
            max_partition_fetch_bytes=READ_BYTES_MAX // 4,
            fetch_max_bytes=READ_BYTES_MAX,
            fetch_max_wait_ms=READ_WAIT_MS,
            request_timeout_ms=int(self._timeout_s * 1_000),
            **self._security,
        )
        self._consumer = await started(consumer)
        return consumer

    async def _stop(self) -> None:
        """Let go of it, whatever state it is in."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await consumer.stop()


async def fetch(
    consumer: AIOKafkaConsumer, where: TopicPartition, offset: int, records_max: int
) -> list[ConsumerRecord[bytes, bytes]]:
    """Records from `offset`; empty only when the leader says that there are none.

    A consumer that nobody reads by is paused: the next question would wait behind its fetch for
    what comes next, as a broker answers the requests of a connection one after another.
    """
    if consumer.assignment() != {where}:
        consumer.assign([where])
        consumer.seek(where, offset)
    else:
        consumer.resume(where)
        if await consumer.position(where) != offset:
            consumer.seek(where, offset)
    try:
        return await _fetched(consumer, where, offset, records_max)
    finally:
        consumer.pause(where)


async def _fetched(
    consumer: AIOKafkaConsumer, where: TopicPartition, offset: int, records_max: int
) -> list[ConsumerRecord[bytes, bytes]]:
    while True:
        try:
            batches = await consumer.getmany(
                where, timeout_ms=READ_WAIT_MS, max_records=records_max
            )
        except OffsetOutOfRangeError:
            borders = await consumer.beginning_offsets([where])
            if offset >= borders[where]:
                return []  # beyond the end
            consumer.seek(where, borders[where])
            continue
        if batches:
            found: list[ConsumerRecord[bytes, bytes]] = batches[where]
            return found
        ends = await consumer.end_offsets([where])
        if await consumer.position(where) >= ends[where]:
            return []
