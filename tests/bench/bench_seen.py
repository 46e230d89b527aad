"""Look-ups of keys that are not there, as nearly all are: CPU in microseconds a key, in a store of
one partition with few keys and with many, after a restart, and after one as 0.1.0 did it. Between
look-ups slices are sealed, so each figure is a mean over what waits to be merged.

`python -m tests.bench.bench_seen 20000000 2` for so many keys and a cache of so many MiB.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Final

from rocksdict import Options, Rdict

from meterline.backends import rocksdb
from meterline.backends.rocksdb import RocksSeenStore
from meterline.limits import SLICE_EVENTS_MAX
from tests.bench.bench_aggregator import say

HORIZON_MS: Final = 35 * 86_400_000
NOW_MS: Final = 1_795_000_000_000
YOUNG_SLICES: Final = 4
LOOKED_SLICES: Final = 10
LOOKS, ASKED = 300, 62  # so many times as many keys as a record of a gateway has
SETTLE_S: Final = 2.5  # files are written and merged meanwhile
PACE_S: Final = 0.05  # between two slices of the past
DEFAULTS: Final = (20_000_000, 2)  # the cache is what one of 16 partitions has of the default


def sealed(store: RocksSeenStore, number: int) -> None:
    """A full slice of keys that were never seen."""
    drawn = os.urandom(24 * SLICE_EVENTS_MAX)
    rows = (
        drawn[24 * at : 24 * at + 16]
        + (number * SLICE_EVENTS_MAX + at).to_bytes(8, "big")
        + (NOW_MS + number * 1_000).to_bytes(8, "big")
        + drawn[24 * at + 16 : 24 * at + 24]
        for at in range(SLICE_EVENTS_MAX)
    )
    store.apply(b"".join(rows), number + 1)


def look_us(store: RocksSeenStore) -> float:
    """CPU of a key, in microseconds."""
    used = 0.0
    for _ in range(LOOKS):
        keys = [os.urandom(16) for _ in range(ASKED)]
        begin = time.thread_time()
        assert not any(store.get_many(keys))
        used += time.thread_time() - begin
    return used / LOOKS / ASKED * 1e6


def looked(store: RocksSeenStore, first: int) -> str:
    """Means, the least and the most, over as many slices as are merged together, and more."""
    found = []
    for number in range(first, first + LOOKED_SLICES):
        sealed(store, number)
        time.sleep(SETTLE_S)
        found.append(look_us(store))
    return f"{mean(found):5.1f} us a key ({min(found):.1f} to {max(found):.1f})"


def without_families(path: str, options: Options, _families: object) -> Rdict:
    """As 0.1.0 opened a store."""
    return Rdict(path, options)


def turns(folder: Path, keys: int, cache_bytes: int) -> Iterator[str]:
    """What each turn found."""
    store = RocksSeenStore(folder, HORIZON_MS, cache_bytes)
    for number in range(YOUNG_SLICES):
        sealed(store, number)
    yield f"young: {looked(store, YOUNG_SLICES)}"
    aged = keys // SLICE_EVENTS_MAX
    for number in range(YOUNG_SLICES + LOOKED_SLICES, aged):
        sealed(store, number)
        time.sleep(PACE_S)
    yield f"aged: {looked(store, aged)}"
    store.close()
    store = RocksSeenStore(folder, HORIZON_MS, cache_bytes)
    yield f"aged, after a restart: {looked(store, aged + LOOKED_SLICES)}"
    store.close()
    setattr(rocksdb, "Rdict", without_families)  # noqa: B010 - mypy knows it as a class
    store = RocksSeenStore(folder, HORIZON_MS, cache_bytes)
    setattr(rocksdb, "Rdict", Rdict)  # noqa: B010
    yield f"aged, after a restart of 0.1.0: {looked(store, aged + 2 * LOOKED_SLICES)}"
    store.close()


def main() -> None:
    """Print the figures; takes some three minutes for 20,000,000 keys."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    keys, cache_mib = [*numbers, *DEFAULTS[len(numbers) :]][:2]
    with tempfile.TemporaryDirectory() as folder:
        say(f"{keys:,} keys, a cache of {cache_mib} MiB")
        for told in turns(Path(folder), keys, cache_mib * 1024 * 1024):
            say(told)


if __name__ == "__main__":
    main()
