"""Answers out of what blocks answered before are those of the events, whatever happened meanwhile:
late events, new blocks, merged ones, withdrawn ones, a store that had lost something.
"""

import random
from collections.abc import Iterator, Sequence

import pytest

from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.ports import StoreLost
from meterline.usage import Block, CheckedUsageStore, UsageQuery, UsageRow, columns_of
from meterline.window import DAY_MS, WindowSize
from tests.contract.usage.test_block_reads import (
    BEGIN_MS,
    FRESH,
    SLICES,
    FixedBlocks,
    World,
    chance,
    readable,
)
from tests.contract.usage.test_usage_rows import Lost

QUESTIONS = 8


class Asked:
    """Questions that are asked again and again, of one store that keeps what blocks answered."""

    def __init__(self, store: ClickHouseUsageStore, world: World) -> None:
        self.store = store
        self.rows = ClickHouseBlockRows(store.connection)
        self._world = world
        self._queries = [world.query() for _ in range(QUESTIONS)]
        self._open = _open(world)
        self._expected: dict[tuple[int, UsageQuery], list[UsageRow]] = {}  # by how many events

    def read(self, *blocks: Block) -> None:
        """From now on these blocks are read."""
        fixed = FixedBlocks(self._world.log, columns_of(blocks))
        self.store.read_blocks(fixed)  # type: ignore[arg-type]

    async def check(self, queries: Sequence[UsageQuery] = ()) -> None:
        """Twice, in any order."""
        for query in self._world.rng.sample(self._queries, QUESTIONS):
            assert await self.store.usage(query) == self._rows(query), query
        some = self._world.rng.sample(self._open, len(self._open) // 2)
        for query in (*self._queries[: QUESTIONS // 2], *some, *some, *queries):
            assert await self.store.usage(query) == self._rows(query), query

    def _rows(self, query: UsageQuery) -> list[UsageRow]:
        """By a fold of the raw events, which is made once for all times that this is asked."""
        key = len(self._world.events), query
        if key not in self._expected:
            self._expected[key] = self._world.expected(query)
        return self._expected[key]


@pytest.mark.parametrize("seed", [FRESH])
async def test_repeated_questions_are_answered_as_if_nothing_was_kept(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], seed: int
) -> None:
    world = World(fresh_numbers, chance(seed))
    await world.write(usage_store, 0, 3)
    asked = Asked(usage_store, world)
    rows = asked.rows
    some = world.meters[3].revision
    first = await readable(rows, world.block(0, 3, 0, some))
    asked.read(first)
    await asked.check()
    await world.write(usage_store, 3, 5)
    newer = await readable(rows, world.block(0, 3, some))
    asked.read(first, newer)
    await asked.check()
    second = await readable(rows, world.block(3, 5))
    asked.read(first, newer, second)
    await asked.check()
    merged = await readable(rows, world.block(0, 5), first, newer, second)
    await world.write(usage_store, 5, SLICES)
    asked.read(merged)
    await asked.check()
    third = await readable(rows, world.block(5, SLICES))
    asked.read(merged, third)
    await asked.check()
    asked.read(merged)  # as a process that looked at the records before
    await asked.check()
    asked.read()  # withdrawn
    await asked.check()
    again = await readable(rows, world.block(0, SLICES))
    asked.read(again)
    await asked.check()


def _open(world: World) -> list[UsageQuery]:
    """Of each meter all that there is: where it begins and ends is found first."""
    return [
        UsageQuery(of, window=window) for of in world.meters for window in (None, WindowSize.DAY)
    ]


def _whole(world: World) -> list[UsageQuery]:
    """Of each meter all of its time, by subject."""
    ends = (BEGIN_MS - 90 * DAY_MS, BEGIN_MS + 2 * DAY_MS)
    return [UsageQuery(of, *ends, group_by=("subject",)) for of in world.meters]


async def test_blocks_are_read_once(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    """Shown by blocks whose rows go away behind the reader's back."""
    world = World(fresh_numbers, random.Random(5))
    await world.write(usage_store)
    asked = Asked(usage_store, world)
    first = await readable(asked.rows, world.block(0, 3))
    second = await readable(asked.rows, world.block(3, 6))
    queries = _whole(world)
    asked.read(first)
    await asked.check(queries)
    await asked.rows.drop([first.number])
    asked.read(first, second)
    kept = [query for query in queries if query.meter.aggregation != "unique_count"]
    for query in kept:
        assert await usage_store.usage(query) == world.expected(query), query
    await asked.rows.drop([second.number])
    for query in kept:
        assert await usage_store.usage(query) == world.expected(query), query


async def test_nothing_is_kept_of_a_store_that_had_lost_something(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    world = World(fresh_numbers, random.Random(6))
    await world.write(usage_store)
    asked = Asked(usage_store, world)
    block = await readable(asked.rows, world.block(0, SLICES))
    asked.read(block)
    await asked.rows.drop([block.number])
    integrity = Lost()
    integrity.lost = True
    checked = CheckedUsageStore(usage_store, integrity)
    queries = [*_whole(world), *_open(world)]
    for query in queries:
        with pytest.raises(StoreLost):
            await checked.usage(query)
        with pytest.raises(StoreLost):
            await anext(checked.usage_rows(query))
    integrity.lost = False
    await asked.rows.make(block, ())
    for query in queries:
        assert await checked.usage(query) == world.expected(query), query
