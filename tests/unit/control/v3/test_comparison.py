from collections.abc import AsyncIterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from control.v3.meters.comparison import Comparison, SubjectDifference, compared
from meterline.usage import UsageRow
from tests.simulation.virtual_loop import VirtualLoop


def row(subject: str, value: int, count: int = 1, rejected: int = 0) -> UsageRow:
    return UsageRow(0, 1, subject, (), value, count, rejected)


async def _blocks(rows: Sequence[UsageRow], size: int) -> AsyncIterator[list[UsageRow]]:
    for first in range(0, len(rows), size):
        yield list(rows[first : first + size])


async def told(
    before: Sequence[UsageRow], after: Sequence[UsageRow], size: int = 2
) -> list[SubjectDifference]:
    return [one async for one in compared(_blocks(before, size), _blocks(after, size))]


async def test_subjects_of_both_are_compared_in_order() -> None:
    found = await told([row("a", 1), row("b", 5)], [row("b", 3), row("c", 2)])
    assert [(one.subject, one.difference, one.differs) for one in found] == [
        ("a", -1, True),
        ("b", -2, True),
        ("c", 2, True),
    ]


async def test_the_same_value_of_other_events_differs() -> None:
    (one,) = await told([row("a", 1, 1)], [row("a", 1, 2)])
    assert (one.difference, one.differs) == (0, True)
    (one,) = await told([row("a", 1, 1)], [row("a", 1, 1, 1)])
    assert one.differs
    (one,) = await told([row("a", 1, 1, 1)], [row("a", 1, 1, 1)])
    assert not one.differs


async def test_nothing_counted_is_not_zero_and_subtracts_as_zero() -> None:
    (one,) = await told([row("a", 0, 1)], [row("a", 0, 0)])
    assert (one.difference, one.differs) == (0, True)
    (one,) = await told([], [row("a", 0, 0, 2)])
    assert (one.difference, one.differs) == (0, True)


values = st.dictionaries(st.text(max_size=3), st.integers(-3, 3), max_size=8)


@given(values, values, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_pages_of_two_streams_are_those_of_the_whole(
    old: dict[str, int], new: dict[str, int], size: int, limit: int, include_equal: bool
) -> None:
    def rows(of: dict[str, int]) -> list[UsageRow]:
        return [row(name, of[name]) for name in sorted(of)]

    whole = [
        name for name in sorted({**old, **new}) if include_equal or old.get(name) != new.get(name)
    ]
    loop = VirtualLoop()
    found: list[str] = []
    after: str | None = None
    while True:
        page = Comparison(limit, after, include_equal)
        for one in loop.run_until_complete(told(rows(old), rows(new), size)):
            page.add(one)
        assert page.subjects == len({**old, **new})
        assert page.differing == sum(old.get(it) != new.get(it) for it in {**old, **new})
        names = [one.subject for one in page.found]
        found += names[:limit]
        if len(names) <= limit:
            break
        after = names[limit - 1]
    assert found == whole
    assert loop.end() == []
