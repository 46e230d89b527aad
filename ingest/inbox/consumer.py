"""The inbox: Kafka topics for producers without HTTP, each bound to a namespace
(docs/architecture.md, "Ingest").

Reads records, admits them, puts them into the log, and commits their offsets once they are durable
there. It goes on for ever: while anything is away, it waits and tries the same records again.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from ingest.admission import AdmissionRules, Admitted
from ingest.inbox.admission import InboxRecord, admit_record, refusal_partition, refuse
from ingest.inbox.positions import Positions, consumed
from ingest.inbox.reading import read_carefully
from ingest.publisher import Publisher
from meterline.event import Log, RecordKind, Refusal, encode_refusal
from meterline.limits import INBOX_IDS_LOOK_S, INBOX_READ_RECORDS_MAX, READ_BYTES_MAX
from meterline.ports import Unavailable, Unsuitable
from meterline.problem import Problem
from meterline.window import Backoff

WAIT_MS: Final = 500
BACKOFF_FIRST_S: Final = 0.1
UNDECODABLE: Final = "cannot be read: the name of a header is not UTF-8"

_log: Final = structlog.get_logger("ingest.inbox.consumer")


async def take(
    records: Sequence[InboxRecord | Refusal],
    namespace: str,
    publisher: Publisher,
    log: Log,
    rules: AdmissionRules,
) -> None:
    """One step: all of these records are durable in the log on return, as events or as refusals.

    A refusal among the records is of one that could not even be decoded.

    Raises `Problem` (unavailable) or `Unavailable`: some may be in. Taking them again is safe.
    """
    rules = replace(rules, partitions=publisher.partitions)
    events: list[Admitted] = []
    refusals: list[Refusal] = []
    for record in records:
        outcome = record if isinstance(record, Refusal) else admit_record(record, namespace, rules)
        if isinstance(outcome, Refusal):
            refusals.append(outcome)
        else:
            events.append(outcome)
    await publisher.publish(events, partitions=rules.partitions)
    for refusal in refusals:
        partition = refusal_partition(refusal, rules.partitions)
        await log.append(partition, encode_refusal(refusal), RecordKind.REFUSAL)


class Topics(Protocol):
    """What Kafka says of the inbox topics."""

    async def check(self) -> None:
        """Raises `Unsuitable` or `Unavailable` where they cannot be read now."""
        ...

    async def topic_ids(self) -> Mapping[str, str]:
        """The id of each topic, which no other ever has. Raises `Unavailable`."""
        ...


class Inbox:
    """Shell: consumes the topics as a member of a group. Several processes share the partitions.

    `namespaces` gives the namespace of each topic. `topics` are checked before each connection.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        namespaces: Mapping[str, str],
        publisher: Publisher,
        log: Log,
        rules: AdmissionRules,
        topics: Topics,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._namespaces = dict(namespaces)
        self._publisher = publisher
        self._log = log
        self._rules = rules
        self._topics = topics
        self._security = security or {}
        self._careful = False  # a record was met that cannot be decoded

    async def run(self) -> None:
        """Consume until cancelled; whatever else goes wrong is logged and tried again."""
        backoff = Backoff(BACKOFF_FIRST_S)
        while True:
            try:
                await self._topics.check()
                ids = await self._topics.topic_ids()
                async with self._consumer(ids) as (consumer, positions):
                    _log.info("inbox", action="joined", topics=sorted(self._namespaces))
                    if self._careful:
                        await self._pass_undecodable(consumer, positions)
                        self._careful = False
                    await self._read(consumer, positions, backoff)
            except (KafkaError, OSError, TimeoutError, Unavailable, Unsuitable) as error:
                _log.warning("inbox", action="waits", reason=str(error))
            except UnicodeDecodeError as error:  # no record of ours raises: it is the client
                self._careful = True
                _log.warning("inbox", action="undecodable", reason=str(error))
            except Exception:  # noqa: BLE001 - a fault of one turn must not end the inbox
                _log.exception("inbox", action="failed")
            spread = random.uniform(0.5, 1)  # noqa: S311 - several processes do not retry at once
            await asyncio.sleep(backoff.next_s(spread))

    @contextlib.asynccontextmanager
    async def _consumer(
        self, ids: Mapping[str, str]
    ) -> AsyncIterator[tuple[AIOKafkaConsumer, Positions]]:
        consumer = AIOKafkaConsumer(
            *self._namespaces,
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # what was sent before the inbox first ran counts too
            isolation_level="read_committed",
            fetch_max_bytes=READ_BYTES_MAX,
            **self._security,
        )
        try:
            await consumer.start()
            yield consumer, Positions(consumer, ids)
        finally:
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                await consumer.stop()

    async def _read(
        self, consumer: AIOKafkaConsumer, positions: Positions, backoff: Backoff
    ) -> None:
        """Turn after turn. Raises `Unavailable` where a topic is another one by now: begin anew."""
        now_s = asyncio.get_running_loop().time
        looked_s = now_s()
        while True:
            await self._turn(consumer, positions)
            backoff.reset()
            if now_s() - looked_s >= INBOX_IDS_LOOK_S:
                await self._look(positions)
                looked_s = now_s()

    async def _look(self, positions: Positions) -> None:
        """Where Kafka does not say which topics these are, reading goes on: what it commits says
        of which topics it is.
        """
        try:
            ids = await self._topics.topic_ids()
        except Unavailable as error:
            _log.debug("inbox", action="not_looked", reason=str(error))
            return
        positions.check(ids)

    async def _turn(self, consumer: AIOKafkaConsumer, positions: Positions) -> None:
        found: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]] = await consumer.getmany(
            timeout_ms=WAIT_MS, max_records=INBOX_READ_RECORDS_MAX
        )
        for where in await positions.settle():
            found.pop(where, None)
        reached = await consumed(consumer)
        async with asyncio.TaskGroup() as group:
            for where, part in found.items():
                group.create_task(self._take_all(where.topic, [_record(entry) for entry in part]))
        # Committed only now, when all is durable: a crash before this reads them again.
        await positions.commit(reached)

    async def _pass_undecodable(self, consumer: AIOKafkaConsumer, positions: Positions) -> None:
        """Get past records that the client cannot decode: each becomes a refusal."""
        await positions.settle()
        for where in sorted(consumer.assignment()):
            stuck: int | None = 0
            while stuck is not None:
                part, stuck = await read_carefully(consumer, where, WAIT_MS)
                records: list[InboxRecord | Refusal] = [_record(entry) for entry in part]
                if stuck is not None:
                    namespace = self._namespaces[where.topic]
                    empty = InboxRecord(where.topic, where.partition, stuck, 0, (), b"")
                    records.append(refuse(empty, namespace, "headers", UNDECODABLE))
                    _log.warning("inbox", action="refused", at=str(where), offset=stuck)
                if records:
                    await self._take_all(where.topic, records)
                    end = part[-1].offset + 1 if stuck is None else stuck + 1
                    await positions.commit({where: end})
                    consumer.seek(where, end)

    async def _take_all(self, topic: str, records: Sequence[InboxRecord | Refusal]) -> None:
        backoff = Backoff(BACKOFF_FIRST_S)
        while True:
            try:
                await take(
                    records, self._namespaces[topic], self._publisher, self._log, self._rules
                )
            except (Problem, Unavailable) as error:
                wait_s = backoff.next_s()
                _log.warning("inbox", action="log_away", reason=str(error), seconds=wait_s)
                await asyncio.sleep(wait_s)
            else:
                return


def _record(entry: ConsumerRecord[bytes, bytes]) -> InboxRecord:
    return InboxRecord(
        entry.topic,
        entry.partition,
        entry.offset,
        entry.timestamp,
        entry.headers,
        entry.value or b"",
    )
