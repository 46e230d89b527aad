"""How many bytes an event takes in the log and in each table of the usage store, and what other
codecs would make of them.

The events are a day of 1,000 subjects over the embedded adapters: ids as clients make them, three
meters, one event in fifty sent twice. The shares of columns show where a codec is worth a trial.
"""

import asyncio
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from aggregator.step import Aggregator
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import TABLES
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.sqlite_log import SqliteLog, open_sqlite_log
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import PARTITIONS_EMBEDDED
from meterline.window import DAY_MS, rfc3339
from tests.bench.bench_aggregator import METERS, say

EVENTS: Final = 300_000
PACK: Final = 50
BEGIN_MS: Final = 1_767_571_200_000
MEASURED: Final = ("events", "rejects", "seen", "tallies", "members")
PARTS: Final = (
    "SELECT table, sum(rows), sum(data_compressed_bytes), sum(data_uncompressed_bytes)"
    " FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table"
)
COLUMNS: Final = (
    "SELECT column, sum(column_data_compressed_bytes) AS bytes FROM system.parts_columns"
    " WHERE active AND database = currentDatabase() AND table = {table:String}"
    " GROUP BY column ORDER BY bytes DESC LIMIT 6"
)
INDEXES: Final = (
    "SELECT sum(secondary_indices_compressed_bytes) FROM system.parts"
    " WHERE active AND database = currentDatabase() AND table = {table:String}"
)
# What a trial changes in the definition of a table: a pattern, and what stands in its place.
TRIALS: Final = {
    "as it is": ("$^", ""),
    "without codecs": (r" CODEC\((?:[^()]|\([^()]*\))*\)", ""),
    "without Delta and T64": (r"(Delta|T64), ", ""),
    "with ZSTD(3)": (r"ZSTD\(1\)", "ZSTD(3)"),
}
TRIED: Final = ("events", "seen", "tallies")


class Passing:
    """A clock that is as far as the events are."""

    def __init__(self) -> None:
        self.at_ms = BEGIN_MS

    def now_ms(self) -> int:
        return self.at_ms


def made(number: int, rng: random.Random, now_ms: int) -> tuple[str, bytes]:
    """An event: its id, and its text as the log has it."""
    name = str(UUID(int=rng.getrandbits(128), version=4))
    data = {
        "tokens": rng.randrange(4_000),
        "took": rng.random(),
        "model": rng.choice(("small", "large", "huge")),
        "path": f"/v1/{rng.randrange(12)}",
        "user": f"user-{number * 7919 % 50_000}",
    }
    event = {
        "specversion": "1.0", "id": name, "source": "chat-api", "type": "request",
        "subject": f"customer-{rng.randrange(1_000):04}",
        "time": rfc3339(now_ms - rng.randrange(3_000)), "data": data,
        "namespace": "default", "recordedtime": rfc3339(now_ms),
    }  # fmt: skip
    return name, msgspec.json.encode(event)


async def filled(log: SqliteLog, clock: Passing) -> int:
    """A day of events; the bytes of their texts."""
    rng = random.Random(7)
    packs: list[list[bytes]] = [[] for _ in range(log.partitions)]
    size = 0
    for number in range(EVENTS):
        clock.at_ms = BEGIN_MS + number * DAY_MS // EVENTS
        name, text = made(number, rng, clock.at_ms)
        size += len(text)
        place = partition_of(identity_key("default", "chat-api", name), log.partitions)
        packs[place] += [text] * (1 + (number % 50 == 0))
        if len(packs[place]) >= PACK:
            await log.append(place, encode_pack(packs[place]))
            packs[place] = []
    for place, rest in enumerate(packs):
        await log.append(place, encode_pack(rest))
    return size


async def counted(log: SqliteLog, usage: ClickHouseUsageStore, folder: Path) -> None:
    """Count them all."""
    database = open_database(f"sqlite:///{folder}/control.db")
    await migrate(database)
    progress, catalogue = SqlProgressStore(database), SqlCatalogueStore(database)
    for draft in METERS:
        await catalogue.create_meter("default", draft, 0)
    log.number = await progress.register_log(log.id, log.partitions)
    worker = Aggregator(
        log, usage, progress, catalogue,
        lambda number: RocksSeenStore(folder / str(number), 35 * DAY_MS), 35 * DAY_MS,
    )  # fmt: skip
    for number in range(log.partitions):
        await worker.open(number)
        while await worker.read_some(number):
            pass
    await worker.flush()
    await worker.close_all()
    await database.close()


async def shown(connection: Connection, tables: tuple[str, ...]) -> None:
    """The bytes of an event by table, and its largest columns."""
    parts = {table: rest for table, *rest in await connection.query(PARTS, {})}
    for table in tables:
        rows, packed, whole = parts.get(table, (0, 0, 0))
        columns = await connection.query(COLUMNS, {"table": table})
        indexes = (await connection.query(INDEXES, {"table": table}))[0][0]
        top = ", ".join(f"{name} {size / EVENTS:.1f}" for name, size in columns)
        say(
            f"{table}: {rows:,} rows, {packed / EVENTS:.1f} bytes an event"
            f" ({whole / EVENTS:.0f} before compression), indexes {indexes / EVENTS:.1f}; {top}"
        )


async def tried(connection: Connection) -> None:
    """The tables once more, with other codecs."""
    for table in TRIED:
        for name, (before, after) in TRIALS.items():
            definition = TABLES[table].replace(f"EXISTS {table} ", "EXISTS trial ")
            definition = re.sub(before, after, definition)
            await connection.execute(definition)
            begun = time.perf_counter()
            await connection.execute(f"INSERT INTO trial SELECT * FROM {table}")
            written_s = time.perf_counter() - begun
            await connection.execute("OPTIMIZE TABLE trial FINAL")
            begun = time.perf_counter()
            await connection.query("SELECT sum(cityHash64(*)) FROM trial", {})
            read_s = time.perf_counter() - begun
            parts = {of: rest for of, *rest in await connection.query(PARTS, {})}
            say(
                f"{table}, {name}: {parts['trial'][1] / EVENTS:.1f} bytes an event,"
                f" written in {written_s:.2f} s, read in {read_s:.2f} s"
            )
            await connection.execute("DROP TABLE trial SYNC")


async def measured(folder: Path) -> None:
    """Fill, count and tell."""
    clock = Passing()
    log = open_sqlite_log(folder / "log", PARTITIONS_EMBEDDED, clock)
    usage = ClickHouseUsageStore(Connection(f"chdb:{folder}/usage"))
    await usage.create_tables()
    size = await filled(log, clock)
    await counted(log, usage, folder)
    await log.close()
    on_disk = sum(path.stat().st_size for path in (folder / "log").iterdir())
    say(f"{EVENTS:,} events of {size / EVENTS:.0f} bytes; the log has {on_disk / EVENTS:.1f} each")
    for table in MEASURED:
        await usage.connection.execute(f"OPTIMIZE TABLE {table} FINAL")
    await shown(usage.connection, MEASURED)
    await tried(usage.connection)
    await usage.close()


def main() -> None:
    """Print the figures; takes about two minutes."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measured(Path(folder)))


if __name__ == "__main__":
    main()
