"""Rows made out of the store's lines a piece at a time are those of the whole: same keys, same
numbers, same order.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.clickhouse.usage.answer import in_parts
from meterline.backends.clickhouse.usage.cache import BlockCache, Recall, add_to, decoded
from meterline.backends.clickhouse.usage.lines import Line, MergedRows
from meterline.backends.clickhouse.usage.statement import Minutes
from meterline.limits import ANSWER_PART_PIECES, ANSWER_PART_ROWS
from meterline.meter import EMPTY, Aggregate, Aggregation, Latest, merged
from meterline.ports import Unavailable
from meterline.usage import Key, RowMaker, UsageQuery, UsageRow, rows_of
from meterline.window import WindowSize
from tests.contract.usage.slices import meter

EXTENT = (0, 3_600_000)
NOTHING = Recall(Minutes(()))
numbers = st.integers(-(10**40), 10**40)
keys = st.tuples(
    st.integers(0, 5), st.sampled_from(["", "a", "é", "\U0001f600", '"\\\n']), st.text()
)
counts = st.integers(0, 3)
members = st.frozensets(st.binary(min_size=16, max_size=16), max_size=4)


@st.composite
def aggregates(draw: st.DrawFn, aggregation: Aggregation) -> Aggregate:
    """What tallies of one key may be merged to."""
    count, rejected = draw(counts), draw(counts)
    if not count:
        return Aggregate(rejected=rejected)
    number = draw(numbers)
    match aggregation:
        case Aggregation.SUM | Aggregation.AVG:
            return Aggregate(number, count, rejected)
        case Aggregation.MIN:
            return Aggregate(count=count, rejected=rejected, minimum=number)
        case Aggregation.MAX:
            return Aggregate(count=count, rejected=rejected, maximum=number)
        case Aggregation.COUNT:
            return Aggregate(count=count, rejected=rejected)
        case Aggregation.LATEST:
            key = draw(st.binary(min_size=16, max_size=16))
            latest = Latest(draw(counts), draw(counts), key, number)
            return Aggregate(count=count, rejected=rejected, latest=latest)
        case Aggregation.UNIQUE_COUNT:
            found = draw(members)
            return Aggregate(count=count, rejected=rejected, members=found, distinct=len(found))


def _line(key: Key, one: Aggregate, run: int = 0) -> bytes:
    number = one.minimum if one.minimum is not None else one.maximum
    latest = one.latest
    line = Line(
        key[0],
        key[1:],
        one.count,
        one.rejected,
        str(one.total if number is None else number),
        None
        if latest is None
        else (
            str(latest.time_ms),
            str(latest.recorded_ms),
            latest.key.hex().upper(),
            str(latest.value),
        ),
        one.distinct,
        run,
        tuple(member.hex() for member in sorted(one.members)),
    )
    return msgspec.json.encode(line) + b"\n"


def _made(rows: MergedRows, lines: bytes, cuts: Sequence[int]) -> list[UsageRow]:
    borders = sorted({0, len(lines), *(cut % (len(lines) + 1) for cut in cuts)})
    found = []
    for first, end in pairwise(borders):
        found += rows.take(lines[first:end])
    return found + rows.take(b"") + rows.rest()


@pytest.mark.parametrize("aggregation", list(Aggregation))
@given(data=st.data())
def test_rows_in_pieces_are_the_rows_of_the_whole(
    aggregation: Aggregation, data: st.DataObject
) -> None:
    query = UsageQuery(
        meter(1, aggregation, groups=("g",)),
        window=WindowSize.MINUTE,
        group_by=("subject", "g"),
        rejected_too=data.draw(st.booleans()),
    )
    stored = data.draw(st.dictionaries(keys, aggregates(aggregation), max_size=8))
    cut = data.draw(st.dictionaries(keys, aggregates(aggregation), max_size=4))
    borders = data.draw(st.lists(st.integers(0, 10_000), max_size=6))
    whole: dict[Key, Aggregate] = dict(stored)
    for key, one in cut.items():
        whole[key] = merged(whole.get(key, EMPTY), one)
    lines = b"".join(_line(key, stored[key]) for key in sorted(stored))
    rows = MergedRows(aggregation, RowMaker(query, [], EXTENT), sorted(cut.items()), NOTHING)
    assert _made(rows, lines, borders) == rows_of(query, [], EXTENT, whole)


@pytest.mark.parametrize("aggregation", [it for it in Aggregation if it != "unique_count"])
@given(data=st.data())
def test_rows_of_runs_and_rows_aside_are_one_answer_and_each_run_is_kept(
    aggregation: Aggregation, data: st.DataObject
) -> None:
    query = UsageQuery(
        meter(1, aggregation, groups=("g",)), window=WindowSize.MINUTE, group_by=("subject", "g")
    )
    some = st.dictionaries(keys, aggregates(aggregation), max_size=5)
    runs = data.draw(st.lists(some, min_size=2, max_size=4))
    aside = data.draw(some)
    borders = data.draw(st.lists(st.integers(0, 10_000), max_size=6))
    whole: dict[Key, Aggregate] = {}
    for part in (*runs, aside):
        add_to(whole, part)
    told = sorted((key, run, one) for run, part in enumerate(runs) for key, one in part.items())
    lines = b"".join(_line(key, one, run) for key, run, one in told)
    reading = Minutes((), runs=tuple((run,) for run in range(1, len(runs))))
    cache = BlockCache()
    recalled = Recall(reading, cache, b"q", reading.runs, (), [{} for _ in runs[1:]], 10**6)
    maker = RowMaker(query, [], EXTENT)
    rows = MergedRows(aggregation, maker, sorted(aside.items()), recalled, len(whole))
    assert _made(rows, lines, borders) == rows_of(query, [], EXTENT, whole)
    asyncio.run(recalled.keep())
    found = cache.found(b"q") or ()
    assert [decoded(kept) for kept in found] == runs[1:]


@pytest.mark.parametrize(
    "end", [b"Code: 241. DB::Exception: too much memory\n", b'{"exception":"x"}\n', b'{"b":1,"k"']
)
def test_what_is_no_row_breaks_the_answer_off(end: bytes) -> None:
    query = UsageQuery(meter(1), window=WindowSize.MINUTE)
    rows = MergedRows(Aggregation.SUM, RowMaker(query, [], EXTENT), [], NOTHING)
    with pytest.raises(Unavailable):
        _made(rows, _line((1, ""), Aggregate(1, 1, 0)) + end, [])


async def _parts(blocks: Sequence[int], aside: int) -> list[list[UsageRow]]:
    """The parts of an answer whose pieces have so many rows, and so many lie behind them."""
    query = UsageQuery(meter(1), window=WindowSize.MINUTE)

    async def stream() -> AsyncGenerator[list[UsageRow], None]:
        at = 0
        for count in blocks:
            yield [UsageRow(it, 0, None, (), 1, 1, 0) for it in range(at, at + count)]
            at += count

    behind = [((minute, ""), Aggregate(1, 1)) for minute in range(aside)]
    rows = MergedRows(Aggregation.SUM, RowMaker(query, [], EXTENT), behind, NOTHING)
    return [part async for part in in_parts(stream(), rows)]


some = st.one_of(st.just(0), st.integers(0, 1_700))


@given(st.lists(some, max_size=12), some)
def test_parts_are_all_rows_in_order_and_bounded(blocks: list[int], aside: int) -> None:
    parts = asyncio.run(_parts(blocks, aside))
    assert len(parts) >= 1
    assert len(parts) == 1 or all(parts), "who joins parts puts something between them"
    assert max(map(len, parts)) <= ANSWER_PART_ROWS
    rows = [row for part in parts for row in part]
    assert [row.from_ms for row in rows[: sum(blocks)]] == list(range(sum(blocks)))
    assert len(rows) == sum(blocks) + aside
    if sum(blocks) + aside <= ANSWER_PART_ROWS and sum(map(bool, blocks)) <= ANSWER_PART_PIECES:
        assert len(parts) == 1
