"""When usage by minute may go: once everything of it is in blocks, or late."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from meterline.usage import (
    EVENTS,
    MEMBERS,
    TALLIES,
    Block,
    BlockState,
    Column,
    Dropped,
    Notice,
    Stretch,
    columns_of,
    dropped_of,
    late_before,
    late_from_ms,
    may_be_made_again,
    why_minutes_stay,
)
from meterline.window import DAY_MS, MINUTE_MS

TO_MS = 400 * DAY_MS


def column(first: int, end: int, end_ms: int, upto: int = 5) -> Column:
    block = Block(
        end + 1, 1, (Stretch(0, first, end), Stretch(1, first, end)), 0, upto, 0, end_ms,
        BlockState.READABLE, 0, {"hours": 1},
    )  # fmt: skip
    (made,) = columns_of([block]) if not first else (Column(block.stretches, (block,)),)
    return made


WHOLE = column(0, 10, TO_MS + DAY_MS)


def test_minutes_go_once_blocks_have_all_of_them_and_reach_behind() -> None:
    assert why_minutes_stay(TO_MS, {0: 10, 1: 3}, [WHOLE], {2, 5}, alone=True) is None
    reasons = [
        why_minutes_stay(TO_MS, {0: 10}, [WHOLE], {2, 5}, alone=False),
        why_minutes_stay(TO_MS, {0: 10}, [], {2, 5}, alone=True),
        why_minutes_stay(TO_MS, {0: 10}, [WHOLE], {2, 6}, alone=True),
        why_minutes_stay(TO_MS, {0: 11}, [WHOLE], {2, 5}, alone=True),
        why_minutes_stay(TO_MS, {2: 1}, [WHOLE], {2, 5}, alone=True),
        why_minutes_stay(TO_MS, {0: 10}, [column(0, 10, TO_MS)], {2, 5}, alone=True),
        why_minutes_stay(TO_MS, {0: 10}, [column(0, 10, 0)], {2, 5}, alone=True),
        why_minutes_stay(
            TO_MS, {0: 10}, [column(0, 10, 9, 4), column(10, 20, 2 * TO_MS)], {5}, alone=True
        ),
    ]
    assert None not in reasons


@given(st.integers(0, 500 * DAY_MS), st.integers(0, DAY_MS))
def test_slices_of_later_have_only_late_rows_of_before(to_ms: int, later_ms: int) -> None:
    append_ms = late_from_ms(to_ms) + later_ms
    assert late_before(append_ms) * MINUTE_MS >= to_ms - to_ms % MINUTE_MS


@given(st.integers(0, 500 * DAY_MS), st.integers(0, 500 * DAY_MS // MINUTE_MS))
def test_a_block_can_be_made_again_of_what_is_left(begin_ms: int, before: int) -> None:
    """Its rows before its own border are read along the log, all others by minute."""
    block = replace(WHOLE.blocks[0], begin_ms=begin_ms)
    border = late_before(begin_ms) if begin_ms else 0
    assert may_be_made_again(block, [Dropped(before, 1)]) == (border >= before)
    assert may_be_made_again(block, ())


def test_only_notices_of_usage_by_minute_are_of_minutes() -> None:
    given_ = [
        Notice(EVENTS, "20260105", 9, 5 * MINUTE_MS - 1, 1, 0),
        Notice(MEMBERS, "202601", 9, 7 * MINUTE_MS - 1, 2, 0),
        Notice(TALLIES, "202601", 9, 7 * MINUTE_MS - 1, 2, 0),
        Notice(TALLIES, "202512", 9, 4 * MINUTE_MS - 1, 1, 0),
    ]
    assert dropped_of(given_) == (Dropped(4, 1, gone=False), Dropped(7, 2, gone=False))
    begun = [one._replace(begun_at_ms=9) for one in given_[2:]]
    assert dropped_of(begun) == (Dropped(4, 1), Dropped(7, 2))


def test_all_blocks_can_be_made_again_until_the_drop_has_begun() -> None:
    block = WHOLE.blocks[0]
    assert may_be_made_again(block, [Dropped(9, 1, gone=False)])
    assert not may_be_made_again(block, [Dropped(9, 1, gone=False), Dropped(9, 1)])
