"""The simulated log: partitions of records that outlive every process."""

import random
from dataclasses import dataclass, field
from typing import Final

from meterline.backends.kafka.looks import Looks
from meterline.event import Layout, Record, RecordKind
from meterline.ports import Clock, Unavailable, Unsuitable
from tests.simulation.network import Net

ROUTES_KNOWN_S: Final = 0.3  # worlds are short


@dataclass(slots=True)
class Kept:
    """A partition as its leader has it."""

    records: list[Record] = field(default_factory=list)
    gone: list[Record] = field(default_factory=list)  # trimmed: only the oracle looks at them
    next_offset: int = 0
    first: int = 0  # what its first record counts as

    @property
    def begin(self) -> int:
        """As Kafka has it: behind what was dropped, wherever the next record lies."""
        if not self.records:
            return self.next_offset
        return self.gone[-1].offset + 1 if self.gone else self.first

    @property
    def all(self) -> list[Record]:
        """Every record that ever was."""
        return [*self.gone, *self.records]


class LogState:
    """All partitions, and the clock that stamps appends. `rng` makes gaps and lagging reads."""

    def __init__(
        self, log_id: str, partitions: int, clock: Clock, rng: random.Random | None = None
    ) -> None:
        self.id = log_id
        self.number = 1
        self.partitions = [Kept() for _ in range(partitions)]
        self.clock = clock
        self.rng = rng
        self.clock_wobble_ms = 0  # a leader's clock may be behind that of the one before
        self.gaps = False
        self.lags = False
        self.layout = Layout(partitions)  # as it is registered, for whoever starts
        self.grows = False

    def grow(self, partitions: int) -> None:
        """Get more partitions, where it has not so many."""
        for number in range(len(self.partitions), partitions):
            first = self.layout.first(number)
            self.partitions.append(Kept(next_offset=first, first=first))

    def append(self, partition: int, value: bytes, kind: RecordKind) -> int:
        """When it was appended."""
        kept = self._of(partition)
        at_ms = self.clock.now_ms()
        if self.rng is not None:
            if self.gaps and self.rng.random() < 0.1:
                kept.next_offset += self.rng.randrange(1, 4)
            if self.clock_wobble_ms:
                at_ms -= self.rng.randrange(self.clock_wobble_ms)
        kept.records.append(Record(partition, kept.next_offset, at_ms, kind, value, self.id))
        kept.next_offset += 1
        return at_ms

    def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        found = [r for r in self._of(partition).records if r.offset >= offset][:records_max]
        if self.lags and found and self.rng is not None and self.rng.random() < 0.2:
            return found[: self.rng.randrange(1, len(found) + 1)]  # empty is said at the end only
        return found

    def begin(self, partition: int) -> int:
        return self._of(partition).begin

    def end(self, partition: int) -> int:
        return self._of(partition).next_offset

    def expire(self, older_than_ms: int) -> int:
        """Drop what is old, counted or not, as a topic's retention does; how many there were."""
        before = sum(len(kept.gone) for kept in self.partitions)
        for partition in range(len(self.partitions)):
            self.trim(partition, self.end(partition), older_than_ms)
        return sum(len(kept.gone) for kept in self.partitions) - before

    def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        kept = self._of(partition)
        while (
            kept.records
            and kept.records[0].offset < before
            and kept.records[0].append_ms < older_than_ms
        ):
            kept.gone.append(kept.records.pop(0))

    def restore(self, partition: int, end: int) -> None:
        """From this offset on there was never anything."""
        kept = self._of(partition)
        kept.records = [record for record in kept.records if record.offset < end]
        kept.next_offset = end

    def _of(self, partition: int) -> Kept:
        there = len(self.partitions)
        if not 0 <= partition < max(there, self.layout.partitions):
            raise ValueError(f"partition {partition} of a log with {there}")
        if partition >= there:
            raise Unavailable("it is registered, and not there yet")
        return self.partitions[partition]


class SimulatedLog:
    """`Log` as one process reaches it."""

    def __init__(self, state: LogState, net: Net) -> None:
        self._state = state
        self._net = net
        self.number = state.number
        self._layout = state.layout
        self._routes = len(state.partitions)
        self.looks = Looks(ROUTES_KNOWN_S)

    @property
    def id(self) -> str:
        return self._state.id

    @property
    def partitions(self) -> int:
        return self._layout.partitions

    @property
    def routes(self) -> int:
        return self._routes

    def lay_out(self, layout: Layout) -> None:
        self._layout = layout

    def home(self, partition: int, offset: int) -> int:
        return self._layout.home(partition, offset)

    async def ask_to_grow(self, partitions: int) -> int:
        del partitions
        return await self._net.call("log.partitions", lambda: len(self._state.partitions))

    async def grow(self, partitions: int) -> None:
        await self._net.call(
            f"log.grow {partitions}", lambda: self._state.grow(partitions), writes=True
        )

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        """As `KafkaLog` does, of one broker."""
        grows = self._state.grows
        if grows and not self.looks.is_recent(self._now_s()):
            await self._look()
        append_ms = await self._append(partition, value, kind)
        self.looks.appended(partition, append_ms)
        if grows and not self.looks.holds(0, partition, append_ms, self._now_s()):
            await self._look()

    async def _look(self) -> None:
        look = self.looks.begun(self._now_s())
        self._routes = await self._net.call("log.look", lambda: len(self._state.partitions))
        self.looks.ended(0, look)

    def _now_s(self) -> float:
        """Of the two clocks one is good: this one stands still with its process, unless append
        times step back.
        """
        process = getattr(self._net, "process", None)
        if process is None or self._state.clock_wobble_ms:
            return self._state.clock.now_ms() / 1_000
        uptime_s: float = process.uptime_s()
        return uptime_s

    async def _append(self, partition: int, value: bytes, kind: RecordKind) -> int:
        return await self._net.call(
            f"log.append {partition}",
            lambda: self._state.append(partition, value, kind),
            writes=True,
        )

    async def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        return await self._net.call(
            f"log.read {partition} {offset}",
            lambda: self._state.read(partition, offset, records_max),
        )

    async def begin(self, partition: int) -> int:
        return await self._net.call(f"log.begin {partition}", lambda: self._state.begin(partition))

    async def end(self, partition: int) -> int:
        return await self._net.call(f"log.end {partition}", lambda: self._state.end(partition))

    async def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        await self._net.call(
            f"log.trim {partition} {before}",
            lambda: self._state.trim(partition, before, older_than_ms),
            writes=True,
        )

    async def close(self) -> None:
        """Nothing is held."""


def opened(state: LogState, partitions: int, net: Net) -> SimulatedLog:
    """The log, where it has so many partitions."""
    found = len(state.partitions)
    if found != partitions:
        raise Unsuitable(
            f"the log has {found} partitions, the settings say {partitions}: set them to {found}"
        )
    return SimulatedLog(state, net)
