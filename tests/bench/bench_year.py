"""A year, with everything kept, with old evidence dropped, and with old usage by minute dropped,
too: bytes by table, and queries at the end beside those at the start.

Of each month one day is lived: its events are counted by the embedded adapters, slice by slice;
blocks are made and old rows dropped as the product does it, by a clock that jumps. Each of these
years is a process of its own. `python -m tests.bench.bench_year 300000 24` lives a smaller one, of
so many slices a day and partition.
"""

import asyncio
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from aggregator.backfill.filler import FillStores, backfilled_some
from aggregator.blocks import BlockMaker
from aggregator.retention import Retention
from aggregator.slice.background import Background
from aggregator.step import Aggregator
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.holdings import ClickHouseHoldings, ClickHousePeriods
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import (
    BLOCK_KEPT_MS,
    PARTITIONS_EMBEDDED,
    RETENTION_NOTICE_MS,
    SLICE_SPAN_MS,
)
from meterline.usage import RetentionTerms, UsageIntegrity, UsageQuery
from meterline.window import DAY_MS, WindowSize
from tests.bench.bench_aggregator import METERS, say
from tests.bench.bench_bytes import BEGIN_MS, PACK, PARTS, Passing, made

EVENTS: Final = 10_000_000
MONTHS: Final = 12
MONTH_MS: Final = 30 * DAY_MS
SLICES: Final = DAY_MS // SLICE_SPAN_MS
HORIZON_MS: Final = 35 * DAY_MS
LOG_KEPT_MS: Final = 7 * DAY_MS
SAMPLES: Final = 9
KEPT: Final = RetentionTerms(60 * DAY_MS, 60 * DAY_MS, 60 * DAY_MS)
TERMS: Final = {
    "kept": RetentionTerms(),
    "dropped": KEPT,
    "dropped-with-minutes": replace(KEPT, minutes_ms=90 * DAY_MS),
}


@dataclass(slots=True)
class Year:
    """Everything that lives through it."""

    events: int
    slices: int  # of a day
    clock: Passing
    log: SqliteLog
    usage: ClickHouseUsageStore
    database: Database
    worker: Aggregator
    maker: BlockMaker
    retention: Retention
    integrity: UsageIntegrity
    rng: random.Random
    count: int = 0
    begun_ms: int = 0  # of the last day

    async def day(self, begin_ms: int) -> None:
        """The events of a day are sent and counted; then what is done beside counting."""
        self.begun_ms = begin_ms
        each = self.events // MONTHS // self.slices
        for number in range(self.slices):
            self.clock.at_ms = begin_ms + number * DAY_MS // self.slices + 1
            await self._sent(each)
            if number % 12 == 11:
                await self._counted()
        await self._counted()
        await self._kept_house()

    async def _sent(self, count: int) -> None:
        packs: list[list[bytes]] = [[] for _ in range(self.log.partitions)]
        for _ in range(count):
            name, text = made(self.count, self.rng, self.clock.at_ms)
            self.count += 1
            key = identity_key("default", "chat-api", name)
            packs[partition_of(key, self.log.partitions)].append(text)
        for place, texts in enumerate(packs):
            for first in range(0, max(1, len(texts)), PACK):
                await self.log.append(place, encode_pack(texts[first : first + PACK]))

    async def _counted(self) -> None:
        worker = self.worker
        for number in range(self.log.partitions):
            while await worker.read_some(number):
                pass
        await worker.flush()
        until_ms = dict.fromkeys(range(self.log.partitions), self.clock.at_ms)
        await worker.progress.complete(self.log.number, worker.catalogue.version, until_ms)

    async def _kept_house(self) -> None:
        worker, log, clock = self.worker, self.log, self.clock
        stores, idle = FillStores(self.usage, worker.progress, log.number), Background()
        for number in range(log.partitions):
            while (await backfilled_some(stores, worker.catalogue, number, clock.at_ms, idle)).did:
                pass
        while await self.maker.step():
            pass
        for _ in range(2):  # notices, then drops
            await self.retention.turn(clock.at_ms)
            clock.at_ms += RETENTION_NOTICE_MS + BLOCK_KEPT_MS
        await self.maker.sweep()
        for _ in range(12):
            await self.retention.sum_turn(clock.at_ms)
        for number, partition in worker.partitions.items():
            before = max(0, partition.sealed_end - 1)
            await log.trim(number, before, clock.at_ms - LOG_KEPT_MS)

    async def asked(self, words: str) -> None:
        """How long answers take: the usage of the day, then what is asked of both stores."""
        log, to_ms = self.log, self.begun_ms + MONTH_MS
        meter = self.worker.catalogue.meters[1]
        query = UsageQuery(
            meter,
            self.begun_ms // DAY_MS * DAY_MS,
            to_ms // DAY_MS * DAY_MS,
            WindowSize.DAY,
            group_by=("subject",),
        )
        took: list[list[float]] = []
        for _ in range(SAMPLES):
            begun = [time.perf_counter()]
            assert await self.usage.usage(query)
            begun.append(time.perf_counter())
            await self.worker.progress.complete_until(log.number, log.partitions, meter.revision)
            begun.append(time.perf_counter())
            await self.integrity.check()
            begun.append(time.perf_counter())
            took.append([1_000 * (end - at) for at, end in pairwise(begun)])
        usage, complete, compared = (median(one) for one in zip(*took, strict=True))
        say(
            f"{words}: a month by day and subject {usage:.1f} ms, completeness {complete:.2f} ms,"
            f" comparison of both stores {compared:.1f} ms"
        )


async def opened(sizes: tuple[int, int], folder: Path, terms: RetentionTerms) -> Year:
    """New stores, as the embedded set-up wires them."""
    clock, database = Passing(), open_database(f"sqlite:///{folder}/control.db")
    await migrate(database)
    log = open_sqlite_log(folder / "log", PARTITIONS_EMBEDDED, clock)
    usage = ClickHouseUsageStore(Connection(f"chdb:{folder}/usage"))
    await usage.create_tables()
    progress, catalogue = SqlProgressStore(database), SqlCatalogueStore(database)
    for draft in METERS:
        await catalogue.create_meter("default", draft, 0)
    log.number = await progress.register_log(log.id, log.partitions)
    worker = Aggregator(
        log, usage, progress, catalogue,
        lambda number: RocksSeenStore(folder / f"seen{number}", HORIZON_MS), HORIZON_MS,
    )  # fmt: skip
    for number in range(log.partitions):
        await worker.open(number)
    ledger, connection = SqlBlockLedger(database), usage.connection
    usage.read_blocks(BlockSnapshot(ledger, log.number))
    maker = BlockMaker(
        log.number, log.partitions, ledger, ClickHouseBlockRows(connection), catalogue, clock,
        random.Random(1),
    )  # fmt: skip
    retention = Retention(ClickHousePeriods(connection), SqlRetention(database), terms, log.number)
    holdings, seals = ClickHouseHoldings(connection), SqlSealLedger(database)
    integrity = UsageIntegrity(seals, holdings, log.number, log.partitions)
    await integrity.begin("year", None)
    return Year(*sizes, clock, log, usage, database, worker, maker, retention, integrity,
                random.Random(7))  # fmt: skip


async def told(year: Year, folder: Path) -> None:
    """Bytes of both stores and of the log."""
    rows_of = await year.usage.connection.query(PARTS, {})
    tables = sorted((str(it[0]), int(it[1]), int(it[2])) for it in rows_of)
    for table, rows, size in tables:
        say(f"  {table}: {rows:,} rows, {size:,} bytes")
    say(f"  usage store: {sum(size for _, _, size in tables):,} bytes")
    for what in ("log", "seen0"):
        size = sum(path.stat().st_size for path in (folder / what).rglob("*") if path.is_file())
        say(f"  {what}: {size:,} bytes")
    with sqlite3.connect(folder / "control.db") as control:
        counts = [
            f"{control.execute(f'SELECT count(*) FROM {table}').fetchone()[0]:,} {table}"
            for table in ("seals", "seal_sums", "fill_bounds", "completeness", "blocks")
        ]
    control.close()
    say(f"  control store: {(folder / 'control.db').stat().st_size:,} bytes; {', '.join(counts)}")


async def lived(sizes: tuple[int, int], terms: RetentionTerms) -> None:
    """A whole year."""
    with tempfile.TemporaryDirectory() as name:
        year = await opened(sizes, Path(name), terms)
        for month in range(MONTHS):
            await year.day(BEGIN_MS + month * MONTH_MS)
            if month in (0, MONTHS - 1):
                await year.asked(f"month {month + 1}")
        await told(year, Path(name))
        await year.worker.close_all()
        await year.log.close()
        await year.usage.close()
        await year.database.close()


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures; 10 million events take some hours."""
    events, slices = map(int, arguments or (EVENTS, SLICES))
    for name in TERMS:
        say(f"{events:,} events on {MONTHS} days of {slices} slices, old evidence {name}:")
        command = [sys.executable, "-m", "tests.bench.bench_year", str(events), str(slices), name]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    if sys.argv[-1] in TERMS:
        asyncio.run(lived((int(sys.argv[1]), int(sys.argv[2])), TERMS[sys.argv[-1]]))
    else:
        main(sys.argv[1:])
