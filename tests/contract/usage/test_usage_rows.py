"""Contract of `UsageStore.usage_rows`, over chDB and a ClickHouse server: the rows of `usage`, a
part at a time.
"""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.answer import answer
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.limits import ANSWER_PART_ROWS, USAGE_STREAMS_MAX
from meterline.meter import Meter
from meterline.number import UNIT
from meterline.ports import StoreLost, Unavailable
from meterline.problem import Problem
from meterline.usage import CheckedUsageStore, Flush, Life, TallyRow, UsageIntegrity, UsageQuery
from meterline.window import MINUTE_MS, WindowSize
from tests.contract.usage.slices import meter

SUBJECTS = 4_000
MINUTE = 29_500_000


@pytest.fixture
async def asked(usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]) -> UsageQuery:
    """A question with many rows; subjects lie across two minutes, and in two slices."""
    of = meter(next(fresh_numbers))
    rows = [
        _tally(of, number, MINUTE + number % 2, slice_)
        for slice_ in (0, 8)
        for number in range(SUBJECTS)
    ]
    await usage_store.write(Flush(tallies=rows))
    return UsageQuery(of, window=WindowSize.MINUTE, group_by=("subject",))


def _tally(of: Meter, number: int, window: int, slice_: int) -> TallyRow:
    value = (number + 1) * UNIT
    subject = f"é{number:04}"
    cell = (of.revision, subject, "[]", window, 1, 0, slice_)
    return TallyRow(*cell, number, value, 1, 0, value, value, 0, 0, bytes(16), value)


async def test_many_rows_come_in_parts_that_are_bounded(
    usage_store: ClickHouseUsageStore, asked: UsageQuery
) -> None:
    async with aclosing(usage_store.usage_rows(asked)) as found:
        blocks = [block async for block in found]
    assert len(blocks) > 1
    assert max(map(len, blocks)) <= ANSWER_PART_ROWS
    rows = [row for block in blocks for row in block]
    assert [(row.from_ms // MINUTE_MS, row.subject) for row in rows] == [
        (MINUTE + odd, f"é{number:04}") for odd in (0, 1) for number in range(odd, SUBJECTS, 2)
    ]
    assert {row.value for row in rows} == {2 * (n + 1) * UNIT for n in range(SUBJECTS)}
    assert await usage_store.usage(asked) == rows


async def test_who_stops_early_or_goes_away_holds_nothing(
    usage_store: ClickHouseUsageStore, asked: UsageQuery
) -> None:
    for _ in range(USAGE_STREAMS_MAX + 1):
        async with aclosing(usage_store.usage_rows(asked)) as found:
            assert await anext(found)
    for _ in range(USAGE_STREAMS_MAX + 1):
        waiting = asyncio.ensure_future(usage_store.usage(asked))
        await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert len(await usage_store.usage(asked)) == SUBJECTS


async def test_more_at_once_than_there_are_streams_take_turns(
    usage_store: ClickHouseUsageStore, asked: UsageQuery
) -> None:
    answers = [usage_store.usage(asked) for _ in range(USAGE_STREAMS_MAX + 2)]
    assert {len(rows) for rows in await asyncio.gather(*answers)} == {SUBJECTS}


async def test_too_many_rows_are_refused_before_the_first(
    usage_store: ClickHouseUsageStore, asked: UsageQuery
) -> None:
    async def rows(query: UsageQuery, rows_max: int) -> int:
        async with aclosing(answer(Reader(usage_store.connection), query, rows_max)) as blocks:
            return sum([len(block) async for block in blocks])

    with pytest.raises(Problem, match="over 3999 rows"):
        await anext(answer(Reader(usage_store.connection), asked, SUBJECTS - 1))
    assert await rows(asked, SUBJECTS) == SUBJECTS
    total = UsageQuery(asked.meter)  # many rows of the store, one of the answer
    assert await rows(total, SUBJECTS - 1) == 1


class Lost(UsageIntegrity):
    """A store that has lost something once it was told so."""

    def __init__(self) -> None:
        self.lost = False
        self.asked = 0

    async def check(self) -> None:
        self.asked += 1
        if self.lost:
            raise StoreLost("the usage store has lost what was counted")


async def test_no_part_is_given_out_of_a_store_that_lost_something(
    usage_store: ClickHouseUsageStore, asked: UsageQuery, fresh_numbers: Iterator[int]
) -> None:
    integrity = Lost()
    checked = CheckedUsageStore(usage_store, integrity)
    rows = [row async for block in checked.usage_rows(asked) for row in block]
    assert (len(rows), integrity.asked) == (SUBJECTS, 1)
    integrity.lost = True
    for query in (asked, UsageQuery(meter(next(fresh_numbers)))):
        with pytest.raises(StoreLost):
            await anext(checked.usage_rows(query))


async def test_only_the_life_of_the_store_that_is_meant_answers(
    usage_store: ClickHouseUsageStore, asked: UsageQuery, fresh_numbers: Iterator[int]
) -> None:
    life = (await ClickHouseHoldings(usage_store.connection).holdings(1, {}, {})).life
    assert life is not None
    rows = [row async for part in usage_store.usage_rows(asked, life) for row in part]
    assert len(rows) == SUBJECTS
    nothing = UsageQuery(meter(next(fresh_numbers)), asked.from_ms, asked.to_ms)
    for other in (Life("another", life.up_s), Life(life.of, life.up_s + 1_000_000)):
        for query in (asked, nothing):
            with pytest.raises(Unavailable, match="started again"):
                await anext(usage_store.usage_rows(query, other))
