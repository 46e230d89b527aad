"""Shell: the aggregator driven by a Faust worker (the distributed set-up).

Faust is transport here, not truth. What was found safe, and nothing else:
`stream.noack().events()`, offsets that are kept, acks for whole sealed slices, no exception out of
the agent, `stream_wait_empty=False`.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import structlog
from faust.types import TP

from aggregator.catalogue_debounce import passed
from aggregator.drivers.held_records import HELD_BOUNDS, HeldBounds, HeldRecords, Sealed
from aggregator.drivers.lag_watch import LagWatch
from aggregator.drivers.membership import Membership, faust_app
from aggregator.drivers.openings import Openings
from aggregator.drivers.standing import Standing
from aggregator.drivers.turns import Turns, beside
from aggregator.failures import Failures
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.event import Record
from meterline.limits import (
    FAUST_STOP_TIMEOUT_S,
    HOUSEKEEPING_INTERVAL_S,
    PAST_LOOK_MS,
    REREAD_ALONE_S,
    REREAD_TURN_S,
)
from meterline.ports import Clock

logger = structlog.get_logger()


class FaustWorker:
    """Works on the partitions that the consumer group assigns."""

    def __init__(
        self,
        aggregator: Aggregator,
        housekeeping: Housekeeping,
        clock: Clock,
        record_of: Callable[[Any], Record],
        membership: Membership,
        standing: Standing | None = None,
        renewed: Callable[[Any], None] = lambda _: None,
        bounds: HeldBounds = HELD_BOUNDS,
    ) -> None:
        """`renewed` is called often with Faust's client of Kafka: it gives it its password."""
        self._standing = standing
        self._aggregator = aggregator
        self._housekeeping = housekeeping
        self._clock = clock
        self._record_of = record_of
        self._lock = asyncio.Lock()
        self._held: dict[int, HeldRecords] = defaultdict(HeldRecords)  # not yet sealed
        self._topic = membership.topic
        self._fed_end: dict[int, int] = {}  # after what Faust brought, or should have
        self._openings = Openings(aggregator, standing)
        self._behind: set[int] = set()  # what came while they were prepared is not read yet
        self._revoked: set[int] = set()
        self._full = False  # Faust is kept from bringing more
        self._lag = LagWatch(aggregator.log)
        self._failed: asyncio.Future[Any] | None = None
        self._stopping = False
        self._bounds = bounds
        self._counted = self._uncounted = 0  # records that Faust brought since the last turn
        self._past_looked_ms: dict[int, int] = {}  # past Faust, when the log was asked
        self._renewed = renewed
        self.app = faust_app(membership)
        raw = self.app.topic(
            membership.topic,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
        )
        self.app.agent(raw, concurrency=1)(self._agent)
        revoked: Any = self.app.on_partitions_revoked  # Faust's types refuse its own documented use
        revoked.connect(self._on_revoked)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or until an error that is not of the world: then that is raised."""
        self._failed = asyncio.get_running_loop().create_future()
        await self.app.start()
        ticking = asyncio.create_task(self._tick_for_ever())
        tasks = beside(self._housekeeping, self._clock, self._standing, fills_at_once=False)
        stopping = asyncio.create_task(stop.wait())
        ends: list[asyncio.Future[Any]] = [stopping, *tasks, self._failed]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            self._stopping = True
            for end in (ticking, stopping, *tasks):
                end.cancel()
            await asyncio.gather(ticking, stopping, *tasks, return_exceptions=True)
            await self._stop_faust()
            await self._openings.close()
            await self._aggregator.close_all()
        if self._failed.done():
            self._failed.result()

    async def _stop_faust(self) -> None:
        """Stop Faust, or end the process where it cannot be stopped: it hangs while Kafka is away,
        and takes no cancellation. A worker that is killed does no harm.
        """
        stopping = asyncio.create_task(self.app.stop())
        _, pending = await asyncio.wait([stopping], timeout=FAUST_STOP_TIMEOUT_S)
        if pending:
            logger.warning("faust_does_not_stop", wait_s=FAUST_STOP_TIMEOUT_S)
            os._exit(0 if self._failed is None or not self._failed.done() else 1)

    async def _agent(self, stream: Any) -> None:
        async for event in stream.noack().events():
            try:
                async with self._lock:
                    number = await self._take(event)
                await self._wait_for_room(number)
            except Exception as error:  # noqa: BLE001 - nothing may leave the agent: Faust would lose the record
                self._fail(error)
                await asyncio.Event().wait()

    async def _take(self, event: Any) -> int:
        """Take in what Faust brought; the number of its partition."""
        self._close_revoked()  # before the event is held: it belongs to the new assignment
        turns = Turns()
        while event.message.partition >= self._aggregator.log.partitions:  # offsets are not known
            await turns.take(self._aggregator.look_at_layout(event.message.partition))
        record = self._record_of(event.message)
        number = record.partition
        self._lag.received(self._clock.now_ms())
        self._held[number].add(record.offset, event.message.offset)
        event.value = event.message.value = None  # Faust keeps it until it has the next one
        while not await turns.take(self._absorb(record)):
            self._lag.reset()
        self._ack(number)
        return number

    async def _wait_for_room(self, number: int) -> None:
        """Without the lock: turns make room. Others are read past Faust meanwhile, which brings
        nothing more: also the one that this one waits for, where the log got more partitions.
        """
        try:
            while self._is_full(number):
                self._full = True
                await asyncio.sleep(self._pause_s())
        finally:
            self._full = False

    def _is_full(self, number: int) -> bool:
        """Whether Faust has brought so much of a partition that is not counted yet that it must not
        bring more: what it brought is held until it is sealed.
        """
        if self._stopping or number in self._revoked:
            return False
        if self._housekeeping.room.is_full:
            return False  # it is brought for whoever has the turn
        partition = self._aggregator.partitions.get(number)
        if number not in self._held or (partition is not None and number not in self._behind):
            return False
        catches_up = partition is None or partition.next_offset < partition.log_end
        most = self._bounds.ahead if catches_up else self._bounds.held
        return self._held[number].count > most

    async def _absorb(self, record: Record) -> None:
        """Take a record in. Of a partition that is not open yet, or was not a moment ago, it is
        read from the log later, a turn at a time: others are not held up.
        """
        number = record.partition
        if self._opened(number) and number not in self._behind:
            if self._may_grow(number):
                await self._feed(record)
                self._took(number, 1)
            else:
                self._behind.add(number)
        self._fed_end[number] = max(record.offset + 1, self._fed_end.get(number, 0))
        partition = self._aggregator.partitions.get(number)
        if partition is not None and partition.next_offset == record.offset + 1:
            self._counted += 1
        else:
            self._uncounted += 1

    async def _feed(self, record: Record) -> None:
        number, aggregator = record.partition, self._aggregator
        follows = record.offset  # Faust is not believed that nothing lies before: the log is asked
        while not await aggregator.feed(record, follows):
            if not self._opened(number):  # it was given back
                return
            if not await aggregator.read_some(number):
                await aggregator.check_truncation(number)
                follows = aggregator.partitions[number].next_offset

    def _opened(self, number: int) -> bool:
        """Whether a partition is this worker's to count; it is prepared where it is not."""
        before = number in self._aggregator.partitions
        if not self._openings.is_open(number):
            self._behind.add(number)
            return False
        if not before:  # what lies there is read in portions: Faust brings it record by record
            end = self._aggregator.partitions[number].log_end
            self._fed_end[number] = max(end, self._fed_end.get(number, 0))
            self._behind.add(number)
        return True

    def _may_grow(self, number: int) -> bool:
        partition = self._aggregator.partitions[number]
        return self._housekeeping.room.may_grow(partition, self._clock.now_ms())

    def _took(self, number: int, records: int) -> None:
        self._housekeeping.room.took(number, records, self._clock.now_ms())

    def _ack(self, number: int) -> None:
        """Let Faust commit what lies in sealed slices: committed offsets are always borders."""
        held = self._held.get(number)
        partition = self._aggregator.partitions.get(number)
        if held is not None and partition is not None:
            for offset in held.sealed(partition.sealed_end):
                self._acknowledge(number, offset)

    def _acknowledge(self, number: int, offset: int) -> None:
        message: Any = Sealed(self._topic, TP(self._topic, number), offset)
        self.app.consumer.ack(message)

    async def _tick_for_ever(self) -> None:
        turns = Turns()
        try:
            while True:
                if not await turns.take(self._tick_alone()):
                    self._lag.reset()
                await self._openings.pause(self._pause_s())
        except Exception as error:  # noqa: BLE001 - reported by `run`
            self._fail(error)

    async def _tick_alone(self) -> None:
        async with self._lock:
            await self._tick()

    async def _tick(self) -> None:
        if (client := self._client()) is not None:
            self._renewed(client)
        self._close_revoked()
        assigned = self._assigned()
        self._release((set(self._aggregator.partitions) | self._openings.numbers) - assigned)
        failures = Failures()
        for number in assigned:
            with failures.kept():
                if self._opened(number):
                    await self._read_again(number)
        now_ms = self._clock.now_ms()
        with failures.kept():
            await self._housekeeping.tick(now_ms)
        for number in assigned:
            self._ack(number)
        # last: where the log is away, all else is done
        past = self._full or (self._uncounted and not self._counted)
        self._counted = self._uncounted = 0
        for number in assigned:
            with failures.kept():
                if past and await self._look_past(number, now_ms):
                    await self._read_again(number)
                await self._mind_silence(number, now_ms)
        self._mind_turns(now_ms)
        failures.tell()

    def _mind_turns(self, now_ms: int) -> None:
        """Who waits for memory does not stand still, as long as another one gets on."""
        if self._housekeeping.room.gets_on(now_ms):
            self._lag.forget(self._behind)
            if self._standing is not None:
                self._standing.waits(asyncio.get_running_loop().time())

    async def _look_past(self, number: int, now_ms: int) -> bool:
        """Of a partition that Faust does not bring now, because it waits, or brings all that it has
        of another one first that is not counted now, the log is asked for more. Whether it has.
        """
        if (partition := self._aggregator.partitions.get(number)) is None:
            return False
        offset, looked_ms = partition.next_offset, self._past_looked_ms.get(number, 0)
        if offset >= self._fed_end.get(number, 0) and passed(now_ms, looked_ms, PAST_LOOK_MS):
            self._past_looked_ms[number] = now_ms
            end = await self._aggregator.log.end(number)
            if end > offset:  # else what Faust brings next would be read again as well
                self._fed_end[number] = end
                self._behind.add(number)
                return True
        return False

    async def _mind_silence(self, number: int, now_ms: int) -> None:
        """Where Faust does not bring what the log has, it is read from there."""
        partition = self._aggregator.partitions.get(number)  # none: it was given back by a turn
        if self._full or partition is None:
            return
        offset = partition.next_offset
        end = await self._lag.behind(number, offset, now_ms)
        if end is not None:
            logger.warning("faust_is_silent", partition=number, offset=offset, end=end)
            self._fed_end[number] = max(end, self._fed_end.get(number, 0))

    async def _read_again(self, number: int) -> None:
        """A dropped slice, and what Faust did not bring, is read from the log itself; a turn at a
        time.
        """
        aggregator = self._aggregator
        ends = asyncio.get_running_loop().time() + self._turn_s()
        while aggregator.partitions[number].next_offset < self._fed_end.get(number, 0):
            if not self._may_grow(number):
                return
            some = await aggregator.read_some(number)
            self._took(number, some)
            if not some or number not in aggregator.partitions:
                return
            if asyncio.get_running_loop().time() > ends:
                return
        self._behind.discard(number)

    def _turn_s(self) -> float:
        """How long a partition is read again at a time: longer where nobody else waits."""
        held = self._aggregator.partitions.keys()
        if held - self._behind:
            return REREAD_TURN_S
        return max(REREAD_TURN_S, REREAD_ALONE_S / max(1, len(held)))

    def _pause_s(self) -> float:
        """Until the next turn. Where partitions are read again, others get about as long as that
        takes, if there are any.
        """
        held = self._aggregator.partitions.keys()
        if not self._behind & held:
            return HOUSEKEEPING_INTERVAL_S
        return REREAD_TURN_S if held - self._behind else REREAD_TURN_S / 10

    def _client(self) -> Any:
        """The client of Faust's consumer, which lives in a thread of Faust's; None before it is."""
        consumer = getattr(self.app.consumer, "_thread", None)
        return getattr(getattr(consumer, "_consumer", None), "_client", None)

    def _assigned(self) -> set[int]:
        return {tp.partition for tp in self.app.consumer.assignment()}

    async def _on_revoked(self, _app: Any, revoked: Any, **_: Any) -> None:
        self._revoked |= {tp.partition for tp in revoked}

    def _close_revoked(self) -> None:
        """Of a rebalance all are told as revoked, also those that stay. What is prepared for them
        is kept: it is given up once it is seen that they are assigned to somebody else.
        """
        self._let_go(self._revoked)
        self._revoked = set()

    def _release(self, numbers: set[int]) -> None:
        self._openings.give_up(numbers)
        self._let_go(numbers)

    def _let_go(self, numbers: set[int]) -> None:
        self._behind -= numbers
        for number in numbers:
            self._aggregator.close(number)
            self._held.pop(number, None)
            self._fed_end.pop(number, None)
        self._lag.forget(numbers)

    def _fail(self, error: Exception) -> None:
        logger.error("aggregator_failed", error=str(error), exc_info=error)
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)
