"""Answers that are read through blocks are those of a fold of the raw events, whatever is asked and
however far the blocks are.
"""

import random
import secrets
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from aggregator.slice.open_slice import OpenSlice
from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.bounds import READING
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.answer import answer
from meterline.backends.clickhouse.usage.snapshot import Asking, Reader
from meterline.event import Event, Record, RecordKind
from meterline.limits import ANSWER_READINGS_MAX, SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, Meter, measures_of
from meterline.ports import ChangedMeanwhile
from meterline.usage import (
    Block,
    BlockState,
    Column,
    Comparison,
    Condition,
    Coverage,
    Filter,
    Operator,
    SliceId,
    Stretch,
    UsageQuery,
    UsageRow,
    block_number,
    columns_of,
    coverage_of,
    differences,
)
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS, WindowSize, rfc3339
from tests.contract.usage.refolded import refolded_usage
from tests.contract.usage.slices import HORIZON_MS, event, meter

BEGIN_MS: Final = 1_774_828_800_000  # 2026-03-30T00:00:00Z, after a change of clocks
SLICES: Final = 8
PARTITIONS: Final = 2
ZONES: Final = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Denver")
QUERIES: Final = 16
FRESH: Final = -1  # in place of a seed: one that nobody has tried before


def chance(seed: int) -> random.Random:
    """What a seed deals; a fresh one is told, and a failure can be had again by it."""
    if seed == FRESH:
        seed = secrets.randbelow(1 << 40)
        sys.stdout.write(f"seed {seed}\n")
    return random.Random(seed)


class FixedBlocks:
    """What is known of blocks, as the test has it."""

    def __init__(self, log: int, columns: Sequence[Column], *, alone: bool = True) -> None:
        self._log = log
        self._columns = columns
        self._alone = alone

    async def coverage(self, revisions: Collection[int]) -> Coverage:
        found = coverage_of(1, self._columns, revisions, alone=self._alone)
        return replace(found, log=self._log)

    async def confirm(self, coverage: Coverage, revisions: Collection[int]) -> None:
        """Nothing is dropped here."""


class World:
    """Seven meters of one type of event, over slices of two partitions; some events are late."""

    def __init__(self, numbers: Iterator[int], rng: random.Random) -> None:
        self.rng = rng
        self.log = next(numbers)
        first = meter(next(numbers), groups=("g", "h"))
        others = [
            replace(meter(next(numbers), kind, groups=("g", "h")), event_type=first.event_type)
            for kind in Aggregation
            if kind is not Aggregation.SUM
        ]
        self.meters: tuple[Meter, ...] = (first, *others)
        self.events: list[Event] = []
        self._chance = 0

    async def write(self, store: ClickHouseUsageStore, first: int = 0, end: int = SLICES) -> None:
        measures = measures_of(Catalogue(1, self.meters))
        for at in range(first, end):
            for partition in range(PARTITIONS):
                append_ms = BEGIN_MS + at * 12 * SLICE_SPAN_MS
                slice_id = SliceId(self.log, partition, at * 10)
                made = OpenSlice(slice_id, append_ms, measures)
                events = [self._event(append_ms, slice_id, n) for n in range(25)]
                record = Record(partition, at * 10, append_ms, RecordKind.PACK, b"", "log")
                made.absorb(record, append_ms, events, {}, HORIZON_MS)
                await store.write(made.take())
                self.events += events

    def _event(self, append_ms: int, slice_id: SliceId, number: int) -> Event:
        rng = self.rng
        behind_ms = rng.choice(
            (0, MINUTE_MS, 14 * MINUTE_MS, HOUR_MS, DAY_MS, 40 * DAY_MS, -DAY_MS)
        )
        time_ms = append_ms - int(behind_ms * (1 + rng.random()))
        data: dict[str, Any] = {
            "v": rng.choice(("1.5", "-7", "0.000000000000000001", 12, None, "3e5")),
            "g": rng.choice(("a", 'é"\\\n\x00', "", "b", None)),
            "h": rng.randrange(3),
        }
        name = slice_id.slice * 10_000 + slice_id.partition * 1_000 + number
        return event(self.meters[0], name, rfc3339(time_ms), data, subject=f"s{rng.randrange(5)}")

    def block(self, first: int, end: int, after: int = 0, upto: int | None = None) -> Block:
        self._chance += 1
        stretches = tuple(Stretch(p, first * 10, end * 10) for p in range(PARTITIONS))
        spans = [BEGIN_MS + at * 12 * SLICE_SPAN_MS for at in (first - 1, end - 1)]
        return Block(
            block_number(BEGIN_MS, self.log * 1_000 + self._chance),
            self.log,
            stretches,
            after,
            self.meters[-1].revision if upto is None else upto,
            spans[0] if first else 0,
            spans[1],
        )

    def query(self) -> UsageQuery:
        rng = self.rng
        of = rng.choice(self.meters)
        window = rng.choice((None, None, *WindowSize))
        around = BEGIN_MS - rng.choice((0, 3, 45)) * DAY_MS
        from_ms = around + rng.randrange(0, DAY_MS) // rng.choice((1, MINUTE_MS, HOUR_MS)) * 1
        length = rng.choice((HOUR_MS, 7 * HOUR_MS, 2 * DAY_MS, 31 * DAY_MS, 100 * DAY_MS))
        step = rng.choice((1, MINUTE_MS, HOUR_MS, DAY_MS))
        ends = (from_ms // step * step, (from_ms + length) // step * step)
        names = ("subject", "g", "h")
        grouped = tuple(name for name in names if rng.random() < 0.3)
        filters = tuple((name, self._filter(name)) for name in names if rng.random() < 0.3)
        one = Condition(rng.choice((Comparison.EQ, Comparison.NE, Comparison.GT)), ("s2",))
        return UsageQuery(
            of,
            None if rng.random() < 0.15 else ends[0],
            None if rng.random() < 0.15 else ends[1],
            window,
            ZoneInfo(rng.choice(ZONES)),
            grouped,
            filters,
            rng.random() < 0.3,
            (one,) if rng.random() < 0.3 else (),
            rng.random() < 0.3,
        )

    def _filter(self, name: str) -> Filter:
        values = {"subject": ("s1", "s3"), "g": ("a", ""), "h": ("1", "2")}[name]
        return self.rng.choice(
            (
                Filter(Operator.EQ, values[:1]),
                Filter(Operator.IN, values),
                Filter(Operator.NIN, values),
                Filter(Operator.CONTAINS, values[:1]),
                Filter(Operator.EXISTS, ("true",)),
            )
        )

    def expected(self, query: UsageQuery) -> list[UsageRow]:
        """By a fold of the raw events."""
        return refolded_usage(query, self.events)


async def readable(rows: ClickHouseBlockRows, block: Block, *sources: Block) -> Block:
    numbers = tuple(source.number for source in sources)
    await rows.make(block, numbers)
    held = await rows.held(block.number)
    assert differences(await rows.due(block, numbers), held) == []
    counts = {name: one.rows for name, one in held.items()}
    return replace(block, state=BlockState.READABLE, rows=counts)


async def _check(store: ClickHouseUsageStore, world: World, blocks: Sequence[Block]) -> None:
    store.read_blocks(FixedBlocks(world.log, columns_of(blocks)))  # type: ignore[arg-type]
    for query in questions(store, world):
        assert await store.usage(query) == world.expected(query), query


def questions(store: ClickHouseUsageStore, world: World) -> list[UsageQuery]:
    """Fewer where servers answer: the engine is the same one, and several are slower."""
    return [world.query() for _ in range(QUERIES if store.connection.embedded else QUERIES // 4)]


@pytest.mark.parametrize("seed", [0, FRESH])
async def test_answers_through_blocks_are_those_of_the_events(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], seed: int
) -> None:
    world = World(fresh_numbers, chance(seed))
    await world.write(usage_store)
    rows = ClickHouseBlockRows(usage_store.connection)
    await _check(usage_store, world, [])
    some = world.meters[3].revision
    first = await readable(rows, world.block(0, 3, 0, some))
    await _check(usage_store, world, [first])
    newer = await readable(rows, world.block(0, 3, some))
    second = await readable(rows, world.block(3, 5))
    await _check(usage_store, world, [first, newer, second])
    merged = await readable(rows, world.block(0, 5), first, newer, second)
    await _check(usage_store, world, [merged])
    third = await readable(rows, world.block(5, SLICES))
    await _check(usage_store, world, [merged, third])


async def test_slices_of_another_log_are_read_beside_the_blocks(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    """Its offsets are below the ends of the blocks. So it is, too, where an older log is gone on
    with after a newer one.
    """
    world = World(fresh_numbers, random.Random(11))
    await world.write(usage_store)
    rows = ClickHouseBlockRows(usage_store.connection)
    block = await readable(rows, world.block(0, SLICES))
    log = world.log
    world.log = next(fresh_numbers)
    await world.write(usage_store)
    usage_store.read_blocks(FixedBlocks(log, columns_of([block]), alone=False))  # type: ignore[arg-type]
    for query in questions(usage_store, world):
        assert await usage_store.usage(query) == world.expected(query), query


@pytest.mark.parametrize(
    ("others", "beside_rows_max"), [(0, 2_048), (0, 3), (1, 2_048)], ids=["apart", "many", "one"]
)
async def test_two_statements_tell_what_one_does(
    usage_store: ClickHouseUsageStore,
    fresh_numbers: Iterator[int],
    others: int,
    beside_rows_max: int,
) -> None:
    """Who asks alone is answered by two; by one where minutes are too many to be held, and where
    others ask.
    """
    world = World(fresh_numbers, random.Random(23))
    await world.write(usage_store)
    rows = ClickHouseBlockRows(usage_store.connection)
    block = await readable(rows, world.block(0, 4))
    fixed = FixedBlocks(world.log, columns_of([block]))
    reader = Reader(
        usage_store.connection.lane(READING),
        fixed,  # type: ignore[arg-type]
        asking=Asking(others),
        beside_rows_max=beside_rows_max,
    )
    for query in questions(usage_store, world):
        async with aclosing(answer(reader, query)) as parts:
            found = [row async for part in parts for row in part]
        assert found == world.expected(query), query
    assert reader.asking.count == others


class Changing(FixedBlocks):
    """What is read changes so many times while it is read."""

    def __init__(self, log: int, columns: Sequence[Column], times: int) -> None:
        super().__init__(log, columns)
        self._left = times

    async def confirm(self, coverage: Coverage, revisions: Collection[int]) -> None:
        await super().confirm(coverage, revisions)
        if self._left:
            self._left -= 1
            raise ChangedMeanwhile("usage store: a subject was erased while it was read")


async def test_what_changes_while_it_is_read_is_read_again(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    world = World(fresh_numbers, random.Random(29))
    await world.write(usage_store)
    rows = ClickHouseBlockRows(usage_store.connection)
    block = await readable(rows, world.block(0, 4))
    query = replace(world.query(), meter=world.meters[0])
    for times in range(ANSWER_READINGS_MAX + 1):
        blocks = Changing(world.log, columns_of([block]), times)
        usage_store.read_blocks(blocks)  # type: ignore[arg-type]
        if times < ANSWER_READINGS_MAX:
            assert await usage_store.usage(query) == world.expected(query)
        else:
            with pytest.raises(ChangedMeanwhile):
                await usage_store.usage(query)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Australia/Lord_Howe"])
@pytest.mark.parametrize("ends", [0, 5, SLICES])
async def test_many_days_of_a_zone_of_half_hours_are_read_through_blocks(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], zone: str, ends: int
) -> None:
    world = World(fresh_numbers, random.Random(19))
    await world.write(usage_store)
    rows = ClickHouseBlockRows(usage_store.connection)
    blocks = [await readable(rows, world.block(0, ends))] if ends else []
    usage_store.read_blocks(FixedBlocks(world.log, columns_of(blocks)))  # type: ignore[arg-type]
    for of in world.meters if usage_store.connection.embedded else world.meters[:2]:
        query = UsageQuery(
            of, BEGIN_MS - 90 * DAY_MS, BEGIN_MS + 3 * DAY_MS, WindowSize.DAY, ZoneInfo(zone)
        )
        assert await usage_store.usage(query) == world.expected(query), query


async def test_sums_and_values_are_read_through_blocks(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    world = World(fresh_numbers, random.Random(7))
    await world.write(usage_store)
    rows = ClickHouseBlockRows(usage_store.connection)
    block = await readable(rows, world.block(0, 5))
    for of in world.meters:
        by_subject = UsageQuery(
            of, BEGIN_MS - 60 * DAY_MS, BEGIN_MS + 2 * HOUR_MS + 1, group_by=("subject", "g")
        )
        by_group = replace(by_subject, group_by=("g",))
        told = []
        for blocks in ([], [block]):
            usage_store.read_blocks(FixedBlocks(world.log, columns_of(blocks)))  # type: ignore[arg-type]
            told.append(
                (
                    await usage_store.usage_sum(by_subject),
                    await usage_store.usage_values(by_group, 10, 0),
                    [
                        row
                        async for part in usage_store.usage_by_subject(by_subject, 3)
                        for row in part
                    ],
                )
            )
        assert told[0] == told[1]
        assert told[0][2] == world.expected(by_subject)
