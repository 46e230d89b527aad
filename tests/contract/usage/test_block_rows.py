"""Contract of `BlockRows`, over chDB and a ClickHouse server: rows are those of their slices, added
up, written once, and what is wrong with them is found by counting back.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from aggregator.slice.open_slice import OpenSlice
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.bounds import READING
from meterline.backends.clickhouse.connection import INSERT_SETTINGS, Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Record, RecordKind
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, Meter, measures_of
from meterline.ports import Unavailable
from meterline.usage import Block, SliceId, Stretch, block_number, differences
from tests.conftest import made_ready
from tests.contract.usage.slices import HORIZON_MS, event, meter

NOW_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SLICES: Final = 4
TIMES: Final = (
    "2026-01-01T00:00:10Z",
    "2026-01-01T00:59:59Z",
    "2026-01-01T01:00:00Z",
    "2025-12-31T23:59:00Z",
    "2025-11-02T10:00:00Z",
)
VALUES: Final = ("-12345678901234567890.123456789012345678", "0.5", "3", None, "99999999999")


@pytest.fixture
def rows(usage_store: ClickHouseUsageStore) -> ClickHouseBlockRows:
    return ClickHouseBlockRows(usage_store.connection)


class World:
    """Two meters, one of distinct values, over some slices of two partitions."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.log = next(numbers)
        first = next(numbers)
        sums = meter(first, groups=("g", "h"))
        unique = replace(meter(next(numbers), Aggregation.UNIQUE_COUNT), event_type=sums.event_type)
        self.meters = (sums, unique)
        self.numbers = numbers
        self._chance = 0

    async def write(self, store: ClickHouseUsageStore, meters: tuple[Meter, ...] = ()) -> None:
        for at in range(SLICES):
            for partition in range(2):
                made = self.slice(at, partition, meters or self.meters)
                await store.write(made.take())

    def slice(self, at: int, partition: int, meters: tuple[Meter, ...]) -> OpenSlice:
        measures = measures_of(Catalogue(1, meters))
        append_ms = NOW_MS + at * SLICE_SPAN_MS
        made = OpenSlice(SliceId(self.log, partition, at * 10), append_ms, measures)
        events = [
            event(
                meters[0],
                1_000 * at + 100 * partition + number,
                TIMES[(number + at) % len(TIMES)],
                {"v": VALUES[(number * 3 + at) % len(VALUES)], "g": 'é"|\\\n\x00', "h": number % 2},
                subject=f"s{number % 3}",
            )
            for number in range(12)
        ]
        record = Record(partition, at * 10, append_ms, RecordKind.PACK, b"", "log")
        made.absorb(record, append_ms, events, {}, HORIZON_MS)
        return made

    def block(self, first: int, end: int, after: int = 0, upto: int | None = None) -> Block:
        self._chance += 1
        stretches = tuple(Stretch(partition, first * 10, end * 10) for partition in range(2))
        newest = self.meters[-1].revision if upto is None else upto
        begin_ms = NOW_MS + first * SLICE_SPAN_MS if first else 0
        number = block_number(NOW_MS, self.log * 100 + self._chance)
        return Block(number, self.log, stretches, after, newest, begin_ms)


@pytest.fixture
def world(fresh_numbers: Iterator[int]) -> World:
    return World(fresh_numbers)


async def _problems(
    rows: ClickHouseBlockRows, block: Block, sources: tuple[int, ...] = ()
) -> list[str]:
    return differences(await rows.due(block, sources), await rows.held(block.number))


async def test_a_block_is_counted_back(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    await world.write(usage_store)
    for first, end in ((0, SLICES), (1, 3), (3, 3)):
        block = world.block(first, end)
        assert (await _problems(rows, block) != []) is (first < end)
        await rows.make(block, ())
        assert await _problems(rows, block) == []
        held = await rows.held(block.number)
        assert (held["hours"].rows > held["days"].rows > 0) is (first < end)
        assert (held["member_hours"].rows > 0) is (first < end)


async def test_a_block_is_the_same_however_it_is_made(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    """In one go, or merged from smaller ones, some of them of some revisions only."""
    await world.write(usage_store)
    whole = world.block(0, SLICES)
    older = world.meters[0].revision
    parts = [
        world.block(0, 1),
        world.block(1, SLICES, 0, older),
        world.block(1, SLICES, older, older + 1),
    ]
    for block in (whole, *parts):
        await rows.make(block, ())
        assert await _problems(rows, block) == []
    merged = world.block(0, SLICES)
    sources = tuple(part.number for part in parts)
    await rows.make(merged, sources)
    assert await _problems(rows, merged, sources) == []
    assert await rows.held(merged.number) == await rows.held(whole.number)


async def test_the_slices_of_a_block_are_counted(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    await world.write(usage_store)
    made = [world.slice(at, p, world.meters).take() for at in range(2) for p in range(2)]
    due = await rows.due(world.block(0, 2, 0, 1), ())
    assert due.tallies == sum(len(flush.tallies) for flush in made)
    assert due.members == sum(len(flush.members) for flush in made)
    assert due.events == sum(account.new for flush in made for account in flush.accounts) > 0
    assert set(due.weights.values()) == {0}, "no revision is as old"


async def test_a_block_is_recounted_from_its_slices_however_it_was_made(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    await world.write(usage_store)
    parts, whole = [world.block(0, 1), world.block(1, SLICES)], world.block(0, SLICES)
    for part in parts:
        await rows.make(part, ())
    await rows.make(whole, [part.number for part in parts])
    for block in (*parts, whole):
        held = await rows.held(block.number)
        assert await rows.recount(block) == {name: one.digest for name, one in held.items()}
    due = await rows.due(whole, [part.number for part in parts])
    counts = [await rows.held(part.number) for part in parts]
    assert due.rows == {name: sum(it[name].rows for it in counts) for name in due.rows}
    change = f"ALTER TABLE hours UPDATE minimum = minimum + 1 WHERE block = {whole.number}"
    for server in usage_store.connection.servers:
        await server.execute(f"{change} SETTINGS mutations_sync = 2")
    held = await rows.held(whole.number)
    wrong = [name for name, due in (await rows.recount(whole)).items() if held[name].digest != due]
    assert wrong == ["hours"]


async def test_rows_that_are_written_twice_or_lost_are_found(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    await world.write(usage_store)
    block = world.block(0, SLICES)
    await rows.make(block, ())
    again = f"INSERT INTO hours SELECT * FROM hours WHERE block = {block.number}"
    await usage_store.connection.insert_selected(again, {}, INSERT_SETTINGS)
    assert any("hours weighs" in words for words in await _problems(rows, block))
    await rows.drop([block.number])
    await rows.make(block, ())
    assert await _problems(rows, block) == []
    lose = f"ALTER TABLE days_by_subject DROP PARTITION {block.number}"
    for server in usage_store.connection.servers:
        await server.execute(lose)
    (words,) = [w for w in await _problems(rows, block) if w.startswith("days_by_subject")]
    assert "but days has" in words


async def test_statements_that_are_executed_again_write_nothing(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    """Also late: when what they read is gone."""
    await world.write(usage_store)
    parts, merged = [world.block(0, 2), world.block(2, SLICES)], world.block(0, SLICES)
    numbers = [part.number for part in parts]
    for part in parts:
        await rows.make(part, ())
    await rows.make(merged, numbers)
    held = {block.number: await rows.held(block.number) for block in (*parts, merged)}
    assert all(one.rows for one in held[merged.number].values()), "in every table"
    for part in parts:
        await rows.make(part, ())
    await rows.make(merged, numbers)
    assert {number: await rows.held(number) for number in held} == held
    await rows.drop(numbers[:1])
    await rows.make(merged, numbers)
    assert await rows.held(merged.number) == held[merged.number]


async def test_a_statement_is_not_executed_while_it_runs(
    clickhouse: str, with_tables: set[str], world: World
) -> None:
    """Or both would find nothing, and both would write."""
    connection = Connection(clickhouse)
    store, rows = ClickHouseUsageStore(connection), ClickHouseBlockRows(connection)
    block = world.block(0, SLICES)
    await made_ready(store, clickhouse, with_tables)
    await world.write(store)
    name = f"meterline-{block.number}-hours"
    slow = f"SELECT count() FROM numbers(1000000000000) WHERE cityHash64(number) = {block.number}"
    first = asyncio.create_task(connection.lane(READING).query(slow, {}, {"query_id": name}))
    await _running(connection, name, 1)
    with pytest.raises(Unavailable, match="already running"):
        await rows.make(block, ())
    assert block.number not in await rows.counts()
    first.cancel()
    await _running(connection, name, 0)
    await rows.make(block, ())
    assert await _problems(rows, block) == []
    await asyncio.gather(first, return_exceptions=True)
    await store.close()


async def _running(connection: Connection, name: str, number: int) -> None:
    """So many statements of this name run."""
    statement = "SELECT count() FROM system.processes WHERE query_id = {name:String}"
    while await connection.query(statement, {"name": name}) != [(number,)]:  # noqa: ASYNC110 - the engine tells nobody
        await asyncio.sleep(0.01)


async def test_rows_are_dropped_by_block(
    rows: ClickHouseBlockRows, usage_store: ClickHouseUsageStore, world: World
) -> None:
    await world.write(usage_store)
    blocks = [world.block(0, 2), world.block(2, SLICES)]
    for block in blocks:
        await rows.make(block, ())
    assert {block.number for block in blocks} <= (await rows.counts()).keys()
    held = await rows.held(blocks[0].number)
    counted = {name: one.rows for name, one in held.items() if one.rows}
    assert (await rows.counts())[blocks[0].number] == counted
    await rows.drop([blocks[0].number])
    await rows.drop([blocks[0].number])
    assert blocks[0].number not in await rows.counts()
    assert blocks[1].number in await rows.counts()
    assert all(one.rows == 0 for one in (await rows.held(blocks[0].number)).values())
    assert await _problems(rows, blocks[1]) == []
