"""What is kept of blocks: each block of a question once, whatever was merged meanwhile; and no more
than fits.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.clickhouse.usage.cache import (
    TOO_LARGE,
    AskedEnds,
    BlockCache,
    BlockEnds,
    Kept,
    Recall,
    Rows,
    Run,
    decoded,
    encoded,
    ends_question,
    joined,
    question_of,
    recall,
    runs_of,
    unknown_of,
)
from meterline.backends.clickhouse.usage.statement import Minutes, Part
from meterline.limits import BLOCK_CACHE_RUN_SHARE
from meterline.meter import Aggregate, Aggregation, Latest
from meterline.usage import Coverage, Filter, Operator, UsageQuery
from meterline.window import WindowSize
from tests.contract.usage.slices import meter

sizes = st.lists(st.integers(1, 100_000), max_size=12)
DAYS = Part(meter(1), 1_440 * 10, 1_440 * 20)


def _rows(run: Run) -> Rows:
    """Some keys are of one block, some of all; a total says which blocks were added up."""
    rows: Rows = {(block, ""): Aggregate(10**block, 1) for block in run}
    rows[(0, "é")] = Aggregate(sum(10**block for block in run), len(run))
    return rows


@given(sizes)
def test_runs_are_all_blocks_in_order_and_begin_where_columns_are_smaller(found: list[int]) -> None:
    blocks = range(len(found))
    runs = runs_of(blocks, found)
    assert [block for run in runs for block in run] == list(blocks)
    for run in runs:
        largest = [max(found[run[0] : block]) for block in run[1:]]
        assert all(
            found[block] * BLOCK_CACHE_RUN_SHARE >= most
            for block, most in zip(run[1:], largest, strict=True)
        )
    for one, other in pairwise(runs):
        assert found[other[0]] * BLOCK_CACHE_RUN_SHARE < max(found[block] for block in one)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Blocks and sizes, as they are when one asks: blocks are added, merged and withdrawn."""
    blocks: list[int] = []
    size: dict[int, int] = {}
    told = []
    fresh = 0
    for _ in range(draw(st.integers(1, 8))):
        for _ in range(draw(st.integers(0, 3))):
            blocks.append(fresh := fresh + 1)
            size[fresh] = draw(st.integers(1, 3))
        first = draw(st.integers(0, 9))
        match draw(st.sampled_from(("merge", "withdraw", "nothing"))):
            case "merge" if len(blocks[first:]) > 1:
                fresh += 1
                size[fresh] = sum(size[block] for block in blocks[first:])
                blocks = [*blocks[:first], fresh]
            case "withdraw":
                blocks = blocks[:first]
        if blocks:
            told.append((blocks.copy(), [size[block] for block in blocks]))
    return told


@given(histories())
def test_whatever_is_merged_each_block_is_answered_once(
    history: list[tuple[list[int], list[int]]],
) -> None:
    answer: tuple[Kept, ...] = ()
    seen: set[tuple[int, ...]] = set()
    for blocks, size in history:
        runs = runs_of(blocks, size)
        known, unknown = unknown_of(runs, answer)
        assert all(any(set(part) <= set(run) for run in runs) for part in unknown)
        again = tuple(blocks) in seen
        assert not (again and unknown), "it was asked of the same blocks before"
        answer = joined(runs, [*known, *(encoded(part, _rows(part)) for part in unknown)])
        assert [block for kept in answer for block in kept.run] == blocks
        for kept in answer:
            assert decoded(kept) == _rows(kept.run)
            assert kept.keys == len(decoded(kept))
        seen = {tuple(blocks)}


@pytest.mark.parametrize(
    "one",
    [
        Aggregate(-(10**60), 3, 1),
        Aggregate(rejected=2),
        Aggregate(count=1, minimum=-(10**40)),
        Aggregate(count=1, maximum=0),
        Aggregate(count=1, latest=Latest(2**40, 5, bytes(range(16)), 10**40)),
    ],
)
def test_rows_are_kept_as_they_are(one: Aggregate) -> None:
    rows: Rows = {(5, "", '"\\\n\x00é\U0001f600'): one, (2**32 - 1, "s"): one}
    assert decoded(encoded((1,), rows)) == rows


def _kept(size: int, block: int = 1) -> tuple[Kept, ...]:
    return (Kept((block,), bytes(size), 1),)


def test_it_holds_no_more_than_it_may_and_what_was_asked_last() -> None:
    cache = BlockCache(bytes_max=10_000, answer_bytes_max=4_000)
    for name in (b"a", b"b"):
        cache.keep(name, _kept(4_000))
    assert cache.found(b"a") == _kept(4_000)
    cache.keep(b"c", _kept(2_000))
    assert cache.found(b"b") is None, "asked longest ago"
    assert cache.found(b"a") == _kept(4_000)
    cache.keep(b"a", _kept(100))
    assert cache.found(b"c") == _kept(2_000)
    held = cache.held
    cache.keep(b"a", _kept(100))
    assert cache.held == held
    cache.keep(b"d", _kept(4_001))
    assert cache.found(b"d") == TOO_LARGE
    for number in range(1_000):
        cache.keep(b"%d" % number, _kept(0))
        assert cache.held <= 10_000


def _minutes() -> Minutes:
    coverage = Coverage(1, {0: 5}, (7, 8, 9), sizes=(50, 40, 1))
    return Minutes((DAYS,), coverage=coverage)


Taken = Callable[[Recall], object]


async def _asked(cache: BlockCache, minutes: Minutes, taken: Taken = lambda _: None) -> Recall:
    found = recall(cache, UsageQuery(DAYS.meter), minutes)
    taken(found)
    await found.keep()
    return found


async def test_what_is_known_is_not_read_again() -> None:
    cache = BlockCache()

    def take(recalled: Recall) -> None:
        recalled.take(1, (0, ""), Aggregate(1, 1))
        recalled.take(2, (0, ""), Aggregate(20, 2))

    first = await _asked(cache, _minutes(), take)
    assert first.minutes.runs == ((7, 8), (9,))
    assert not first.known
    second = await _asked(cache, _minutes())
    assert second.minutes.runs == ()
    assert second.minutes.coverage is not None
    assert second.minutes.coverage.blocks == ()
    assert second.minutes.coverage.ends == {0: 5}
    rows: Rows = {(0, ""): Aggregate(300, 3)}
    await second.add_to(rows)
    assert rows == {(0, ""): Aggregate(321, 6)}


async def test_many_known_rows_are_merged_beside_the_loop() -> None:
    cache = BlockCache()

    def take(recalled: Recall) -> None:
        for number in range(1_000):
            recalled.take(1, (number, ""), Aggregate(number, 1))

    await _asked(cache, _minutes(), take)
    known = await _asked(cache, _minutes())
    rows: Rows = {}
    await asyncio.gather(known.add_to(rows), asyncio.sleep(0))
    assert len(rows) == known.count == 1_000


async def test_what_is_too_large_is_not_kept_and_not_told_apart_again() -> None:
    cache = BlockCache(answer_bytes_max=1_000)

    def take(recalled: Recall) -> None:
        for number in range(1_000):
            recalled.take(1, (number, "subject"), Aggregate(number, 1))

    await _asked(cache, _minutes(), take)
    assert cache.held < 1_000
    again = await _asked(cache, _minutes())
    assert again.minutes == _minutes()
    assert not again.known


async def test_what_is_not_kept_at_last_is_not_known() -> None:
    cache = BlockCache()
    left = recall(cache, UsageQuery(DAYS.meter), _minutes())
    left.take(1, (0, ""), Aggregate(1, 1))
    assert recall(cache, UsageQuery(DAYS.meter), _minutes()).minutes.runs == left.minutes.runs


def _questions() -> Sequence[tuple[UsageQuery, Minutes]]:
    of = meter(1, groups=("g", "h"))
    whole = (Part(of, 14_400, 28_800),)
    plain = Minutes(whole)
    days = Minutes(whole, (1_440 * 10, 1_440 * 11, 1_440 * 20))
    return [
        (UsageQuery(of), plain),
        (UsageQuery(meter(2, groups=("g", "h"))), Minutes((Part(meter(2), 14_400, 28_800),))),
        (UsageQuery(of), Minutes((Part(of, 14_400, 28_860),))),
        (UsageQuery(of), Minutes((Part(of, 14_400, 21_600), Part(meter(2), 21_600, 28_800)))),
        (UsageQuery(of, window=WindowSize.DAY), days),
        (UsageQuery(of, window=WindowSize.DAY), Minutes(whole, (1_440 * 10, 1_440 * 20))),
        (UsageQuery(of, group_by=("subject",)), plain),
        (UsageQuery(of, group_by=("g",)), plain),
        (UsageQuery(of, group_by=("h",)), plain),
        (UsageQuery(of, filters=(("g", Filter(Operator.EQ, ("a",))),)), plain),
        (UsageQuery(of, filters=(("g", Filter(Operator.EQ, ("b",))),)), plain),
        (UsageQuery(of, filters=(("g", Filter(Operator.NEQ, ("a",))),)), plain),
        (UsageQuery(of, filters=(("subject", Filter(Operator.EQ, ("a",))),)), plain),
    ]


def test_a_question_is_what_decides_its_rows() -> None:
    coverage = _minutes().coverage
    found = []
    for query, minutes in _questions():
        of = Minutes(minutes.parts, minutes.starts, coverage)
        newer = Coverage(1, {0: 9}, (7, 8, 9, 10), 77, sizes=(50, 40, 1, 1))
        found.append(question_of(query, of))
        assert question_of(query, Minutes(minutes.parts, minutes.starts, newer)) == found[-1]
    assert None not in found
    assert len(set(found)) == len(found)


def test_minutes_that_reach_no_further_than_their_hour_ask_blocks_the_same() -> None:
    query = UsageQuery(DAYS.meter)
    ends = [Part(DAYS.meter, DAYS.first, DAYS.end + 60 + minute) for minute in (0, 1, 59, 60)]
    found = [question_of(query, Minutes((part,), (), _minutes().coverage)) for part in ends]
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.parametrize(
    ("query", "minutes"),
    [
        (UsageQuery(meter(1, Aggregation.UNIQUE_COUNT)), _minutes()),
        (UsageQuery(meter(1), window=WindowSize.MINUTE), _minutes()),
        (UsageQuery(meter(1)), Minutes((DAYS,))),
        (UsageQuery(meter(1)), Minutes((DAYS,), coverage=Coverage(1, {}, ()))),
        (UsageQuery(meter(1)), Minutes((Part(meter(1), 5, 59),), coverage=_minutes().coverage)),
    ],
)
def test_what_no_block_answers_is_read_as_ever(query: UsageQuery, minutes: Minutes) -> None:
    found = recall(BlockCache(), query, minutes)
    assert found.minutes == minutes
    assert found.cache is None


def test_ends_are_known_once_an_answer_was_whole() -> None:
    known = BlockEnds()
    question = ends_question((1, 2), 3, 0, 1_440, 0)
    broken, whole = AskedEnds(known), AskedEnds(known)
    broken.found(question, (7, 9))
    assert AskedEnds(known).get(question) is None
    whole.found(question, (5, 11))
    assert whole.get(question) == (5, 11)
    whole.keep()
    assert AskedEnds(known).get(question) == (5, 11)


def test_what_was_asked_longest_ago_goes_first() -> None:
    known = BlockEnds(kept_max=2)
    one, two, three = (ends_question((block,), 1, 0, 10, 0) for block in (1, 2, 3))
    known.keep(one, (1,))
    known.keep(two, ())
    assert known.get(one) == (1,)
    known.keep(three, (3,))
    assert known.get(two) is None
    assert known.get(one) == (1,)


@given(
    st.lists(st.integers(0, 2**63), max_size=3),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.lists(st.integers(0, 2**63), max_size=3),
    st.tuples(*[st.integers(0, 3)] * 4),
)
def test_ends_are_of_these_blocks_this_revision_and_these_minutes(
    blocks: list[int], asked: tuple[int, ...], others: list[int], other: tuple[int, ...]
) -> None:
    same = ends_question(blocks, *asked) == ends_question(others, *other)
    assert same == (blocks == others and asked == other)
