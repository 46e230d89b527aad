"""Counting as a process of its own, for the benchmark of metrics: `python -m
tests.bench.counting_process FOLDER EVENTS [measured]`. Fills an embedded log, counts it, and prints
the processor time of counting in seconds.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from meterline.backends.control_store.migrate import migrate
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.event import encode_pack, identity_key, partition_of
from meterline.http.scrape import Scrape
from meterline.limits import PACK_EVENTS_MAX
from meterline.meter import Aggregation, MeterDraft
from meterline.ports import SILENT
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters, counting
from meterline.runtime.wiring.adapters import CLOCK, Opened, OpenLog
from tests.bench.bench_aggregator import event_text


async def fill(log: OpenLog, events: int) -> None:
    """Put events into the log, in full packs."""
    packs: list[list[bytes]] = [[] for _ in range(log.partitions)]
    for number in range(events):
        name = f"{number:012d}-{number * 2654435761 % 2**32:08x}"
        place = partition_of(identity_key("default", "bench", name), log.partitions)
        packs[place].append(event_text(number, number * 2 // events))
        if len(packs[place]) == PACK_EVENTS_MAX:
            await log.append(place, encode_pack(packs[place]))
            packs[place] = []
    for place, rest in enumerate(packs):
        if rest:
            await log.append(place, encode_pack(rest))


async def count(settings: Settings, opened: Opened) -> None:
    """Count all that the log holds, as the embedded loop does."""
    step, housekeeping = counting.aggregator(settings, opened, None)
    ends = [await opened.log.end(number) for number in range(opened.log.partitions)]
    for number in range(opened.log.partitions):
        await step.open(number)
    while any(step.partitions[n].next_offset < end for n, end in enumerate(ends)):
        for number in range(opened.log.partitions):
            await step.read_some(number)
            await housekeeping.tick(CLOCK.now_ms())
    await step.flush()
    await step.close_all()


async def run(folder: Path, events: int, *, measured: bool) -> float:
    """Processor seconds of counting; scraped every second where it is measured."""
    settings = Settings(data_dir=folder)
    recorder = PrometheusRecorder("aggregate") if measured else SILENT
    async with AsyncExitStack() as stack:
        log = await adapters.open_log(settings, stack)
        database = adapters.open_control_database(settings, stack, recorder)
        await migrate(database)
        usage = await adapters.open_usage(settings, stack, recorder)
        opened = await adapters.open_all(settings, database, usage, log, recorder)
        draft = MeterDraft("tokens", "Tokens", Aggregation.SUM, "request", "$.tokens")
        await opened.stores.catalogue.create_meter("default", draft, CLOCK.now_ms())
        await fill(log, events)
        scraping = asyncio.create_task(scrape(recorder))
        before_s = time.process_time()
        await count(settings, opened)
        took_s = time.process_time() - before_s
        scraping.cancel()
        return took_s


async def scrape(recorder: object) -> None:
    """What Prometheus costs that asks every second, fifteen times as often as usual."""
    if isinstance(recorder, PrometheusRecorder):
        one = Scrape(recorder.exposition)
        while True:
            await one.look()
            await asyncio.to_thread(recorder.exposition, "")
            await asyncio.sleep(1)


if __name__ == "__main__":
    took = run(Path(sys.argv[1]), int(sys.argv[2]), measured="measured" in sys.argv[3:])
    sys.stdout.write(f"{uvloop.run(took)}\n")
