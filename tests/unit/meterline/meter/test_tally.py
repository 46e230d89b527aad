"""Merged tallies are what all their events say: an oracle of its own, in any order and grouping."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from meterline.meter import EMPTY, Aggregate, Latest, Tally, aggregate_of, merged

values = st.integers(-(10**40), 10**40)
latests = st.builds(
    Latest, st.integers(0, 2), st.integers(0, 2), st.binary(min_size=2, max_size=2), values
)
parts = st.lists(
    st.tuples(
        st.lists(values, max_size=3),
        st.integers(0, 3),
        st.lists(latests, max_size=2),
        st.frozensets(st.binary(min_size=1, max_size=1), max_size=3),
    ),
    max_size=5,
)
Part = tuple[list[int], int, list[Latest], frozenset[bytes]]


def _one(part: Part) -> Aggregate:
    numbers, rejected, latest, members = part
    return Aggregate(
        sum(numbers),
        len(numbers),
        rejected,
        min(numbers, default=None),
        max(numbers, default=None),
        max(latest, default=None),
        members,
        len(members),
    )


def _of_all(found: Sequence[Part]) -> Part:
    return (
        [number for numbers, _, _, _ in found for number in numbers],
        sum(rejected for _, rejected, _, _ in found),
        [one for _, _, latest, _ in found for one in latest],
        frozenset[bytes]().union(*(members for _, _, _, members in found)),
    )


@given(parts, st.randoms())
def test_merged_in_any_order_and_grouping_they_are_the_whole(
    found: list[Part], order: random.Random
) -> None:
    left = [EMPTY, *map(_one, found)]
    while len(left) > 1:
        order.shuffle(left)
        left.append(merged(left.pop(), left.pop()))
    assert left == [_one(_of_all(found))]


def test_a_tally_is_copied_whole() -> None:
    tally = Tally()
    tally.total, tally.count, tally.rejected, tally.minimum, tally.maximum = 6, 3, 2, 1, 4
    tally.latest = Latest(1, 2, b"k", 3)
    assert aggregate_of(tally) == Aggregate(6, 3, 2, 1, 4, Latest(1, 2, b"k", 3))
