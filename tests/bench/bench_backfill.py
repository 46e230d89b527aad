"""Ten meters made over old slices: how long until they are filled in, a slice and a meter at a step
as before, and many at a step; and how fast counting is beside it.

All in one process and one folder, embedded. `python -m tests.bench.bench_backfill 200 400` has 200
slices of 400 events in each of four partitions.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aggregator.backfill.filler import Backfill, StepBounds
from aggregator.drivers.turns import fill_for_ever
from aggregator.step import Aggregator
from control.v3.installation.backfill import backfill_of
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import PARTITIONS_EMBEDDED, SLICE_SPAN_MS
from meterline.window import DAY_MS
from tests.bench.bench_aggregator import METERS, say
from tests.bench.bench_bytes import PACK, Passing, made
from tests.unit.aggregator.world import taken_on

SLICES: Final = 200  # of a partition
EVENTS: Final = 400  # of a slice
MADE: Final = 10  # meters
BACKLOG: Final = 120_000  # events that are counted meanwhile
HORIZON_MS: Final = 35 * DAY_MS
ONE_BY_ONE: Final = StepBounds(slices=1, revisions=1)
TOLD_AT: Final = 0.25  # of the work, the expected end is looked at


@dataclass(slots=True)
class Aged:
    """A log with slices that are sealed, and what counts it."""

    clock: Passing
    log: SqliteLog
    catalogue: SqlCatalogueStore
    worker: Aggregator
    rng: random.Random
    sent: int = 0
    meters: int = 0

    async def send(self, count: int) -> None:
        """New events, in packs."""
        packs: list[list[bytes]] = [[] for _ in range(self.log.partitions)]
        for _ in range(count):
            name, text = made(self.sent, self.rng, self.clock.at_ms)
            self.sent += 1
            key = identity_key("default", "chat-api", name)
            packs[partition_of(key, self.log.partitions)].append(text)
        for place, texts in enumerate(packs):
            for first in range(0, len(texts), PACK):
                await self.log.append(place, encode_pack(texts[first : first + PACK]))

    async def count(self) -> float:
        """Count all there is; seconds."""
        begun_s = time.perf_counter()
        worker, busy = self.worker, True
        while busy:
            busy = False
            for number in range(self.log.partitions):
                busy |= bool(await worker.read_some(number))
            if worker.unflushed.events >= 20_000:
                await worker.flush_soon()
        await worker.flush()
        return time.perf_counter() - begun_s

    async def make(self) -> None:
        """Meters that lack every slice."""
        for number in range(MADE):
            self.meters += 1
            draft = replace(METERS[number % len(METERS)], key=f"later-{self.meters}")
            await self.catalogue.create_meter("default", draft, 0)
        await taken_on(self.worker)
        await self.count()

    async def fill(self, bounds: StepBounds) -> tuple[float, float]:
        """Fill them in; seconds, and seconds of the processor. What is told of the end after a part
        of it is shown.
        """
        backfill, told = Backfill(self.worker, bounds), ""
        begun_s, used_s = time.perf_counter(), time.process_time()
        while await backfill.turn(_now_ms()):
            if not told:
                told = await self._told(begun_s)
        took_s, used_s = time.perf_counter() - begun_s, time.process_time() - used_s
        if told:
            say(f"    {told}; it took {took_s:.1f} s")
        return took_s, used_s

    async def _told(self, begun_s: float) -> str:
        now_ms = _now_ms()
        fillings = await self.worker.progress.fillings(self.log.number)
        going = backfill_of(fillings, now_ms)
        every = len(fillings) == self.log.partitions  # partitions are filled in one after another
        if going is None or not every or going.slices_filled < TOLD_AT * going.slices:
            return ""
        assert going.expected_end_ms is not None, "something is filled in"
        passed_s = time.perf_counter() - begun_s
        whole_s = passed_s + (going.expected_end_ms - now_ms) / 1_000
        share = going.slices_filled / going.slices
        return f"after {passed_s:.1f} s ({share:.0%} done) {whole_s:.1f} s were expected in all"


def _now_ms() -> int:
    return SystemClock().now_ms()


async def opened(folder: Path) -> Aged:
    """New stores."""
    clock, database = Passing(), open_database(f"sqlite:///{folder}/control.db")
    await migrate(database)
    log = open_sqlite_log(folder / "log", PARTITIONS_EMBEDDED, clock)
    usage = ClickHouseUsageStore(Connection(f"chdb:{folder}/usage"))
    await usage.create_tables()
    progress, catalogue = SqlProgressStore(database), SqlCatalogueStore(database)
    log.number = await progress.register_log(log.id, log.partitions)
    worker = Aggregator(
        log, usage, progress, catalogue,
        lambda number: RocksSeenStore(folder / f"seen{number}", HORIZON_MS), HORIZON_MS,
    )  # fmt: skip
    for number in range(log.partitions):
        await worker.open(number)
    return Aged(clock, log, catalogue, worker, random.Random(7))


async def beside(aged: Aged, backfill: Backfill | None) -> float:
    """Events a second of counting a backlog, with backfill beside it or without."""
    await aged.send(BACKLOG)
    filling = None
    if backfill is not None:
        filling = asyncio.create_task(fill_for_ever(backfill, SystemClock(), lambda: 0))
    took_s = await aged.count()
    if filling is not None:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
    return BACKLOG / took_s


async def counted_beside(aged: Aged) -> None:
    """How fast a backlog is counted, alone and beside backfill, three times each."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(6):
        filled = bool(turn % 2)
        if filled:
            await aged.make()
        rates[filled].append(await beside(aged, Backfill(aged.worker) if filled else None))
        left = await aged.worker.progress.fillings(aged.log.number)
        what = ", beside backfill" * filled
        slices = sum(it.slices_left for it in left)
        say(f"  counting {rates[filled][-1]:,.0f} events/s{what}, {slices:,} slices left")
        while filled and await (Backfill(aged.worker)).turn(_now_ms()):
            pass
    alone, together = (sum(rates[it]) / len(rates[it]) for it in (False, True))
    say(f"  beside backfill counting has {together / alone:.1%} of its rate")


async def measured(slices: int, events: int, folder: Path) -> None:
    """Make the slices, then the meters."""
    aged = await opened(folder)
    for _ in range(slices):
        await aged.send(events * aged.log.partitions)
        await aged.count()
        aged.clock.at_ms += SLICE_SPAN_MS
    await aged.send(aged.log.partitions)  # they end the last slices
    await aged.count()
    say(f"{aged.sent:,} events in {slices * aged.log.partitions:,} slices, {MADE} new meters")
    took = []
    for words, bounds in (("a slice and a meter", ONE_BY_ONE), ("many", StepBounds())):
        await aged.make()
        took.append(await aged.fill(bounds))
        say(f"  {words} at a step: {took[-1][0]:.1f} s, {took[-1][1]:.1f} s of the processor")
    (before_s, before_used_s), (after_s, after_used_s) = took
    faster, less = before_s / after_s, before_used_s / after_used_s
    say(f"  {faster:.1f} times as fast, for 1 part of {less:.1f} of the work")
    await counted_beside(aged)
    await aged.worker.close_all()
    await aged.log.close()


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures; some minutes."""
    slices, events = map(int, arguments or (SLICES, EVENTS))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measured(slices, events, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
