"""A partition with very many keys that a worker takes on without having their files: how long until
it counts again, and for how long the worker's other partitions stand meanwhile; and the same worker
after `kill -9`, when it finds its disk as it was.

`python -m tests.bench.bench_moved 2000000` takes so many keys. Events come in all the while. How
far each partition is counted is read from the control store.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.kafka.log import KafkaLog
from meterline.backends.rocksdb import RocksSeenStore
from meterline.runtime.settings.reading import load_settings
from meterline.runtime.wiring import adapters
from meterline.window import DAY_MS
from tests.bench.aged_seen import RECORD_KEYS, SeenKeys, appended, rows_made, sealed
from tests.bench.bench_aggregator import METERS, packs, ready, role, say, services
from tests.simulation.raw import in_order

KEYS: Final = 20_000_000
BEFORE_KEYS: Final = 500_000  # that are brought one row after the other, as it was before
PARTITIONS: Final = 4
PACK: Final = 25  # events of one append
APPEND_EVERY_S: Final = 0.025  # 1,000 events a second
LOOK_EVERY_S: Final = 0.05
PORT: Final = 18_741
SPAN_DAYS: Final = 30
WITHIN_S: Final = 900
KILLS: Final = 3
OLD: Final = 0  # the partition that has the keys


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds from the start of a process, and its processor time until it was ready, and until it
    counted: that is the same whatever else the machine does.
    """

    there_s: float
    ready_s: float
    ready_cpu_s: float
    there_cpu_s: float

    def __str__(self) -> str:
        """As a part of a sentence."""
        return (
            f"counts after {self.there_s:.1f} s, {self.there_s - self.ready_s:.1f} s after it was"
            f" ready ({self.ready_cpu_s:.2f} s of processor time until it was ready,"
            f" {self.there_cpu_s - self.ready_cpu_s:.2f} s from then on)"
        )


@dataclass(slots=True)
class Looks:
    """When each partition was last seen to move, and how long it stood at most."""

    ends: dict[int, int] = field(default_factory=dict)
    moved_s: dict[int, float] = field(default_factory=dict)
    stood_s: dict[int, float] = field(default_factory=dict)

    def look(self, ends: dict[int, int], at_s: float) -> None:
        """Ends as they are told now."""
        for number, end in ends.items():
            if end <= self.ends.get(number, 0):
                continue
            if number in self.moved_s:
                stood_s = at_s - self.moved_s[number]
                self.stood_s[number] = max(stood_s, self.stood_s.get(number, 0.0))
            self.ends[number], self.moved_s[number] = end, at_s

    def longest_s(self) -> float:
        """How long one of the others stood at most."""
        return max((s for number, s in self.stood_s.items() if number != OLD), default=0.0)


@dataclass(frozen=True, slots=True)
class Moved:
    """What is asked and fed while workers come and go."""

    log: KafkaLog
    progress: SqlProgressStore
    variables: dict[str, str]
    folder: Path

    async def feed(self) -> None:
        """Events for all partitions, until cancelled."""
        endless, minute_of = itertools.count(), lambda number: number // 60_000 % 60
        for place, value in packs(endless, PARTITIONS, minute_of, PACK):
            await self.log.append(place, value)
            await asyncio.sleep(APPEND_EVERY_S)

    def worker(self) -> subprocess.Popen[bytes]:
        """A worker with a name of its own. Its folder outlives it."""
        return role("aggregate", self.variables, self.folder, PORT)

    async def counts(self, process: subprocess.Popen[bytes], looks: Looks, beyond: int) -> Took:
        """Return when the old partition is beyond an offset. The others are looked at meanwhile."""
        begun_s = time.monotonic()
        getting_ready = asyncio.create_task(ready_at(process))
        while looks.ends.get(OLD, 0) <= beyond:
            assert process.poll() is None, "the worker ended; its words are above"
            assert time.monotonic() - begun_s < WITHIN_S
            await self.look(looks)
        there_s, there_cpu_s = time.monotonic(), cpu_s(process)
        ready_s, ready_cpu_s = await getting_ready
        there_s, there_cpu_s = max(there_s, ready_s), max(there_cpu_s, ready_cpu_s)
        return Took(there_s - begun_s, ready_s - begun_s, ready_cpu_s, there_cpu_s)

    async def look(self, looks: Looks) -> None:
        """How far all is."""
        ends = await self.progress.flushed_ends(self.log.number, 0)
        looks.look(ends, time.monotonic())
        await asyncio.sleep(LOOK_EVERY_S)

    async def quiet(self, looks: Looks, for_s: float) -> None:
        """Only look."""
        until_s = time.monotonic() + for_s
        while time.monotonic() < until_s:
            await self.look(looks)


async def ready_at(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """When it is ready, and its processor time until then."""
    await ready(f"http://127.0.0.1:{PORT}", process)
    return time.monotonic(), cpu_s(process)


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a process so far."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


async def rows_one_by_one(usage: ClickHouseUsageStore, of: SeenKeys, folder: Path) -> float:
    """Seconds a million keys, as it was before: rows as tuples, applied by position."""
    store = RocksSeenStore(folder, 35 * DAY_MS)
    begun_s, count = time.monotonic(), 0
    async for rows in usage.seen_between(of.log, of.partition, 0, BEFORE_KEYS // 1_000):
        store.apply(in_order(rows), rows[-1].offset)
        count += len(rows)
    store.close()
    return (time.monotonic() - begun_s) / count * 1e6


async def measured(variables: dict[str, str], folder: Path, keys: int) -> None:
    """Make it old, then take it on."""
    async with AsyncExitStack() as stack:
        settings = load_settings()
        database = adapters.open_control_database(settings, stack)
        catalogue = SqlCatalogueStore(database)
        for draft in METERS[:1]:
            await catalogue.create_meter("default", draft, 0)
        log = await adapters.open_log(settings, stack)
        assert isinstance(log, KafkaLog)
        usage = await adapters.open_usage(settings, stack)
        await usage.create_tables()
        opened = await adapters.open_all(settings, database, usage, log)
        await opened.integrity.check()
        now_ms = adapters.CLOCK.now_ms()
        old = SeenKeys(log.number, OLD, keys, now_ms - SPAN_DAYS * DAY_MS, now_ms)
        begun_s = time.monotonic()
        await rows_made(usage.connection, old)
        await appended(log, old)
        progress = SqlProgressStore(database)
        await sealed(usage, progress, await catalogue.catalogue(), old)
        say(f"# {keys:,} keys were made in {time.monotonic() - begun_s:.0f} s")
        before_s = await rows_one_by_one(usage, old, folder / "before")
        moved = Moved(log, progress, variables, folder)
        feeding = asyncio.create_task(moved.feed())
        try:
            await taken_on(moved, keys, before_s)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def taken_on(moved: Moved, keys: int, before_s: float) -> None:
    """By a worker with an empty folder; then it is killed, and comes back."""
    looks, process = Looks(), moved.worker()
    try:
        took = await moved.counts(process, looks, -(-keys // RECORD_KEYS))
        memory = psutil.Process(process.pid).memory_info().rss
        steady = Looks()
        await moved.quiet(looks, 2)
        await moved.quiet(steady, 10)
        say(
            f"a partition with {keys:,} keys, worker with an empty folder: {took}. To bring the"
            f" keys one row after the other, as before, takes {before_s * keys / 1e6:,.0f} s. Its"
            f" other partitions stood for {looks.longest_s():.2f} s at most, and later, when"
            f" nothing catches up, {steady.longest_s():.2f} s; {memory / 2**20:,.0f} MiB resident"
        )
        for _ in range(KILLS):
            process.send_signal(signal.SIGKILL)
            process.wait()
            await moved.look(looks)
            process = moved.worker()
            took = await moved.counts(process, Looks(), looks.ends[OLD])
            say(f"the same worker after kill -9, with its disk: {took}")
            await moved.quiet(looks, 2)
    finally:
        process.terminate()
        process.wait(30)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures."""
    keys = int(arguments[0]) if arguments else KEYS
    with tempfile.TemporaryDirectory() as folder, services() as variables:
        variables |= {
            "METERLINE_PARTITIONS": str(PARTITIONS),
            "METERLINE_FLUSH_INTERVAL_MS": "200",
            "METERLINE_INSTANCE_ID": f"bench-{uuid4().hex[:8]}",
            "METERLINE_DATA_DIR": f"{folder}/data",
        }
        os.environ.update(variables)
        subprocess.run([sys.executable, "-m", "meterline.runtime", "migrate"], check=True)
        asyncio.run(measured(variables, Path(folder), keys))


if __name__ == "__main__":
    main(sys.argv[1:])
