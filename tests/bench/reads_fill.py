"""A store with very many counted events, for the benchmark of reading: tallies and seals as
counting writes them, put in by SQL; their blocks by the code of the product; and raw events beside.
"""

import asyncio
import random
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.blocks import BlockMaker
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.limits import BLOCK_FAN, LATE_ROW_MS, SLICE_SPAN_MS
from meterline.window import DAY_MS, MINUTE_MS

PARTITIONS: Final = 4
BEGIN_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SLICE_EVENTS: Final = 200_000  # of all partitions together
FIRST_SLICE: Final = 10**12  # no log is as long: what came through the door lies before
PATHS, REGIONS = 7, 3
MERGES_S: Final = 900
MERGES_QUIET_S: Final = 5
_APART: Final = """SELECT table, partition FROM system.parts
WHERE active AND database = currentDatabase() AND table LIKE '%\\_by\\_subject'
GROUP BY 1, 2 HAVING count() > 1"""
GROUPS: Final = (
    "concat('[\"/path/', toString(number % 7), '\",\"region-', toString(number % 3), '\"]')"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Of what is filled in."""

    events: int
    subjects: int
    days: int
    late_share: float = 0.0

    @property
    def step_ms(self) -> float:
        """Between two events."""
        return self.days * DAY_MS / self.events

    @property
    def slices(self) -> int:
        """How many there are of each partition."""
        return -(-self.events // SLICE_EVENTS)


def columns(shape: Shape) -> str:
    """Of event `number`: when it was appended, its time (some are late), its subject and slice."""
    late = f"cityHash64(number, 1) % 1000 < {int(shape.late_share * 1000)}"
    behind = f"if({late}, cityHash64(number, 2) % {shape.days * DAY_MS}, 0)"
    return f"""toInt64({BEGIN_MS} + number * {shape.step_ms}) AS append_ms,
    greatest({BEGIN_MS}, append_ms - toInt64({behind})) AS time_ms,
    cityHash64(number, 3) % {shape.subjects} AS customer,
    concat('customer-', toString(customer)) AS subject_,
    {FIRST_SLICE} + intDiv(number, {SLICE_EVENTS}) AS slice_,
    toInt64({BEGIN_MS} + intDiv(number, {SLICE_EVENTS}) * {SLICE_EVENTS} * {shape.step_ms})
    AS slice_ms"""


def fill_statements(shape: Shape, revision: int, first: int, end: int) -> list[str]:
    """Tallies, late ones once more, and raw events as the peer has them, of events [first, end)."""
    numbers = f"numbers({first}, {end - first})"
    tally = f"""SELECT {revision}, subject_, {GROUPS}, toUInt32(intDiv(time_ms, {MINUTE_MS})), 1,
    number % {PARTITIONS}, slice_, number, toInt256(number % 1000) * 1500000000000000000, 1, 0,
    toInt128(number % 1000) * 1500000000000000000, toInt128(number % 1000) * 1500000000000000000,
    time_ms, time_ms, toFixedString('0123456789abcdef', 16), toInt128(1)
FROM (SELECT number, {columns(shape)} FROM {numbers})"""
    span = f"intDiv(slice_ms, {SLICE_SPAN_MS}) * {SLICE_SPAN_MS}"  # as `late_before` has it
    late = f"WHERE intDiv(time_ms, {MINUTE_MS}) < intDiv({span} - {LATE_ROW_MS}, {MINUTE_MS})"
    raw = f"""SELECT 'default', 'request', subject_, toDateTime64(time_ms / 1000, 3, 'UTC'),
    concat('{{"tokens": ', toString(number % 1000 * 1.5), ', "path": "/path/', toString(number % 7),
    '", "region": "region-', toString(number % 3), '"}}')
FROM (SELECT number, {columns(shape)} FROM {numbers})"""
    made = [f"INSERT INTO tallies {tally}", f"INSERT INTO raw {raw}"]
    return made + ([f"INSERT INTO late_tallies {tally} {late}"] if shape.late_share else [])


RAW: Final = """CREATE TABLE IF NOT EXISTS raw (
    namespace String, type LowCardinality(String), subject String, time DateTime64(3, 'UTC'),
    data String
) ENGINE = MergeTree PARTITION BY toYYYYMM(time) ORDER BY (namespace, type, subject, time)"""
PORTION: Final = 2_000_000


COUNTS: Final = f"""SELECT partition, slice, count() FROM tallies FINAL
WHERE slice >= {FIRST_SLICE} GROUP BY partition, slice"""
Counts = dict[tuple[int, int], int]


def fill(connection: Connection, shape: Shape, revision: int) -> Counts:
    """Put all in; a portion at a time, so that little is held. Tallies by partition and slice: two
    events of one cell have one.
    """

    async def act() -> Counts:
        await connection.execute(RAW)
        for first in range(0, shape.events, PORTION):
            end = min(first + PORTION, shape.events)
            for statement in fill_statements(shape, revision, first, end):
                await connection.execute(statement)
        await connection.execute(
            f"INSERT INTO accounts SELECT 1, number % {PARTITIONS}, {FIRST_SLICE}"
            f" + intDiv(number, {PARTITIONS}), 1, 0, 0, 0, 0, 0"
            f" FROM numbers({shape.slices * PARTITIONS})"
        )
        return {(row[0], row[1]): row[2] for row in await connection.query(COUNTS, {})}

    return asyncio.run(act())


def seal(control: Path, shape: Shape, catalogue: int, counts: Counts) -> None:
    """The seals of what was put in."""
    rows = []
    for at in range(shape.slices):
        end = min((at + 1) * SLICE_EVENTS, shape.events)
        append_ms = int(BEGIN_MS + end * shape.step_ms)
        for partition in range(PARTITIONS):
            first = FIRST_SLICE + at
            count = counts.get((partition, first), 0)
            rows.append(
                (1, partition, first, first + 1, 0, catalogue, append_ms, None, 0, count, 0, 0, 0)
            )
    with sqlite3.connect(control) as database:
        marks = ", ".join("?" * len(rows[0]))
        database.executemany(f"INSERT INTO seals VALUES ({marks})", rows)
    database.close()


async def merges_ended(url: str) -> float:
    """Wait until the server merges nothing any more, and a block that is ordered by subject is one
    part, for `MERGES_S` at most: an old store has been merged long ago. The seconds that it took.
    """
    connection, begun = Connection(url), time.perf_counter()
    quiet = 0
    while quiet < MERGES_QUIET_S and time.perf_counter() - begun < MERGES_S:
        ((merges,),) = await connection.query("SELECT count() FROM system.merges", {})
        apart = await connection.query(_APART, {})
        quiet = 0 if merges or apart else quiet + 1
        await asyncio.sleep(1)
    await connection.close()
    return time.perf_counter() - begun


async def make_blocks(url: str, control: Path, fan: int = BLOCK_FAN) -> tuple[int, float]:
    """All blocks that are due; how many there were, and the seconds that it took."""
    connection, database = Connection(url), open_database(f"sqlite:///{control}")
    maker = BlockMaker(
        1,
        PARTITIONS,
        SqlBlockLedger(database),
        ClickHouseBlockRows(connection),
        SqlCatalogueStore(database),
        SystemClock(),
        random.Random(fan),
        fan,
    )
    begun, made = time.perf_counter(), 0
    while await maker.step():
        made += 1
    took = time.perf_counter() - begun
    await connection.close()
    await database.close()
    return made, took
