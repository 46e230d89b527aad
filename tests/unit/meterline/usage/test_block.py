"""Blocks: columns without a gap, what they cover, which may be read, which are merged."""

import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from meterline.limits import BLOCK_FAN, BLOCK_ROWS_MAX
from meterline.usage import (
    Block,
    BlockState,
    Column,
    Stretch,
    Stretches,
    block_number,
    columns_of,
    coverage_of,
    covering,
    may_be_readable,
    merge_due,
)


def _stretches(*ends: tuple[int, int]) -> Stretches:
    return tuple(Stretch(partition, *end) for partition, end in enumerate(ends))


def _block(
    number: int,
    stretches: Stretches,
    after: int = 0,
    upto: int = 5,
    rows: int = 10,
    state: BlockState = BlockState.READABLE,
) -> Block:
    return Block(number, 1, stretches, after, upto, 0, 0, state, 0, {"hours": rows})


PARTITIONS = 2  # of the log that these blocks are made of
FIRST, SECOND, THIRD = (
    _stretches((0, 4), (0, 0)),
    _stretches((4, 9), (0, 3)),
    _stretches((9, 9), (3, 8)),
)


def test_columns_follow_each_other_from_the_beginning() -> None:
    blocks = [_block(3, THIRD), _block(1, FIRST), _block(2, SECOND)]
    assert [column.stretches for column in columns_of(blocks)] == [FIRST, SECOND, THIRD]
    assert [column.stretches for column in columns_of([blocks[0], blocks[1]])] == [FIRST]
    assert not columns_of([blocks[0]])


def test_only_what_is_readable_is_in_a_column() -> None:
    states = [state for state in BlockState if state is not BlockState.READABLE]
    assert not columns_of(_block(1, FIRST, state=state) for state in states)


def test_blocks_of_a_column_leave_out_no_revision() -> None:
    (column,) = columns_of([_block(1, FIRST, 0, 3), _block(2, FIRST, 3, 5), _block(3, FIRST, 6, 9)])
    assert column.upto == 5
    assert [block.number for block in column.blocks] == [1, 2]
    assert not columns_of([_block(2, FIRST, 3, 5)])


def test_coverage_ends_where_a_revision_is_not_in_yet() -> None:
    columns = columns_of([_block(1, FIRST, 0, 3), _block(2, FIRST, 3, 5), _block(3, SECOND, 0, 3)])
    assert coverage_of(1, columns, {2}, alone=True).ends == {0: 9, 1: 3}
    assert coverage_of(1, columns, {2}, alone=True).blocks == (1, 3)
    assert coverage_of(1, columns, {4}, alone=True).ends == {0: 4, 1: 0}
    assert coverage_of(1, columns, {4}, alone=True).blocks == (2,)
    assert coverage_of(1, columns, {2, 4}, alone=True).blocks == (1, 2)
    assert coverage_of(1, columns, {6}, alone=True).ends == {}


def test_blocks_without_rows_are_not_read() -> None:
    coverage = coverage_of(1, columns_of([_block(1, FIRST, rows=0)]), {1}, alone=True)
    assert coverage.ends == {0: 4, 1: 0}
    assert coverage.blocks == ()


# --- what may become readable ---


def _making(number: int, stretches: Stretches, after: int = 0, upto: int = 5) -> Block:
    return _block(number, stretches, after, upto, state=BlockState.MAKING)


def test_a_block_continues_the_columns_or_is_refused() -> None:
    there = [_block(1, FIRST), _making(2, SECOND), _making(3, THIRD), _making(4, FIRST)]
    assert may_be_readable(there[1], there, (), PARTITIONS)
    assert not may_be_readable(there[2], there, (), PARTITIONS)
    assert not may_be_readable(there[3], there, (), PARTITIONS)


def test_a_new_column_that_leaves_out_a_partition_of_the_log_is_refused() -> None:
    wide = (*SECOND, Stretch(2, 0, 0), Stretch(3, 0, 0))
    merged, newer = _making(4, _stretches((0, 4), (0, 0))), _making(5, FIRST, 5, 7)
    there = [_block(1, FIRST), _making(2, SECOND), _making(3, wide), merged, newer]
    assert may_be_readable(there[1], there, (), partitions=2)
    assert not may_be_readable(there[1], there, (), partitions=4)
    assert may_be_readable(there[2], there, (), partitions=4)
    assert may_be_readable(merged, there, (1,), partitions=4), "as its source had it"
    assert may_be_readable(newer, there, (), partitions=4), "as its column has it"


def test_a_block_that_was_given_up_is_refused() -> None:
    block = _making(2, SECOND)
    there = [_block(1, FIRST), replace(block, state=BlockState.GONE)]
    assert not may_be_readable(block, there, (), PARTITIONS)
    assert not may_be_readable(block, there[:1], (), PARTITIONS)


def test_newer_revisions_continue_a_column_or_are_refused() -> None:
    there = [_block(1, FIRST, 0, 3), _making(2, FIRST, 3, 5), _making(3, FIRST, 4, 5)]
    assert may_be_readable(there[1], there, (), PARTITIONS)
    assert not may_be_readable(there[2], there, (), PARTITIONS)
    there.append(_block(4, FIRST, 3, 6))
    assert not may_be_readable(there[1], there, (), PARTITIONS)


def test_a_merged_block_has_what_its_sources_have() -> None:
    both = _stretches((0, 9), (0, 3))
    merged = _making(9, both)
    there = [_block(1, FIRST), _block(2, SECOND), merged]
    assert may_be_readable(merged, there, (1, 2), PARTITIONS)
    assert not may_be_readable(merged, there, (1,), PARTITIONS)
    assert not may_be_readable(
        merged, [replace(there[0], state=BlockState.REPLACED), *there[1:]], (1, 2), PARTITIONS
    )
    newer = [*there, _block(3, FIRST, 5, 7)]
    assert not may_be_readable(merged, newer, (1, 2), PARTITIONS), (
        "a newer revision would be left behind"
    )


def test_a_slice_whose_rows_change_is_also_in_blocks_in_the_making() -> None:
    there = [
        _making(1, FIRST),
        _block(2, FIRST),
        _block(3, FIRST, state=BlockState.REPLACED),
        _block(4, FIRST, state=BlockState.GONE),
        _making(5, SECOND),
    ]
    assert covering(there, 0, 3) == [1, 2]
    assert covering(there, 0, 4) == [5]
    assert covering(there, 1, 0) == [5]


# --- worlds of many makers ---


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_no_slice_and_revision_is_ever_read_twice_or_lost(seed: int) -> None:
    """Makers work from what they saw some time ago; only what may become readable does."""
    rng = random.Random(seed)
    there: list[Block] = []
    seen: Sequence[Block] = ()
    newest, numbers = 3, iter(range(1, 1_000))
    waiting: list[tuple[Block, tuple[int, ...]]] = []
    for _ in range(80):
        if rng.random() < 0.5:
            seen = tuple(there)
        newest += rng.random() < 0.2
        made = _made(rng, next(numbers), seen, newest)
        if made is not None:
            there.append(made[0])
            waiting.append(made)
        if waiting and rng.random() < 0.8:
            block, sources = waiting.pop(rng.randrange(len(waiting)))
            if may_be_readable(block, there, sources, PARTITIONS):
                there = [_moved(it, block.number, sources) for it in there]
        _check(there)


def _made(
    rng: random.Random, number: int, seen: Sequence[Block], newest: int
) -> tuple[Block, tuple[int, ...]] | None:
    columns = columns_of(seen)
    choice = rng.randrange(3)
    if choice == 0 and len(columns) > 1:
        first = rng.randrange(len(columns) - 1)
        group = columns[first : first + 1 + rng.randrange(1, 4)]
        stretches = tuple(
            Stretch(a.partition, a.first, b.end)
            for a, b in zip(group[0].stretches, group[-1].stretches, strict=True)
        )
        sources = tuple(block.number for column in group for block in column.blocks)
        return _making(number, stretches, 0, group[0].upto), sources
    if choice == 1 and columns:
        column = rng.choice(columns)
        return (
            (_making(number, column.stretches, column.upto, newest), ())
            if (column.upto < newest)
            else None
        )
    last = columns[-1].stretches if columns else _stretches((0, 0), (0, 0))
    ends = [(it.end, it.end + rng.randrange(3)) for it in last]
    return _making(number, _stretches(*ends), 0, newest), ()


def _moved(block: Block, number: int, sources: tuple[int, ...]) -> Block:
    if block.number == number:
        return replace(block, state=BlockState.READABLE, rows={"hours": 1})
    if block.number in sources:
        return replace(block, state=BlockState.REPLACED)
    return block


def _check(there: Sequence[Block]) -> None:
    readable = [block for block in there if block.state is BlockState.READABLE]
    columns = columns_of(readable)
    in_columns = {block.number for column in columns for block in column.blocks}
    assert in_columns == {block.number for block in readable}, "none is left out"
    cells = [
        (stretch.partition, slice_, revision)
        for block in readable
        for stretch in block.stretches
        for slice_ in range(stretch.first, stretch.end)
        for revision in range(block.after + 1, block.upto + 1)
    ]
    assert len(cells) == len(set(cells)), "none is read twice"


# --- merging ---


@given(st.lists(st.integers(0, 1_000_000), max_size=300))
def test_columns_stay_few_and_rows_are_seldom_written_again(sizes: list[int]) -> None:
    blocks: list[Block] = []
    numbers = iter(range(1, 10_000))
    written = 0
    for at, size in enumerate(sizes):
        blocks.append(_block(next(numbers), _stretches((at, at + 1)), rows=size))
        while (merge := merge_due(columns_of(blocks))) is not None:
            rows = sum(block.size for block in merge.sources)
            written += rows
            sources = {block.number for block in merge.sources}
            blocks = [block for block in blocks if block.number not in sources]
            blocks.append(_block(next(numbers), merge.stretches, rows=rows))
    assert sum(block.size for block in blocks) == sum(sizes)
    assert written <= 10 * sum(sizes)
    assert len(blocks) <= 12 * BLOCK_FAN


@given(
    st.lists(
        st.tuples(st.sampled_from((0, 1, 5, BLOCK_ROWS_MAX // 5, BLOCK_ROWS_MAX)), st.booleans()),
        max_size=30,
    ),
    st.integers(2, 8),
)
def test_the_newest_of_the_shortest_stretches_worth_it_are_merged(
    made: list[tuple[int, bool]], fan: int
) -> None:
    columns = columns_of(
        _block(at + 1, _stretches((at, at + 1)), upto=4 + other, rows=rows)
        for at, (rows, other) in enumerate(made)
    )
    groups = [
        columns[at : at + length]
        for length in range(fan, len(columns) + 1)
        for at in range(len(columns) - length, -1, -1)
    ]
    due = next((group for group in groups if _is_worth_merging(group, fan)), None)
    merge = merge_due(columns, fan)
    assert (merge is None) == (due is None)
    if merge is not None and due is not None:
        assert merge.sources == tuple(column.blocks[0] for column in due)
        assert merge.upto == due[0].upto


def _is_worth_merging(group: Sequence[Column], fan: int) -> bool:
    rows = sum(column.size for column in group)
    largest = max(column.size for column in group)
    same = len({column.upto for column in group}) == 1
    return same and rows <= BLOCK_ROWS_MAX and rows * 2 >= largest * fan


def test_a_column_of_many_blocks_becomes_one() -> None:
    blocks = [_block(at + 1, FIRST, at, at + 1) for at in range(BLOCK_FAN)]
    merge = merge_due(columns_of(blocks))
    assert merge is not None
    assert merge.stretches == FIRST
    assert merge.upto == BLOCK_FAN


def test_columns_of_other_revisions_are_not_merged() -> None:
    blocks = [_block(at + 1, _stretches((at, at + 1)), upto=4 + (at == 3)) for at in range(8)]
    assert merge_due(columns_of(blocks)) is None


def test_a_block_does_not_grow_without_bound() -> None:
    rows = BLOCK_ROWS_MAX // 4
    blocks = [_block(at + 1, _stretches((at, at + 1)), rows=rows) for at in range(8)]
    assert merge_due(columns_of(blocks)) is None


def test_numbers_begin_with_the_time() -> None:
    assert block_number(1_767_225_600_000, 7) < block_number(1_767_225_600_001, 0)
    assert _block(block_number(1_767_225_600_000, 2**40 - 1), FIRST).made_at_ms == 1_767_225_600_000
