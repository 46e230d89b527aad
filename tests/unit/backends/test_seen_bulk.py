"""Very many keys are taken into a seen store as a whole, or not at all."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Never

import pytest

from meterline.backends.rocksdb import RocksSeenStore
from meterline.event import position
from meterline.ports import SeenDamaged, Unavailable
from meterline.usage import SeenRow
from tests.simulation.raw import in_order, packed

HORIZON_MS = 1_000
KEYS = [bytes([n]) * 16 for n in range(50)]
# Killed where `sys.argv[2]` says: the store must be as it was, or have all.
LIFE = """
import asyncio, os, signal, sys
from pathlib import Path
from meterline.backends.rocksdb import RocksSeenStore
from tests.simulation.raw import packed
from tests.unit.backends.test_seen_bulk import HORIZON_MS, KEYS, rows_of
async def main():
    store = RocksSeenStore(Path(sys.argv[1]), HORIZON_MS)
    bulk = store.bulk()
    stages = [bulk.add(packed(rows_of(KEYS[:25], 7))), bulk.add(packed(rows_of(KEYS[25:], 7)))]
    stages.append(bulk.finish(9))
    for stage in stages[: int(sys.argv[2])]:
        await stage
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def rows_of(keys: Sequence[bytes], offset: int) -> list[SeenRow]:
    return [SeenRow(1, 0, offset, at, 0, 5, key, bytes(8)) for at, key in enumerate(keys)]


def left(folder: Path) -> list[Path]:
    return list(folder.glob("*.bulk-*"))


async def taken_in(store: RocksSeenStore, rows: Sequence[SeenRow], applied: int) -> None:
    bulk = store.bulk()
    generations = sorted({row.append_ms // HORIZON_MS for row in rows})
    for generation in generations:
        of = [row for row in rows if row.append_ms // HORIZON_MS == generation]
        middle = KEYS[20]
        await bulk.add(packed([row for row in of if row.key < middle]))
        await bulk.add(packed([row for row in of if row.key >= middle]))
    await bulk.finish(applied)


@pytest.mark.parametrize("seed", range(5))
async def test_both_ways_make_the_same_store(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    one, other = (RocksSeenStore(tmp_path / name, HORIZON_MS) for name in ("rows", "bulk"))
    append_ms = offset = 0
    for turn in range(20):
        rows = []
        for _ in range(rng.randrange(5)):
            append_ms += rng.randrange(400)
            offset += 1
            rows += [
                SeenRow(1, 0, offset, at, 0, append_ms, key, rng.randbytes(8))
                for at, key in enumerate(rng.sample(KEYS, 4))
            ]
        offset += 1
        one.apply(in_order(rows), offset)
        if turn % 3:  # both ways follow each other
            await taken_in(other, rows, offset)
        else:
            other.apply(in_order(rows), offset)
        if not rng.randrange(5):
            other.close()
            other = RocksSeenStore(tmp_path / "bulk", HORIZON_MS)
        assert other.applied == one.applied
        assert other.get_many(KEYS) == one.get_many(KEYS)
    one.close()
    other.close()


async def test_what_is_given_up_was_never_there(tmp_path: Path) -> None:
    store = RocksSeenStore(tmp_path, HORIZON_MS)
    store.apply(in_order(rows_of(KEYS[:3], 1)), 2)
    bulk = store.bulk()
    await bulk.add(packed(rows_of(KEYS, 7)))
    bulk.give_up()
    assert store.applied == 2
    assert store.get_many(KEYS)[3:] == [None] * 47
    assert left(tmp_path) == []
    store.close()


async def test_who_is_cancelled_leaves_no_thread_behind(tmp_path: Path) -> None:
    store = RocksSeenStore(tmp_path, HORIZON_MS)
    bulk = store.bulk()
    many = [number.to_bytes(16, "big") for number in range(30_000)]
    adding = asyncio.create_task(bulk.add(packed(rows_of(many, 7))))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    bulk.give_up()
    assert left(tmp_path) == []
    store.close()


@pytest.mark.parametrize("stages", range(4))
def test_a_kill_leaves_all_or_nothing(tmp_path: Path, stages: int) -> None:
    store = RocksSeenStore(tmp_path, HORIZON_MS)
    store.apply(in_order(rows_of(KEYS[:3], 1)), 2)
    store.close()
    command = [sys.executable, "-c", LIFE, str(tmp_path), str(stages)]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = RocksSeenStore(tmp_path, HORIZON_MS)
    found = store.get_many(KEYS)
    if stages < 3:
        assert store.applied == 2
        assert found[3:] == [None] * 47
    else:
        assert store.applied == 9
        assert [value[0] for value in found if value is not None] == [
            position(7, at % 25) for at in range(50)
        ]
    assert left(tmp_path) == []
    store.close()


async def test_files_beside_a_store_that_are_lost_are_no_damage_of_it(tmp_path: Path) -> None:
    store = RocksSeenStore(tmp_path, HORIZON_MS)
    store.apply(in_order(rows_of(KEYS[:3], 1)), 2)
    lost = [store.bulk(), store.bulk()]
    await lost[1].add(packed(rows_of(KEYS, 7)))
    for folder in left(tmp_path):
        shutil.rmtree(folder)
    with pytest.raises(Unavailable, match="No such file") as told:
        await lost[0].add(packed(rows_of(KEYS, 7)))
    assert not isinstance(told.value, SeenDamaged)
    with pytest.raises(Unavailable, match="No such file") as told:
        store.take_in(lost[1]._files, 0, 9)  # noqa: SLF001 - as they are named to it
    assert not isinstance(told.value, SeenDamaged)
    assert store.applied == 2
    assert [it is None for it in store.get_many(KEYS[:4])] == [False] * 3 + [True]
    store.close()


class Full(RocksSeenStore):
    """A store that cannot tell how far it is."""

    def _number(self, name: bytes) -> Never:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


class Damaged(RocksSeenStore):
    """A store whose own place is damaged."""

    def _number(self, name: bytes) -> Never:
        raise Exception(f"Corruption: block of {name!r}")  # noqa: TRY002 - as RocksDB's library does


async def test_a_disk_that_is_full_or_away_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No space left") as told:
        Full(tmp_path / "here", HORIZON_MS)
    assert not isinstance(told.value, SeenDamaged)
    store = RocksSeenStore(tmp_path / "here", HORIZON_MS)  # nobody holds it
    (tmp_path / "here").rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="No such file") as told:
        store.bulk()
    assert not isinstance(told.value, SeenDamaged)
    (tmp_path / "elsewhere").rename(tmp_path / "here")
    await taken_in(store, rows_of(KEYS, 7), 9)
    assert store.applied == 9
    store.close()


def test_a_store_whose_own_place_is_damaged_is_set_aside(tmp_path: Path) -> None:
    RocksSeenStore(tmp_path, HORIZON_MS).close()
    store = Damaged(tmp_path, HORIZON_MS)
    assert store.applied == 0
    assert len(list(tmp_path.glob("*.damaged-1"))) == 1
    store.close()
