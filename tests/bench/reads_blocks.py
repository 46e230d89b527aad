"""The blocks of a store of very many events, put in by SQL: made of as many tallies as they have,
they would take hours. They lie as merging leaves them, and their rows are those that the code of
the product would write; nothing counts them back but the benchmark itself.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from meterline.backends.clickhouse.blocks import sql
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.blocks.upkeep import PROGRESS_MS
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.limits import BLOCK_FAN, BLOCK_TALLIES_MAX
from meterline.usage import Block, Stretch, block_number
from tests.bench.reads_fill import (
    BEGIN_MS,
    FIRST_SLICE,
    PARTITIONS,
    SLICE_EVENTS,
    Shape,
    columns,
)

PORTION: Final = 5_000_000  # events of one insert: what they add up to is in memory
_NUMBERS: Final = """toInt256(sum(n % 1000)) * 1500000000000000000, count(), 0,
    toInt128(min(n % 1000)) * 1500000000000000000, toInt128(max(n % 1000)) * 1500000000000000000,
    argMax(time_ms, (time_ms, n)), argMax(time_ms, (time_ms, n)),
    toFixedString('0123456789abcdef', 16), toInt128(1)"""
_GROUPS: Final = "[concat('/path/', toString(any(n % 7))), concat('region-', toString(any(n % 3)))]"
_WRITE: Final = {
    "max_bytes_before_external_group_by": 4 << 30,
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 4_000_000,
    "max_partitions_per_insert_block": 0,
    "http_headers_progress_interval_ms": PROGRESS_MS,
}


def ranges(slices: int, fan: int = BLOCK_FAN) -> Iterator[tuple[int, int]]:
    """Which slices lie in one block, where blocks of so many tallies were merged by `fan`."""
    of_one = max(1, BLOCK_TALLIES_MAX // SLICE_EVENTS)
    size, at = of_one, 0
    while size * fan <= slices:
        size *= fan
    while at < slices:
        while size > of_one and at + size > slices:
            size //= fan
        yield at, min(at + size, slices)
        at += size


async def put_blocks(url: str, control: Path, shape: Shape, *, hours: bool) -> int:
    """Blocks of all slices, as the maker of blocks leaves them; how many there are. Without `hours`
    only days are put in: enough for questions of whole days.
    """
    connection, database = Connection(url), open_database(f"sqlite:///{control}")
    ledger, rows = SqlBlockLedger(database), ClickHouseBlockRows(connection)
    first, made = 0, 0
    for begin, end in ranges(shape.slices):
        begin_ms = BEGIN_MS + int(begin * SLICE_EVENTS * shape.step_ms) if made else 0
        end_ms = BEGIN_MS + int(end * SLICE_EVENTS * shape.step_ms)
        number = block_number(end_ms, made)
        stretches = tuple(Stretch(p, first, FIRST_SLICE + end) for p in range(PARTITIONS))
        block = Block(number, 1, stretches, 0, 1_000, begin_ms, end_ms)
        await ledger.begin(block)
        if not made:
            await _written(connection, *sql.made_statement(_of_door(number), _base(hours)))
        await _fill(connection, shape, number, (begin * SLICE_EVENTS, end * SLICE_EVENTS), hours)
        counts = (await rows.counts())[number]
        assert await ledger.publish(replace(block), counts, (), end_ms), "it follows the others"
        first, made = FIRST_SLICE + end, made + 1
    await connection.close()
    await database.close()
    return made


def _base(hours: bool) -> sql.Table:
    return sql.HOURS if hours else sql.DAYS


def _of_door(number: int) -> Block:
    """What came through the door lies before all that was filled in."""
    return Block(number, 1, tuple(Stretch(p, 0, FIRST_SLICE) for p in range(PARTITIONS)), 0, 1_000)


async def _fill(
    connection: Connection, shape: Shape, number: int, events: tuple[int, int], hours: bool
) -> None:
    base = _base(hours)
    for first in range(*events, PORTION):
        end = min(first + PORTION, events[1])
        await _written(connection, _added_up(shape, base, number, first, end), {})
    others = [it for it in sql.TABLES if not it.members and it != base]
    for table in others:
        if hours or table.cell == "day":
            await _written(connection, *sql.derived_statement(number, table))


def _added_up(shape: Shape, table: sql.Table, number: int, first: int, end: int) -> str:
    """Insert the cells of some events. A cell that two portions have is there twice."""
    cell = f"toUInt32(intDiv(time_ms, {table.minutes * 60_000}))"
    return f"""INSERT INTO {table.name}
SELECT {number}, 1, {cell} AS cell, any(subject_), {_GROUPS}, {_NUMBERS}
FROM (SELECT number AS n, {columns(shape)} FROM numbers({first}, {end - first}))
GROUP BY cell, customer, n % 7, n % 3"""


async def _written(connection: Connection, statement: str, parameters: dict[str, object]) -> None:
    await connection.run(
        lambda client: client.command(statement, parameters, settings=dict(_WRITE))
    )
