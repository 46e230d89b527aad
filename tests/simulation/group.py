"""A stand-in for Faust and its consumer group: it brings records, some twice, some not at all, and
takes partitions away; nobody who works on it may believe it.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from aggregator.drivers.faust_worker import FaustWorker
from aggregator.drivers.held_records import HELD_BOUNDS, HeldRecords
from aggregator.drivers.lag_watch import LagWatch
from aggregator.drivers.openings import Openings
from aggregator.drivers.standing import Standing
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.event import Record
from meterline.ports import Clock, Unavailable
from tests.simulation.fates import Fates
from tests.simulation.log import SimulatedLog
from tests.simulation.network import Process

BROUGHT: Final = 4  # records of one fetch


class Where(NamedTuple):
    """A partition of the topic, as Faust names it."""

    topic: str
    partition: int


@dataclass(slots=True)
class Message:
    """A message of the topic."""

    partition: int
    offset: int
    value: bytes | None
    record: Record


class Committed:
    """The group's committed offsets, which outlive its members."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = defaultdict(int)


class Brought:
    """A Faust event."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.value = message.value


class Stream:
    """The stream that an agent iterates over."""

    def __init__(
        self, process: Process, log: SimulatedLog, committed: Committed, fates: Fates
    ) -> None:
        self._process = process
        self._log = log
        self._committed = committed
        self._fates = fates
        self._next: dict[int, int] = {}
        self._buffer: deque[Record] = deque()

    def assign(self, numbers: Iterable[int]) -> None:
        """These partitions from now on, each from its committed offset where it is new."""
        offsets = self._committed.offsets
        self._next = {n: self._next.get(n, offsets[n]) for n in numbers}

    def ack(self, message: Any) -> None:
        """The group goes on behind this message."""
        number, end = message.tp.partition, message.offset + 1
        self._committed.offsets[number] = max(self._committed.offsets[number], end)

    def noack(self) -> "Stream":
        return self

    def events(self) -> "Stream":
        return self

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Brought:
        while True:
            while self._buffer:
                record = self._buffer.popleft()
                if self._fates.calm or self._fates.rng.random() > 0.01:
                    message = Message(record.partition, record.offset, record.value, record)
                    return Brought(message)
                self._fates.note("record skipped by Faust")
            await self._fetch()
            if not self._buffer:
                await asyncio.sleep(0.1)
            await self._process.awake()

    async def _fetch(self) -> None:
        rng = self._fates.rng
        for number, offset in list(self._next.items()):
            start = offset
            if not self._fates.calm and rng.random() < 0.02:
                self._fates.note("records brought again by Faust")
                start = max(0, offset - rng.randrange(5))
            try:
                found = await self._log.read(number, start, BROUGHT)
            except Unavailable:
                continue
            if found and number in self._next:
                self._buffer += found
                self._next[number] = max(offset, found[-1].offset + 1)


class Group:
    """Stands in for `faust.App` of one worker."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._numbers: frozenset[int] = frozenset()
        self._agent: Any = None
        self._running: asyncio.Task[Any] | None = None
        self.worker: FaustWorker | None = None
        self.consumer = SimpleNamespace(
            assignment=lambda: {Where("log", number) for number in sorted(self._numbers)},
            ack=stream.ack,
        )

    async def start(self) -> None:
        assert self.worker is not None, "put together"
        self._running = asyncio.create_task(self.worker._agent(self._stream))  # noqa: SLF001

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def assign(self, numbers: frozenset[int]) -> None:
        """The coordinator's word, as it arrives."""
        assert self.worker is not None, "put together"
        revoked = {Where("log", number) for number in self._numbers - numbers}
        self._numbers = numbers
        self._stream.assign(sorted(numbers))
        if revoked:
            await self.worker._on_revoked(self, revoked)  # noqa: SLF001


class SimulatedFaustWorker(FaustWorker):
    """The production shell with a group of its own in the place of Faust."""

    def __init__(
        self, aggregator: Aggregator, housekeeping: Housekeeping, clock: Clock, group: Group
    ) -> None:
        self._standing = Standing()
        self._aggregator = aggregator
        self._housekeeping = housekeeping
        self._clock = clock
        self._record_of = lambda message: message.record
        self._lock = asyncio.Lock()
        self._held = defaultdict(HeldRecords)
        self._topic = "log"
        self._fed_end = {}
        self._openings = Openings(aggregator, self._standing)
        self._behind = set()
        self._full = False
        self._counted = self._uncounted = 0
        self._past_looked_ms = {}
        self._revoked = set()
        self._lag = LagWatch(aggregator.log)
        self._failed = None
        self._stopping = False
        self._bounds = HELD_BOUNDS
        group.worker = self
        self.app = group  # type: ignore[assignment]
