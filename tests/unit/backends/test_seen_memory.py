"""What seen stores hold in memory follows from a setting, not from how many keys they have."""

import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.rocksdb import RocksSeenStore, by_generation, cached_bytes
from meterline.limits import SEEN_BUFFERED_KEYS_MAX
from meterline.usage import SeenRow
from tests.simulation.raw import in_order

HORIZON_MS = 1_000_000
SLICES, SLICE = 6, 2 * SEEN_BUFFERED_KEYS_MAX
WITHIN_S = 60.0
MIB = 1024 * 1024


def slice_of(rng: Random, number: int) -> list[SeenRow]:
    return [
        SeenRow(1, 0, number * SLICE + at, 0, 0, 5, rng.randbytes(16), bytes(8))
        for at in range(SLICE)
    ]


def held(store: RocksSeenStore, what: str) -> int:
    return int(store._store.property_value(f"rocksdb.{what}") or -1)  # noqa: SLF001 - RocksDB's own


@pytest.mark.parametrize("cache_bytes", [16 * MIB, 64 * 1024])
def test_keys_are_not_kept_in_memory(tmp_path: Path, cache_bytes: int) -> None:
    rng, rows = Random(7), list[SeenRow]()
    store = RocksSeenStore(tmp_path, HORIZON_MS, cache_bytes)
    for number in range(SLICES):
        some = slice_of(rng, number)
        store.apply(in_order(some), (number + 1) * SLICE)
        rows += some
    deadline = time.monotonic() + WITHIN_S
    while held(store, "cur-size-all-mem-tables") > 2 * MIB:
        if time.monotonic() > deadline:
            pytest.fail("the keys of six slices stay in memory")
        time.sleep(0.01)
    asked = rng.sample(rows, 2_000)
    assert [found is not None for found in store.get_many([row.key for row in asked])] == [True] * (
        2_000
    )
    assert store.get_many([rng.randbytes(16) for _ in range(2_000)]) == [None] * 2_000
    # filters of ten bits a key would be 245 kB
    assert 0 <= held(store, "estimate-table-readers-mem") < SLICES * SLICE // 2
    store.close()
    again = RocksSeenStore(tmp_path, HORIZON_MS, cache_bytes)
    assert again.applied == SLICES * SLICE
    assert None not in again.get_many([row.key for row in asked])
    again.close()


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_store_that_was_there_has_filters_and_the_shared_cache(
    tmp_path: Path, restarts: int
) -> None:
    rng, cache_bytes = Random(9), 3 * MIB
    for _ in range(restarts):
        RocksSeenStore(tmp_path, HORIZON_MS, cache_bytes).close()
    store = RocksSeenStore(tmp_path, HORIZON_MS, cache_bytes)
    store.apply(in_order(slice_of(rng, 0)), SLICE)
    store._store.flush()  # noqa: SLF001 - what is in memory has no filter of files
    assert held(store, "block-cache-capacity") == cache_bytes
    assert held(store, "block-cache-usage") == cached_bytes(cache_bytes)
    told = str(store._store.property_value("rocksdb.aggregated-table-properties"))  # noqa: SLF001
    found = dict(part.strip().split("=", 1) for part in told.split(";") if "=" in part)
    assert int(found["filter block size"]) > SLICE, told  # ten bits a key
    store.close()


@given(steps=st.lists(st.integers(0, 40), max_size=30), horizon_ms=st.integers(1, 60))
def test_rows_are_cut_where_their_generation_changes(steps: list[int], horizon_ms: int) -> None:
    at_ms, rows = 0, []
    for number, step in enumerate(steps):
        at_ms += step
        rows.append(SeenRow(1, 0, number, 0, 0, at_ms, bytes([number]) * 16, bytes(8)))
    parts = [(it, bytes(part)) for it, part in by_generation(in_order(rows), horizon_ms)]
    assert b"".join(part for _, part in parts) == in_order(rows)
    generations = [row.append_ms // horizon_ms for row in rows]
    assert [it for it, _ in parts] == sorted(set(generations))
    assert [it for it, part in parts for _ in range(len(part) // 40)] == generations
