"""The aggregator's step over real embedded adapters, killed between any two effects."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aggregator.backfill import backfilled_one
from aggregator.catch_up import LogTruncated
from aggregator.completeness import Completeness
from aggregator.step import Aggregator, CountBackDiffers
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clock import SystemClock
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.sql.engine import open_database
from meterline.backends.sql.migrate import migrate
from meterline.backends.sql.progress import SqlProgressStore
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import identity_key, partition_of
from meterline.limits import COUNT_BACK_TRIES_MAX, SLICE_EVENTS_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, Meter
from meterline.number import UNIT
from meterline.pack import encode_pack
from meterline.ports import Unavailable
from meterline.usage import UsageQuery

HORIZON_MS = 35 * 86_400_000
PARTITIONS = 2


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Meters:
    """A `CatalogueStore` as far as the aggregator asks it."""

    version: int
    meters: list[Meter] = field(default_factory=list)

    async def catalogue_version(self) -> int:
        return self.version

    async def catalogue(self) -> Catalogue:
        return Catalogue(self.version, tuple(self.meters))

    def add(self, aggregation: Aggregation, version: int) -> Meter:
        value = None if aggregation is Aggregation.COUNT else "$.v"
        meter = Meter(
            f"m{version}", version, "default", f"m{version}", "", "", aggregation, "t", value,
            (), 0, 0,
        )  # fmt: skip
        self.meters.append(meter)
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
            fate = self._fate()
            if fate == "die before":
                raise Killed
            if fate == "fail before":
                raise Unavailable("away")
            result: Awaitable[Any] = real(*args, **named)
            answer = await result
            if fate == "die after":
                raise Killed
            if fate == "fail after":
                raise Unavailable("the answer was lost")
            return answer

        return call


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

    def worker(self, meters: Meters, fate: Callable[[], str] = lambda: "well") -> Aggregator:
        return Aggregator(
            self.log,
            Deadly(self.usage, fate),
            Deadly(self.progress, fate),
            meters,  # type: ignore[arg-type]
            lambda number: RocksSeenStore(self.folder / "seen" / str(number), HORIZON_MS),
            HORIZON_MS,
        )

    async def run(self, worker: Aggregator, *, seal: bool = False) -> None:
        """Everything in the log, flushed; with `seal` every slice is finished too, where it is:
        only for workers that nothing happens to, since a border is the log's to set.
        """
        for number in range(PARTITIONS):
            await worker.open(number)
            while await worker.read_some(number):
                pass
        await worker.flush()
        for number in range(PARTITIONS):
            partition = worker.partitions[number]
            if seal and partition.slice is not None:
                await worker.seal(partition)

    async def value(self, meter: Meter) -> int:
        rows = await self.usage.usage(UsageQuery(meter, group_by=("subject",)))
        return sum(row.value for row in rows) // UNIT

    async def check(self, *meters: Meter) -> None:
        for meter in meters:
            counts = meter.aggregation is Aggregation.COUNT
            expected = len(self.sent) if counts else sum(self.sent.values())
            assert await self.value(meter) == expected, meter.aggregation
        account = await self.usage.accounts(self.log.number)
        assert account.new == len(self.sent)
        assert account.received == account.new + account.duplicate


@pytest.fixture
async def world(
    tmp_path: Path, chdb_url: str, fresh_numbers: Iterator[int]
) -> AsyncIterator[World]:
    usage = ClickHouseUsageStore(Connection(chdb_url))
    await usage.create_tables()
    clock = Hands()
    log = open_sqlite_log(tmp_path / "log", PARTITIONS, clock)
    log.number = next(fresh_numbers)
    made = World(tmp_path, log, usage, clock)
    await migrate(made.database)
    yield made
    await log.close()
    await usage.close()
    await made.database.close()


def numbered(first: int, end: int) -> list[tuple[str, int]]:
    return [(str(i), i * 7 % 1000) for i in range(first, end)]


async def test_events_sent_twice_count_once_over_restarts(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 100))
    worker = world.worker(meters)
    await world.run(worker)
    await worker.close_all()
    await world.send(numbered(50, 150))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    await worker.close_all()
    await world.send(numbered(0, 150))
    worker = world.worker(meters)
    await world.run(worker)
    await world.check(meter)
    await worker.close_all()


@pytest.mark.parametrize("seed", range(20))
async def test_killed_and_failing_between_any_two_effects(
    world: World, fresh_numbers: Iterator[int], seed: int
) -> None:
    rng = random.Random(seed)
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    second: Meter | None = None
    fates = ["die before", "die after", "fail before", "fail after"]
    happened: Counter[str] = Counter()

    def fate() -> str:
        met = rng.choice(fates) if rng.random() < 0.12 else "well"
        happened[met] += 1
        return met

    worker = world.worker(meters, fate)
    for turn in range(8):
        world.clock.at_ms += rng.randrange(SLICE_SPAN_MS)
        start = rng.randrange(60)
        await world.send(numbered(start, start + rng.randrange(1, 40)))
        if turn == 4:
            second = meters.add(Aggregation.COUNT, next(fresh_numbers))
        if rng.random() < 0.1:
            await worker.close_all()
            for path in (world.folder / "seen").glob("*/*"):
                path.unlink()  # the seen store is lost
        try:
            await worker.refresh_catalogue()
            await world.run(worker)
        except Unavailable:
            continue
        except Killed:
            await worker.close_all()
            worker = world.worker(meters, fate)
    await worker.close_all()
    assert second is not None
    assert happened["well"] < sum(happened.values()), "the fates must bite"
    worker = world.worker(meters)
    await world.run(worker)
    sealed = [await world.progress.last_seal(world.log.number, n) for n in range(PARTITIONS)]
    assert None not in sealed, "borders were crossed"
    for number in range(PARTITIONS):
        while await backfilled_one(
            world.usage, world.progress, worker.catalogue, world.log.number, number
        ):
            pass
    await world.check(first, second)
    await worker.close_all()


async def test_a_meter_created_after_its_events_is_filled_in(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    first = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.send(numbered(0, 60))
    await world.run(worker, seal=True)
    await world.send(numbered(60, 90))
    await world.run(worker)  # an open slice, which is read again
    later = meters.add(Aggregation.SUM, next(fresh_numbers))
    assert await worker.refresh_catalogue()
    await world.run(worker)
    complete = world.progress.complete_until
    completeness = Completeness(worker, lag_ms=0)
    await completeness.probe(range(PARTITIONS), 5_000)
    await completeness.claim()
    assert await complete(world.log.number, PARTITIONS, first.revision) == 5_000
    assert await complete(world.log.number, PARTITIONS, later.revision) is None, "not filled yet"
    for number in range(PARTITIONS):
        while await backfilled_one(
            world.usage, world.progress, worker.catalogue, world.log.number, number
        ):
            pass
    assert await complete(world.log.number, PARTITIONS, later.revision) == 5_000
    await world.check(first, later)
    await worker.close_all()


async def test_no_claim_before_everything_below_the_end_is_durable(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.run(worker)
    completeness = Completeness(worker, lag_ms=11_000)
    await world.send(numbered(0, 30))
    await completeness.probe(range(PARTITIONS), 100_000)
    await completeness.claim()
    log = world.log.number
    assert await world.progress.complete_until(log, PARTITIONS, meter.revision) is None
    await world.run(worker)
    await completeness.claim()
    assert await world.progress.complete_until(log, PARTITIONS, meter.revision) == 89_000
    await worker.close_all()


async def test_claims_wait_for_the_inbox(world: World, fresh_numbers: Iterator[int]) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    await world.run(worker)
    answers = iter([None, 40_000, 200_000])

    async def drained(_now_ms: int) -> int | None:
        return next(answers)

    completeness = Completeness(worker, 11_000, drained)
    for expected in (None, 40_000, 89_000):
        await completeness.probe(range(PARTITIONS), 100_000)
        await completeness.claim()
        until = await world.progress.complete_until(world.log.number, PARTITIONS, meter.revision)
        assert until == expected
    await worker.close_all()


async def test_a_store_that_loses_rows_is_noticed_and_repaired(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    real = world.usage.write
    lost: list[object] = []

    async def forgetful(flush: Any) -> None:
        if not lost and flush.tallies:
            lost.append(flush.tallies.pop())
        await real(flush)

    world.usage.write = forgetful  # type: ignore[method-assign]
    await world.run(worker, seal=True)
    assert lost
    await world.run(worker, seal=True)
    await world.check(meter)
    await worker.close_all()


async def test_a_store_that_always_differs_stops_the_worker_with_words(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    real = world.usage.write

    async def forgetful(flush: Any) -> None:
        flush.tallies.clear()
        await real(flush)

    world.usage.write = forgetful  # type: ignore[method-assign]
    for _ in range(COUNT_BACK_TRIES_MAX - 1):
        await world.run(worker, seal=True)
    with pytest.raises(CountBackDiffers, match="Nothing is lost"):
        await world.run(worker, seal=True)
    await worker.close_all()


async def test_a_log_made_anew_stops_the_worker_with_words(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 40))
    worker = world.worker(meters)
    await world.run(worker, seal=True)
    await worker.close_all()
    number = world.log.number
    await world.log.close()
    world.log = open_sqlite_log(world.folder / "other", PARTITIONS, SystemClock())
    world.log.number = number
    with pytest.raises(LogTruncated, match="made anew"):
        await world.worker(meters).open(0)


async def test_slices_end_where_the_log_says(world: World, fresh_numbers: Iterator[int]) -> None:
    meters = Meters(0)
    meter = meters.add(Aggregation.COUNT, next(fresh_numbers))
    document = {
        "specversion": "1.0", "source": "s", "type": "t", "subject": "x",
        "namespace": "default", "recordedtime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    packs = SLICE_EVENTS_MAX // 500 + 2
    for pack in range(packs):
        texts = [msgspec.json.encode({**document, "id": f"{pack}.{place}"}) for place in range(500)]
        await world.log.append(0, encode_pack(texts))
    worker = world.worker(meters)
    await world.run(worker)
    seal = await world.progress.last_seal(world.log.number, 0)
    assert seal is not None
    assert seal.events <= SLICE_EVENTS_MAX
    assert seal.end <= packs
    assert await world.value(meter) == packs * 500
    await worker.close_all()
