"""Which seals are added up: rules over any seals and borders."""

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import BLOCK_SLICES_MAX
from meterline.usage import (
    Block,
    BlockState,
    Borders,
    RetentionTerms,
    Seal,
    Stretch,
    borders,
    columns_of,
    next_sum,
    summed,
)

DAY_MS = 86_400_000


@st.composite
def partitions(draw: st.DrawFn) -> list[Seal]:
    """Seals of one partition by offset; a loss may have left a gap between two."""
    seals: list[Seal] = []
    end = append_ms = 0
    for _ in range(draw(st.integers(0, 12))):
        first = end + draw(st.sampled_from((0, 0, 0, 5)))
        end = first + draw(st.integers(1, 9))
        append_ms += draw(st.integers(0, 3)) * DAY_MS
        rows = (draw(st.integers(0, 9)) for _ in range(5))
        events, rejects, tallies, members, rejected = rows
        late = draw(st.one_of(st.none(), st.integers(0, 4)))
        catalogue = draw(st.integers(1, 5))
        seals.append(
            Seal(1, 0, first, end, events, catalogue, append_ms, b"d", rejects, tallies, members,
                 rejected, late)
        )  # fmt: skip
    return seals


def any_borders() -> st.SearchStrategy[Borders]:
    """Where columns end, and what is old enough."""
    ends = st.lists(st.integers(0, 80), max_size=4).map(lambda them: tuple(sorted(set(them))))
    return st.builds(Borders, ends, st.integers(0, 30 * DAY_MS), st.integers(0, 40))


@given(partitions(), any_borders())
def test_what_is_added_up_is_old_and_lies_within_one_column(
    seals: list[Seal], within: Borders
) -> None:
    taken = next_sum(seals, within)
    assert list(taken) == seals[: len(taken)], "the oldest first, none is left out"
    assert not taken or len(taken) < len(seals), "the last seal stays"
    assert all(seal.append_ms < within.before_ms for seal in taken)
    weeks = {datetime.fromtimestamp(it.append_ms / 1_000, UTC).isocalendar()[:2] for it in taken}
    assert len(weeks) <= 1, "it is dropped with all of its rows"
    if taken:
        first, end = taken[0].slice, taken[-1].end
        assert any(end <= border for border in within.ends), "blocks answer for it"
        assert not any(first < border < end for border in within.ends), "no column ends within"
    rows = sum(seal.tallies + seal.members for seal in taken)
    assert len(taken) <= 1 or rows <= within.tallies_max


@given(partitions(), any_borders(), st.lists(st.integers(0, 90), max_size=3))
def test_marks_part_sums_and_change_nothing_else(
    seals: list[Seal], within: Borders, marks: list[int]
) -> None:
    left = seals
    while taken := next_sum(left, within.parted(marks)):
        first, end = taken[0].slice, taken[-1].end
        assert not any(first < mark < end for mark in marks)
        left = left[len(taken) :]
    whole = seals
    while taken := next_sum(whole, within):
        whole = whole[len(taken) :]
    # a slice across a mark, of which there are none, would be no sum
    across = any(seal.slice < mark < seal.end for mark in marks for seal in seals)
    assert left == whole or across


@given(partitions(), any_borders())
def test_adding_up_again_and_again_loses_nothing(seals: list[Seal], within: Borders) -> None:
    left, sums = seals, []
    while taken := next_sum(left, within):
        sums.append(summed(taken))
        left = left[len(taken) :]
    for name in ("events", "rejects", "tallies", "members", "rejected"):
        total = sum(getattr(one, name) for one in sums) + sum(getattr(one, name) for one in left)
        assert total == sum(getattr(seal, name) for seal in seals)
    assert sum(one.slices for one in sums) + len(left) == len(seals)
    made = [one.as_seal() for one in sums] + left
    assert all(before.end <= after.slice for before, after in pairwise(made))
    assert (made[-1:], made[:1] and made[0].slice) == (seals[-1:], seals[:1] and seals[0].slice)
    for one in sums:
        mine = [seal for seal in seals if one.slice <= seal.slice < one.end]
        assert one.begin_ms == min(seal.append_ms for seal in mine)
        assert one.append_ms == max(seal.append_ms for seal in mine)
        assert one.catalogue == min(seal.catalogue for seal in mine)
        late = [seal.late for seal in mine]
        assert one.late == (None if None in late else sum(it or 0 for it in late))


def test_everything_old_is_added_up_in_the_end() -> None:
    seals = [Seal(1, 0, n * 10, n * 10 + 10, 1, 1, n) for n in range(3_000)]
    left = seals
    counts = []
    while taken := next_sum(left, Borders((20_000, 29_000), 2_500)):
        counts.append(len(taken))
        left = left[len(taken) :]
    assert counts == [BLOCK_SLICES_MAX, BLOCK_SLICES_MAX, 500]


def test_columns_that_do_not_answer_for_all_revisions_are_no_borders() -> None:
    blocks = [
        Block(number, 1, (Stretch(0, first, first + 10), Stretch(1, 0, 0)), after, upto,
              state=BlockState.READABLE)
        for number, first, after, upto in ((1, 0, 0, 3), (2, 0, 3, 5), (3, 10, 0, 5), (4, 20, 0, 4))
    ]  # fmt: skip
    columns = columns_of(blocks)
    assert borders(columns, {2, 5}, 0, 7).ends == (10, 20)
    assert borders(columns, {2, 4}, 0, 7).ends == (10, 20, 30)
    assert borders(columns, {6}, 0, 7).ends == ()
    assert borders(columns, {5}, 1, 7)[:2] == ((0, 0), 7)
    assert borders((), {5}, 1, 7).ends == ()


def test_seals_are_needed_as_long_as_anything_of_their_slices_is_dropped_later() -> None:
    assert RetentionTerms().seals_before(100 * DAY_MS) == 0
    assert RetentionTerms(None, 5 * DAY_MS, None).seals_before(100 * DAY_MS) == 0
    assert RetentionTerms(5 * DAY_MS, None, 6 * DAY_MS).seals_before(100 * DAY_MS) == 94 * DAY_MS
    terms = RetentionTerms(5 * DAY_MS, 9 * DAY_MS, 6 * DAY_MS)
    assert terms.seals_before(100 * DAY_MS) == 91 * DAY_MS
