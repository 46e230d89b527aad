"""What metrics cost counting, in a process of its own: `python -m tests.bench.counting_process
SERVER`, the URL of a ClickHouse server.

Installations of one loop count the same records by turns: without metrics, with them, and without
them once more, which shows what chance does. Telling the metrics is timed as well: it is far less
than what turns differ by. Rows go to the server, so its processor time is in nothing that is
compared. Prints a line of JSON: nanoseconds of processor time an event of each turn of each way, of
telling an event's share, and of a scrape.
"""

import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final
from uuid import uuid4

import uvloop

from aggregator.drivers.standing import Standing
from aggregator.housekeeping import Housekeeping
from aggregator.step import Aggregator
from meterline.backends.control_store.migrate import migrate
from meterline.backends.rocksdb import cached_bytes
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.http.scrape import Scrape
from meterline.limits import SEEN_CACHE_BYTES
from meterline.ports import SILENT
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters, counting
from meterline.runtime.wiring.adapters import CLOCK, OpenLog
from meterline.runtime.wiring.telemetry import Telemetry
from tests.bench.bench_aggregator import METERS, packs
from tests.bench.timed_recorder import TimedRecorder

WAYS: Final = ("without", "with", "without again")
TURNS: Final = 40
EVENTS: Final = 9_000  # of a turn: one flush of 6,000 events a second
SCRAPES: Final = 40


@dataclass(frozen=True, slots=True)
class Counting:
    """An installation that counts when it is told to."""

    log: OpenLog
    step: Aggregator
    housekeeping: Housekeeping
    recorder: TimedRecorder | None
    telemetry: Telemetry | None

    async def count(self) -> None:
        """Count what is in the log, write it, and say how far that is."""
        ends = [await self.log.end(number) for number in range(self.log.partitions)]
        for number, end in enumerate(ends):
            while self.step.partitions[number].next_offset < end:
                await self.step.read_some(number)
                await self.housekeeping.tick(CLOCK.now_ms())
        await self.step.flush()
        await self.housekeeping.claim(CLOCK.now_ms())


@asynccontextmanager
async def opened(folder: Path, server: str, *, measured: bool) -> AsyncIterator[Counting]:
    """An installation with the meters of other benchmarks, that is ready to count."""
    settings = Settings(data_dir=folder, usage_url=f"{server}/bench{uuid4().hex[:8]}")
    prometheus = PrometheusRecorder("aggregate")
    timed = TimedRecorder(prometheus) if measured else None
    recorder = SILENT if timed is None else timed
    async with AsyncExitStack() as stack:
        log = await adapters.open_log(settings, stack)
        database = adapters.open_control_database(settings, stack, recorder)
        await migrate(database)
        usage = await adapters.open_usage(settings, stack, recorder)
        stores = await adapters.open_all(settings, database, usage, log, recorder)
        for draft in METERS:
            await stores.stores.catalogue.create_meter("default", draft, CLOCK.now_ms())
        step, housekeeping = counting.aggregator(settings, stores, None)
        telemetry = None
        if timed is not None:
            telemetry = Telemetry(prometheus, Scrape(prometheus.exposition, ask_s=0.0))
            telemetry.of_counting(step, Standing(60.0), partial(cached_bytes, SEEN_CACHE_BYTES))
            telemetry.of_progress(stores)
        for number in range(log.partitions):
            await step.open(number)
        yield Counting(log, step, housekeeping, timed, telemetry)
        await step.flush()
        await step.close_all()


async def fill(log: OpenLog, first: int) -> None:
    """Put the events of a turn into a log."""
    numbers = range(first, first + EVENTS)
    for place, value in packs(numbers, log.partitions, lambda number: number // EVENTS % 60):
        await log.append(place, value)


async def scraped(telemetry: Telemetry) -> float:
    """Nanoseconds of processor time of a scrape, with all that it asks."""
    found = []
    for _ in range(SCRAPES):
        began_ns = time.process_time_ns()
        await telemetry.scrape.refresh()
        await telemetry.scrape.exposition("")
        found.append(time.process_time_ns() - began_ns)
    return median(found)


async def costs(folder: Path, server: str) -> dict[str, list[float]]:
    """Nanoseconds an event of each turn, of each way; the first turn is left out. And a scrape."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    chance = random.Random(70)
    async with AsyncExitStack() as stack:
        all_of_them = {}
        for way in WAYS:
            place = opened(folder / way, server, measured=way == "with")
            all_of_them[way] = await stack.enter_async_context(place)
        gc.disable()
        for turn in range(TURNS + 1):
            for way in chance.sample(WAYS, len(WAYS)):
                one = all_of_them[way]
                await fill(one.log, turn * EVENTS)
                gc.collect()
                began_ns = time.process_time_ns()
                await one.count()
                if turn:
                    found[way].append((time.process_time_ns() - began_ns) / EVENTS)
        measured = all_of_them["with"]
        assert measured.telemetry is not None
        assert measured.recorder is not None
        found["told"] = [measured.recorder.told_ns / EVENTS / (TURNS + 1)]
        found["scrape"] = [await scraped(measured.telemetry)]
    return found


def main() -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"{json.dumps(uvloop.run(costs(Path(folder), sys.argv[1])))}\n")


if __name__ == "__main__":
    main()
