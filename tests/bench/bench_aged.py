"""What age and tenants cost beside counting: the control store of an installation of a year with
10,000 meters, and of a young one with ten, asked the same questions.

The world is made by SQL: meters and revisions, seals, bounds of what is filled in, completeness.
`python -m tests.bench.bench_aged 100000 1000 16 sqlite:////tmp/aged.db` makes one of 100,000 seals
and 1,000 meters in 16 partitions at this control store; it must be empty (`postgresql://...` too).
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Final

from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.progress import SqlProgressStore
from tests.aged import control
from tests.aged.age import Age
from tests.bench.bench_aggregator import say

SEALS: Final = 1_700_000  # of a year with 16 partitions
METERS: Final = 10_000
PARTITIONS: Final = 16
END_MS: Final = 1_798_761_600_000  # 2027-01-01T00:00:00Z
SAMPLES: Final = 9
LATE: Final = 10  # meters that are made at the end, and lack every slice


async def made(database: Database, age: Age) -> None:
    """Put it all in; minutes for a year."""
    progress = SqlProgressStore(database)
    assert await progress.register_log("aged", age.partitions) == control.LOG
    await control.put(database, age)


async def took_ms(ask: Callable[[], Awaitable[object]]) -> float:
    """The median of some askings."""
    times = []
    for _ in range(SAMPLES):
        begun = time.perf_counter()
        await ask()
        times.append(1_000 * (time.perf_counter() - begun))
    return median(times)


async def asked(database: Database, words: str, age: Age) -> None:
    """What a worker asks every ten seconds, what every answer asks, and what a change costs."""
    progress, store = SqlProgressStore(database), SqlCatalogueStore(database)
    revisions = [meter.revision for meter in (await store.catalogue()).meters]
    assert len(revisions) == age.meters

    async def look() -> None:
        for partition in range(age.partitions):
            lacking = await progress.unsettled(1, partition, revisions)
            assert len(lacking) == LATE

    look_ms = await took_ms(look)
    old_ms = await took_ms(lambda: progress.complete_until(1, age.partitions, 1))
    new_ms = await took_ms(lambda: progress.complete_until(1, age.partitions, revisions[-1]))
    list_ms = await took_ms(lambda: progress.unfilled(1, 0, revisions[-1], 1))
    catalogue_ms = await took_ms(store.catalogue)
    say(
        f"{words}, {age.seals:,} seals, {age.meters:,} meters, {age.partitions} partitions: a look"
        f" for slices to fill in {look_ms:.1f} ms, completeness of an old meter {old_ms:.2f} ms,"
        f" of a new one {new_ms:.2f} ms, the first slice to fill in {list_ms:.2f} ms, the"
        f" catalogue {catalogue_ms:.1f} ms"
    )


async def measured(words: str, url: str, age: Age) -> None:
    """Make a world in an empty control store, and ask."""
    database = open_database(url)
    try:
        await migrate(database)
        begun = time.perf_counter()
        await made(database, age)
        say(f"{words}: made in {time.perf_counter() - begun:.0f} s")
        await asked(database, words, age)
    finally:
        await database.close()


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures."""
    if len(arguments) > 3:
        seals, meters, partitions = map(int, arguments[:3])
        asyncio.run(measured("aged", arguments[3], Age(seals, meters, partitions, END_MS, LATE)))
        return
    seals, meters, partitions = map(int, arguments or (SEALS, METERS, PARTITIONS))
    young = Age(100 * partitions, 2 * LATE, partitions, END_MS, LATE)
    for words, age in (("young", young), ("aged", Age(seals, meters, partitions, END_MS, LATE))):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measured(words, f"sqlite:///{folder}/control.db", age))


if __name__ == "__main__":
    main(sys.argv[1:])
