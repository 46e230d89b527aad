"""An answer is read by two statements where its asker is alone, else by one; both tell the same."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

import pytest

from meterline.backends.clickhouse.usage.answer import in_parts
from meterline.backends.clickhouse.usage.cache import Recall
from meterline.backends.clickhouse.usage.lines import MergedRows
from meterline.backends.clickhouse.usage.reading import Reading
from meterline.backends.clickhouse.usage.snapshot import Asking, Reader
from meterline.backends.clickhouse.usage.statement import Minutes, Part
from meterline.meter import Aggregation
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.usage import Coverage, RowMaker, UsageQuery, minutes_of, starts_of
from meterline.window import MINUTE_MS, WindowSize
from tests.contract.usage.slices import meter

FIRST, END = 1_440 * 10, 1_440 * 12
EXTENT: Final = (FIRST * MINUTE_MS, END * MINUTE_MS)
COVERAGE: Final = Coverage(1, {0: 50}, (7,), FIRST + 1_440, sizes=(1,), alone=True)
OF_BLOCKS: Final = b'{"b":14400,"k":[""],"c":2,"r":0,"v":"2000000000000000000","s":0}\n'
OF_MINUTES: Final = (
    b'{"b":14400,"k":[""],"c":1,"r":0,"v":"3000000000000000000","s":0}\n'
    b'{"b":15840,"k":[""],"c":1,"r":0,"v":"5000000000000000000","s":0}\n'
)
T = TypeVar("T")


class Lane:
    """A connection that says how many streams it has, and where the engine is."""

    def __init__(self, streams_at_once: int, *, embedded: bool) -> None:
        self.streams_at_once = streams_at_once
        self.embedded = embedded


class Told:
    """A `Reader` that answers each statement by what it reads: blocks, minutes or both."""

    def __init__(
        self,
        others: int = 0,
        beside_rows_max: int = 10,
        streams: int = 2,
        *,
        embedded: bool = False,
    ) -> None:
        self.asking = Asking(others)
        self.beside_rows_max = beside_rows_max
        self.connection = Lane(streams, embedded=embedded)
        self.asked: list[str] = []
        self.open = 0
        self.error: Exception | None = None
        self.blocks_wait = asyncio.Event()
        self.blocks_wait.set()

    async def stream(
        self,
        sql: str,
        _parameters: object,
        _settings: Mapping[str, Any],
        take: Callable[[bytes], T],
    ) -> AsyncGenerator[T, None]:
        blocks, minutes = "FROM days" in sql, "FROM tallies" in sql
        self.asked.append(f"{'blocks ' * blocks}{'minutes' * minutes}".strip())
        self.open += 1
        try:
            if blocks and minutes:
                yield take(_added_up())
                return
            if blocks:
                await self.blocks_wait.wait()
                yield take(OF_BLOCKS[:20])
                yield take(OF_BLOCKS[20:])
                return
            if self.error is not None:
                raise self.error
            yield take(OF_MINUTES)
        finally:
            self.open -= 1


def _added_up() -> bytes:
    return (
        OF_BLOCKS.replace(b'"c":2', b'"c":3').replace(b'"2000', b'"5000')
        + OF_MINUTES.split(b"\n")[1]
        + b"\n"
    )


async def _read(told: Told, aggregation: Aggregation = Aggregation.SUM) -> list[int]:
    query = UsageQuery(meter(1, aggregation), *EXTENT, WindowSize.DAY)
    starts = starts_of(query, *EXTENT)
    minutes = Minutes((Part(query.meter, FIRST, END),), tuple(minutes_of(starts)), COVERAGE)
    rows = MergedRows(aggregation, RowMaker(query, starts, EXTENT), [], Recall(minutes))
    reading = Reading(cast("Reader", told), query, minutes, rows, rows_max=100, with_members=False)
    async with aclosing(in_parts(reading.rows(), rows)) as parts:
        return [int(row.value) // UNIT async for part in parts for row in part]


async def test_who_asks_alone_is_answered_by_two_statements() -> None:
    told = Told()
    assert await _read(told) == [5, 5]
    assert sorted(told.asked) == ["blocks", "minutes"]
    assert (told.open, told.asking.count) == (0, 0)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (lambda: Told(others=1), "somebody else asks"),
        (lambda: Told(streams=1), "the second would wait for the first"),
        (lambda: Told(embedded=True), "the engine has our own cores"),
    ],
)
async def test_one_statement_reads_both(told: Callable[[], Told], why: str) -> None:
    asked = told()
    assert await _read(asked) == [5, 5], why
    assert asked.asked == ["blocks minutes"], why


async def test_minutes_that_are_too_many_to_be_held_are_read_with_the_blocks() -> None:
    told = Told(beside_rows_max=1)
    assert await _read(told) == [5, 5]
    assert sorted(told.asked) == ["blocks", "blocks minutes", "minutes"]
    assert told.open == 0


async def test_distinct_values_are_not_read_apart() -> None:
    told = Told()
    await _read(told, Aggregation.UNIQUE_COUNT)
    assert told.asked == ["blocks minutes"]


async def test_what_fails_beside_the_blocks_fails_the_answer() -> None:
    told = Told()
    told.error = Unavailable("usage store: it is away")
    with pytest.raises(Unavailable, match="it is away"):
        await _read(told)
    assert (told.open, told.asking.count) == (0, 0)


async def test_whoever_gives_up_leaves_nothing_open() -> None:
    told = Told()
    told.blocks_wait.clear()
    reading = asyncio.create_task(_read(told))
    for _ in range(10):  # both have begun
        await asyncio.sleep(0)
    assert sorted(told.asked) == ["blocks", "minutes"]
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (told.open, told.asking.count) == (0, 0)
