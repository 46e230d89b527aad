"""One life of one embedded store: it starts, tells what it holds, takes values, and stops.

    python -m tests.disk.life STORE FOLDER NAME EXPECTED

Each line on stdout is `have VALUE`, or `took VALUE` as soon as the store said that it is durable.
EXPECTED is what lives before took, as JSON. Faults of the world end it with code 1 and words.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from hashlib import md5
from pathlib import Path

from meterline.backends.clickhouse.chdb import folder as chdb_folder
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.ports import SeenDamaged, Unavailable, Unsuitable
from meterline.usage import Flush, SeenRow
from tests.simulation.raw import in_order

HORIZON_MS = 1_000_000
FAILED = 1
OFFSETS_END = 2**40


def told(word: str, value: str) -> None:
    """A line that is out before anything else happens."""
    sys.stdout.write(f"{word} {value}\n")
    sys.stdout.flush()


def key_of(value: str) -> bytes:
    return md5(value.encode(), usedforsecurity=False).digest()


def row_of(value: str) -> SeenRow:
    """A row at a place of its own."""
    offset = int.from_bytes(key_of(value)[:4], "big")
    return SeenRow(1, 0, offset, 0, 0, 5, key_of(value), bytes(8))


async def log(folder: Path, values: Sequence[str], expected: Sequence[str]) -> None:
    """The log on SQLite."""
    store = open_sqlite_log(folder, 2, SystemClock())
    found = {record.value.decode() for record in await store.read(0, 0, 10_000)}
    for value in found.intersection(expected):
        told("have", value)
    for value in values:
        await store.append(0, value.encode())
        told("took", value)
    await store.close()


async def control(folder: Path, values: Sequence[str], expected: Sequence[str]) -> None:
    """The control store on SQLite, migrated at each start."""
    database = open_database(f"sqlite:///{folder / 'control.db'}")
    try:
        await migrate(database)
        ledger, progress = SqlSealLedger(database), SqlProgressStore(database)
        for value in expected:
            if await ledger.knows_log(value):
                told("have", value)
        for value in values:
            await progress.register_log(value, 1)
            told("took", value)
    finally:
        await database.close()


async def seen(folder: Path, values: Sequence[str], expected: Sequence[str]) -> None:
    """The seen store on RocksDB."""
    store = RocksSeenStore(folder, HORIZON_MS)
    for value, found in zip(expected, store.get_many([key_of(v) for v in expected]), strict=True):
        if found is not None:
            told("have", value)
    for value in values:
        store.apply(in_order([row_of(value)]), store.applied + 1)
        told("took", value)
    store.close()


async def usage(folder: Path, values: Sequence[str], expected: Sequence[str]) -> None:
    """The usage store on chDB."""
    chdb_folder.mend(folder)
    store = ClickHouseUsageStore(Connection(f"chdb:{folder}"))
    try:
        await store.create_tables()
        chdb_folder.sync(folder)
        found = [row.key async for rows in store.seen_between(1, 0, 0, OFFSETS_END) for row in rows]
        for value in expected:
            if key_of(value) in found:
                told("have", value)
        for value in values:
            await store.write(Flush(seen=[row_of(value)]))
            told("took", value)
    finally:
        await store.close()


STORES: dict[str, Callable[[Path, Sequence[str], Sequence[str]], Awaitable[None]]] = {
    "log": log,
    "control": control,
    "seen": seen,
    "usage": usage,
}


async def live(store: str, folder: str, name: str, expected: str) -> int:
    """Live; the exit code."""
    values = [f"{name}-{number}" for number in range(4)]
    try:
        await STORES[store](Path(folder), values, json.loads(expected))
    except (Unavailable, Unsuitable, SeenDamaged, OSError) as error:
        sys.stderr.write(f"told: {error}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(live(*sys.argv[1:])))
