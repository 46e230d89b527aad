"""What every BlockLedger promises (meterline/usage/block_ports.py), on SQLite and PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.event import Growth, Layout
from meterline.usage import (
    Block,
    BlockLedger,
    BlockState,
    ProgressStore,
    Seal,
    Stretch,
    block_number,
)

NOW_MS = 1_767_225_600_000
ROWS = {"hours": 3, "days": 2}
NEW_ONE, NEW_OTHER = Stretch(2, 0, 0), Stretch(3, 0, 0)


@pytest.fixture
async def progress(control_database: Database) -> ProgressStore:
    """A store with one log."""
    store = SqlProgressStore(control_database)
    await store.register_log("one", 2)
    return store


@pytest.fixture
def ledger(control_database: Database, progress: ProgressStore) -> BlockLedger:
    """A ledger without blocks."""
    del progress
    return SqlBlockLedger(control_database)


def _block(chance: int, first: int, end: int, after: int = 0, upto: int = 3) -> Block:
    stretches = (Stretch(0, first, end), Stretch(1, first, end))
    return Block(block_number(NOW_MS, chance), 1, stretches, after, upto, changed_at_ms=NOW_MS)


def _seal(partition: int, slice_: int, catalogue: int) -> Seal:
    return Seal(1, partition, slice_, slice_ + 10, 7, catalogue, NOW_MS, None, 0, 5, 0, 0)


async def _published(ledger: BlockLedger, *blocks: Block) -> None:
    for block in blocks:
        await ledger.begin(block)
        assert await ledger.publish(block, ROWS, (), NOW_MS)


async def test_a_block_is_readable_once_it_is_published(ledger: BlockLedger) -> None:
    block = _block(1, 0, 10)
    await ledger.begin(block)
    await ledger.begin(block)
    assert await ledger.blocks(1) == [block]
    assert await ledger.publish(block, ROWS, (), NOW_MS + 1)
    (there,) = await ledger.blocks(1)
    assert there == replace(block, state=BlockState.READABLE, rows=ROWS, changed_at_ms=NOW_MS + 1)
    assert there.size == 5
    assert await ledger.blocks(2) == []
    assert not await ledger.publish(block, ROWS, (), NOW_MS), "it is readable already"


async def test_of_two_makers_one_wins(ledger: BlockLedger) -> None:
    blocks = [_block(chance, 0, 10 + chance) for chance in range(4)]
    for block in blocks:
        await ledger.begin(block)
    won = await asyncio.gather(*(ledger.publish(block, ROWS, (), NOW_MS) for block in blocks))
    assert sorted(won) == [False, False, False, True]


async def test_sources_give_way_to_what_is_made_of_them(ledger: BlockLedger) -> None:
    one, other, both = _block(1, 0, 10), _block(2, 10, 20), _block(3, 0, 20)
    await _published(ledger, one, other)
    await ledger.begin(both)
    assert not await ledger.publish(both, ROWS, (one.number,), NOW_MS)
    assert await ledger.publish(both, ROWS, (one.number, other.number), NOW_MS + 5)
    states = {it.number: it.state for it in await ledger.blocks(1)}
    assert states == {
        one.number: BlockState.REPLACED,
        other.number: BlockState.REPLACED,
        both.number: BlockState.READABLE,
    }
    assert {it.changed_at_ms for it in await ledger.blocks(1)} == {NOW_MS + 5}


async def test_a_block_made_before_the_log_grew_is_not_published(
    ledger: BlockLedger, progress: ProgressStore
) -> None:
    one, narrow = _block(1, 0, 10), _block(2, 10, 20)
    wide = replace(_block(3, 10, 20), stretches=(*narrow.stretches, NEW_ONE, NEW_OTHER))
    await _published(ledger, one)
    for block in (narrow, wide):
        await ledger.begin(block)
    await progress.begin_growth(1, Layout(4, (Growth(2, 4, 1_000),)), NOW_MS)
    assert not await ledger.publish(narrow, ROWS, (), NOW_MS), "two partitions are left out"
    assert await ledger.publish(wide, ROWS, (), NOW_MS)


async def test_what_was_given_up_is_never_published(ledger: BlockLedger) -> None:
    made, readable = _block(1, 10, 20), _block(2, 0, 10)
    await _published(ledger, readable)
    await ledger.begin(made)
    await ledger.give_up([made.number, readable.number], NOW_MS)
    assert not await ledger.publish(made, ROWS, (), NOW_MS)
    states = [it.state for it in await ledger.blocks(1)]
    assert states == [BlockState.GONE, BlockState.READABLE], "what is read is never given up"
    await ledger.forget([made.number, readable.number])
    assert [it.number for it in await ledger.blocks(1)] == [readable.number]


async def test_blocks_are_kept_until_they_are_given_up(ledger: BlockLedger) -> None:
    one, other, both = _block(1, 0, 10), _block(2, 10, 20), _block(3, 0, 20)
    await _published(ledger, one, other)
    await ledger.begin(both)
    assert await ledger.publish(both, ROWS, (one.number, other.number), NOW_MS + 5)
    assert await ledger.kept((one.number, other.number))
    assert await ledger.kept((both.number,))
    await ledger.give_up([other.number], NOW_MS)
    assert await ledger.kept((one.number,))
    assert not await ledger.kept((one.number, other.number))
    await ledger.forget([other.number])
    assert not await ledger.kept((one.number, other.number))
    await ledger.begin(other)  # a statement that came late: it has no rows
    assert not await ledger.kept((one.number, other.number))


async def test_what_is_withdrawn_takes_all_behind_it_along(ledger: BlockLedger) -> None:
    blocks = [_block(1, 0, 10), _block(2, 10, 20), _block(3, 10, 20, 3, 5), _block(4, 20, 30)]
    await _published(ledger, *blocks)
    await ledger.withdraw(1, [blocks[2].number], NOW_MS)
    states = [it.state for it in await ledger.blocks(1)]
    assert states == [BlockState.READABLE] + [BlockState.GONE] * 3
    again = _block(5, 10, 20)
    await _published(ledger, again)


async def test_sealed_slices_are_told_from_an_offset_on(
    ledger: BlockLedger, progress: ProgressStore
) -> None:
    for slice_ in (0, 10, 20):
        await progress.seal(_seal(0, slice_, 3))
    await progress.seal(_seal(1, 5, 3))
    assert [it.slice for it in await ledger.sealed_after(1, 0, 0, 2)] == [0, 10]
    assert [it.slice for it in await ledger.sealed_after(1, 0, 10, 9)] == [10, 20]
    assert [it.slice for it in await ledger.sealed_after(1, 1, 0, 9)] == [5]
    assert await ledger.sealed_after(2, 0, 0, 9) == []
    assert await ledger.events_within(1, (Stretch(0, 10, 30), Stretch(1, 0, 5))) == 2 * 7
    assert await ledger.events_within(1, (Stretch(0, 0, 30), Stretch(1, 0, 6))) == 4 * 7
    assert await ledger.events_within(2, (Stretch(0, 0, 30),)) == 0


async def test_a_revision_is_lacking_until_every_slice_is_filled(
    ledger: BlockLedger, progress: ProgressStore
) -> None:
    stretches = (Stretch(0, 0, 20), Stretch(1, 0, 10))
    for seal in (_seal(0, 0, 2), _seal(0, 10, 4), _seal(0, 20, 1), _seal(1, 0, 3)):
        await progress.seal(seal)
    assert await ledger.lacking(1, stretches, [1, 2]) is None
    assert await ledger.lacking(1, stretches, [1, 3, 4]) == 3
    await progress.mark_filled(1, 0, [0], [3])
    assert await ledger.lacking(1, stretches, [3]) is None
    assert await ledger.lacking(1, stretches, [3, 4]) == 4
    assert await ledger.lacking(1, (Stretch(0, 10, 20),), [3, 4]) is None


async def test_a_lost_usage_store_has_no_blocks(
    ledger: BlockLedger, control_database: Database
) -> None:
    seals = SqlSealLedger(control_database)
    await seals.bind("first")
    await _published(ledger, _block(1, 0, 10))
    await seals.bind("second", lost="another")
    assert len(await ledger.blocks(1)) == 1
    await seals.bind("second", lost="first")
    assert await ledger.blocks(1) == []


async def test_a_log_is_alone_until_another_one_is_registered(
    ledger: BlockLedger, progress: ProgressStore
) -> None:
    assert await ledger.alone(1)
    await progress.register_log("two", 2)
    assert not await ledger.alone(1)
    assert not await ledger.alone(2)


async def test_late_rows_are_kept_where_all_slices_behind_and_the_last_ones_have_them(
    ledger: BlockLedger, progress: ProgressStore
) -> None:
    assert await ledger.late_kept_from(1, {0: 0, 1: 0}) == 0, "no slice is there"
    await progress.seal(_seal(0, 0, 1)._replace(late=None))
    assert await ledger.late_kept_from(1, {0: 0, 1: 0}) is None
    assert await ledger.late_kept_from(1, {0: 10, 1: 0}) is None, (
        "the next may be of the same build"
    )
    await progress.seal(_seal(0, 10, 1)._replace(late=3))
    assert await ledger.late_kept_from(1, {0: 10, 1: 0}) == 0
    assert await ledger.late_kept_from(1, {0: 0, 1: 0}) is None
    await progress.seal(_seal(1, 0, 1)._replace(late=None))
    assert await ledger.late_kept_from(1, {0: 10, 1: 10}) is None


async def test_late_rows_are_kept_from_the_first_of_the_last_slices_on(
    ledger: BlockLedger, progress: ProgressStore
) -> None:
    for partition, slice_, later_ms in ((0, 0, 5), (0, 10, 9), (1, 0, 7)):
        seal = _seal(partition, slice_, 1)
        await progress.seal(seal._replace(late=0, append_ms=NOW_MS + later_ms))
    assert await ledger.late_kept_from(1, {0: 20, 1: 10}) == NOW_MS + 7
    assert await ledger.late_kept_from(1, {0: 10, 1: 10}) == NOW_MS + 5
    assert await ledger.late_kept_from(1, {0: 10, 1: 10, 2: 0}) == 0, "a partition without slices"
