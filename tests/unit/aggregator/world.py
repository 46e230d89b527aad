"""A log and stores that outlive workers, real and embedded, and what was sent to them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from aggregator.backfill.filler import FillStores, backfilled_some
from aggregator.housekeeping import Intervals
from aggregator.slice.background import Background
from aggregator.slice.flush_due import FlushBounds
from aggregator.step import Aggregator
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import FLUSH_BYTES, SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, FoldedRevisions, Meter, RevisionState
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.usage import EventRow, SliceId, UsageQuery

HORIZON_MS = 35 * 86_400_000
PARTITIONS = 2
AT_ONCE = Intervals(FlushBounds(0, 1, FLUSH_BYTES), 0)  # flushed whenever something was taken in
LOOK_S = 0.001  # between two looks: whoever looks all the time takes the processor from who works


async def taken_on(worker: Aggregator) -> bool:
    """Take on a newer catalogue, to the end; false where there is none."""
    begun = await worker.refresh_catalogue()
    while worker.is_adopting:
        await sealed(worker)
        await worker.flush()
        await worker.read_ahead()
    return begun


async def sealed(worker: Aggregator) -> None:
    """All slices that have ended are sealed."""
    while worker.is_sealing:
        await worker.flush()
        await worker.settle_seals()
        await asyncio.sleep(LOOK_S)


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Meters:
    """A `CatalogueStore` as far as the aggregator asks it."""

    version: int
    meters: list[Meter] = field(default_factory=list)
    made_ms: int = 0  # of whatever is added next
    made_at_ms: dict[int, int] = field(default_factory=dict)  # by revision

    async def catalogue_version(self) -> int:
        return self.version

    async def catalogue(self) -> Catalogue:
        return Catalogue(self.version, tuple(self.meters))

    async def folded_revisions(self) -> FoldedRevisions:
        return FoldedRevisions(self.version, tuple(sorted(it.revision for it in self.meters)))

    async def newest_in_force(self, made_until_ms: int) -> int:
        there = [it.revision for it in self.meters if it.state is RevisionState.IN_FORCE]
        return max((it for it in there if self.made_at_ms[it] <= made_until_ms), default=0)

    async def filling(self) -> list[int]:
        return [meter.revision for meter in self.meters if meter.state is RevisionState.FILLING]

    async def switch_filled(self, revision: int, _now_ms: int) -> Meter | None:
        for at, meter in enumerate(self.meters):
            if meter.revision == revision:
                self.meters[at] = replace(meter, state=RevisionState.IN_FORCE)
                return self.meters[at]
        return None

    async def retire(self, _now_ms: int) -> set[int]:
        return set()

    def add(self, aggregation: Aggregation, version: int, event_type: str = "t") -> Meter:
        value = None if aggregation is Aggregation.COUNT else "$.v"
        meter = Meter(
            f"m{version}", version, "default", f"m{version}", "", "", aggregation, event_type,
            value, (), 0, 0,
        )  # fmt: skip
        self.meters.append(meter)
        self.made_at_ms[version] = self.made_ms
        self.version = version
        return meter


class Deadly:
    """A port whose every call may die or fail, before or after its effect."""

    def __init__(self, port: Any, fate: Callable[[], str]) -> None:
        self._port = port
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if not callable(real) or name in ("seen_between", "close"):
            return real

        async def call(*args: Any, **named: Any) -> Any:
            fate = self._before()
            result: Awaitable[Any] = real(*args, **named)
            answer = await result
            self._after(fate)
            return answer

        async def portions(*args: Any, **named: Any) -> AsyncIterator[Any]:
            fate = self._before()
            async for portion in real(*args, **named):
                yield portion
            self._after(fate)

        return portions if name in ("usage_by_subject", "raw_events") else call

    def _before(self) -> str:
        fate = self._fate()
        if fate == "die before":
            raise Killed
        if fate == "fail before":
            raise Unavailable("away")
        return fate

    def _after(self, fate: str) -> None:
        if fate == "die after":
            raise Killed
        if fate == "fail after":
            raise Unavailable("the answer was lost")


class Hands:
    """A clock that is set by hand; the log takes its append times from it, and so its borders."""

    def __init__(self) -> None:
        self.at_ms = SLICE_SPAN_MS * 1_000

    def now_ms(self) -> int:
        return self.at_ms


class World:
    """A log, stores that outlive workers, and what was sent."""

    def __init__(
        self, folder: Path, log: SqliteLog, usage: ClickHouseUsageStore, clock: Hands
    ) -> None:
        self.folder = folder
        self.log = log
        self.clock = clock
        self.usage = usage
        self.database = open_database(f"sqlite:///{folder}/control.db")
        self.progress = SqlProgressStore(self.database)
        self.sent: dict[str, int] = {}
        self.copies = 0

    async def log_closed(self) -> None:
        """Nobody has the log open: its folder may be copied."""
        await self.log.close()

    async def log_opened(self, folder: str) -> None:
        """Go on with the log in this folder, under the number that it had."""
        number = self.log.number
        self.log = open_sqlite_log(self.folder / folder, PARTITIONS, self.clock)
        self.log.number = number

    async def send(self, events: list[tuple[str, int]]) -> None:
        packs: dict[int, list[bytes]] = {}
        for name, value in events:
            self.copies += name in self.sent
            self.sent.setdefault(name, value)
            document = {
                "specversion": "1.0", "id": name, "source": "s", "type": "t",
                "subject": f"s{int(name) % 3}", "time": f"2026-01-01T00:{int(name) % 60:02d}:00Z",
                "data": {"v": self.sent[name]}, "namespace": "default",
                "recordedtime": "2026-01-01T00:00:00Z",
            }  # fmt: skip
            number = partition_of(identity_key("default", "s", name), PARTITIONS)
            packs.setdefault(number, []).append(msgspec.json.encode(document))
        for number, texts in packs.items():
            await self.log.append(number, encode_pack(texts))

    def worker(
        self,
        meters: Meters,
        fate: Callable[[], str] = lambda: "well",
        horizon_ms: int = HORIZON_MS,
        losses_accepted: dict[int, int] | None = None,
    ) -> Aggregator:
        return Aggregator(
            self.log,
            Deadly(self.usage, fate),
            Deadly(self.progress, fate),
            meters,  # type: ignore[arg-type]
            lambda number: RocksSeenStore(self.folder / "seen" / str(number), horizon_ms),
            horizon_ms,
            losses_accepted,
        )

    async def run(self, worker: Aggregator, *, seal: bool = False) -> None:
        """Everything in the log, flushed; with `seal` every slice is finished too, where it is:
        only for workers that nothing happens to, since a border is the log's to set.
        """
        while await self._read(worker):  # again, where a slice is read again
            await worker.flush()
            await sealed(worker)
        await worker.flush()
        for number in range(PARTITIONS):
            partition = worker.partitions[number]
            if seal and partition.unsealed():
                await worker.seal(partition)

    async def _read(self, worker: Aggregator) -> int:
        """All that the log has; how much there was."""
        read = 0
        for number in range(PARTITIONS):
            await worker.open(number)
            while some := await worker.read_some(number):
                await worker.open(number)  # again, where it was given back
                read += some
        return read

    async def fill(self, worker: Aggregator) -> None:
        """Every slice that lacks a meter's revision is filled in."""
        for number in range(PARTITIONS):
            await filled_up(
                FillStores(self.usage, self.progress, self.log.number), worker.catalogue, number
            )

    async def rows(self, number: int) -> list[EventRow]:
        return await self.usage.slice_events(SliceId(self.log.number, number, 0))

    async def value(self, meter: Meter) -> int:
        rows = await self.usage.usage(UsageQuery(meter, group_by=("subject",)))
        return sum(row.value for row in rows) // UNIT

    def expected(self, meter: Meter) -> int:
        """What it counts in all."""
        counts = meter.aggregation is Aggregation.COUNT
        return len(self.sent) if counts else sum(self.sent.values())

    async def check(self, *meters: Meter) -> None:
        for meter in meters:
            assert await self.value(meter) == self.expected(meter), meter.aggregation
        account = await self.usage.accounts(self.log.number)
        assert account.new == len(self.sent)
        assert account.received == account.new + account.duplicate


async def filled_up(stores: FillStores, catalogue: Catalogue, number: int) -> int:
    """Fill in a partition until a step does nothing; how many did something."""
    steps = 0
    while (await backfilled_some(stores, catalogue, number, 0, Background())).did:
        steps += 1
    return steps


def numbered(first: int, end: int) -> list[tuple[str, int]]:
    """Events with a name and a value that follows from it."""
    return [(str(i), i * 7 % 1000) for i in range(first, end)]
