"""Age and ten thousand meters beside counting: a young installation and an old one in one run,
each on servers of its own, with one Faust worker and 16 partitions.

Of each: the processor of the worker while nothing comes in, and of steady traffic what
`bench_steady` tells, twice. Then ten tenants of the old one make a meter each: how long until all
of the past is counted for them, when that was expected, and what counting was like meanwhile.

`python -m tests.bench.bench_tenants 1700000 10000 10000 60` for so many seals, meters, events a
second, and seconds of each turn. That is a year: it takes ten minutes to be made, and an hour and a
half until it is filled in. Without numbers it is a tenth of a year.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from control.v3.installation.backfill import backfill_of
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.meter import Aggregation, MeterDraft
from meterline.runtime.settings.reading import load_settings
from meterline.runtime.wiring import adapters
from tests.aged import world
from tests.aged.age import COUNTED_TYPE, Age, namespace
from tests.bench.bench_aggregator import METERS, say, services
from tests.bench.bench_steady import Bench, Working, process_us
from tests.bench.reads_fill import merges_ended

PARTITIONS: Final = 16
DEFAULTS: Final = (170_000, 10_000, 10_000, 60)  # seals, meters, events a second, seconds
YOUNG: Final = (16, 100)  # seals and meters
IDLE_BEFORE_S, IDLE_S = 60.0, 30.0  # open slices are read again meanwhile, blocks are merged
MADE: Final = 10
TOLD_AT: Final = 0.1  # of the work, the expected end is noted
LOOK_S: Final = 1.0
ASKED: Final = 20


async def idle(working: Working, words: str) -> None:
    """Print what the worker does while nothing comes in: it looks for slices to fill in, and tells
    how complete all is.
    """
    await asyncio.sleep(IDLE_BEFORE_S)
    used = process_us(working.process.pid)
    await asyncio.sleep(IDLE_S)
    share = (process_us(working.process.pid) - used) / 1e6 / IDLE_S
    say(f"{words} nothing comes in: the worker uses {share:.2%} of a core")


async def told_of_new(database: Database) -> None:
    """Print how long the question takes up to when usage of the newest meter is complete."""
    progress, store = SqlProgressStore(database), SqlCatalogueStore(database)
    newest, times = (await store.catalogue()).version, []
    for _ in range(ASKED):
        begun = time.perf_counter()
        await progress.complete_until(1, PARTITIONS, newest)
        times.append(1_000 * (time.perf_counter() - begun))
    say(f"completeness of the newest meter: {median(times):.2f} ms")


async def filled(database: Database, age: Age) -> None:
    """Ten tenants make a meter each. Print how long all of their past took."""
    progress, store = SqlProgressStore(database), SqlCatalogueStore(database)
    begun, told = time.monotonic(), ""
    for tenant in range(MADE):
        draft = MeterDraft("made", "", Aggregation.COUNT, COUNTED_TYPE)
        await store.create_meter(namespace(tenant), draft, 0)
    newest, began = (await store.catalogue()).version, False
    while True:
        going = backfill_of(await progress.fillings(1), now_ms := adapters.CLOCK.now_ms())
        passed = time.monotonic() - begun
        if going is None and began:
            break
        if going is not None:
            began = True
            share = going.slices_filled / going.slices
            if not told and share >= TOLD_AT and going.expected_end_ms is not None:
                whole = passed + (going.expected_end_ms - now_ms) / 1_000
                told = f"after {passed:.0f} s ({share:.0%} done) {whole:.0f} s were expected in all"
        await asyncio.sleep(LOOK_S)
    ends = await progress.complete_until(1, PARTITIONS, newest)
    say(f"{MADE} meters over {age.seals:,} slices: {told}; it took {passed:.0f} s ({ends})")


async def prepared(age: Age, url: str) -> None:
    """Make the stores old, and wait until they are at rest: an old store was merged long ago."""
    begun = time.monotonic()
    await world.make(load_settings(), age, METERS)
    made = time.monotonic()
    await merges_ended(url)
    say(f"# made in {made - begun:.0f} s, merged in {time.monotonic() - made:.0f} s")


async def measured(
    words: str, variables: dict[str, str], folder: Path, age: Age, pace: tuple[int, float]
) -> None:
    """Print the figures of one installation."""
    await prepared(age, variables["METERLINE_USAGE_URL"])
    bench = Bench(variables, folder, first=age.each)
    async with AsyncExitStack() as stack:
        database = adapters.open_control_database(load_settings(), stack)
        async with bench.working("usual", pace[0]) as working:
            await idle(working, words)
            for _ in range(2):
                await bench.look(working, words, *pace)
            if words == "old":
                await told_of_new(database)
                making = asyncio.create_task(filled(database, age))
                while not making.done():
                    await bench.look(working, "beside", *pace)
                await making


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures; some twenty minutes."""
    given = [*map(int, arguments), *DEFAULTS[len(arguments) :]]
    seals, meters, rate, seconds = given
    old = Age(seals, meters, PARTITIONS, adapters.CLOCK.now_ms())
    young = replace(old, seals=YOUNG[0], meters=YOUNG[1])
    for words, age in (("young", young), ("old", old)):
        with tempfile.TemporaryDirectory() as folder, services() as variables:
            variables |= {
                "METERLINE_PARTITIONS": str(PARTITIONS),
                "METERLINE_DATA_DIR": f"{folder}/data",
            }
            os.environ.update(variables)
            asyncio.run(measured(words, variables, Path(folder), age, (rate, seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
