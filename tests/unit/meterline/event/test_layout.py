"""How a log is laid out in partitions, and what becomes of events where it grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.event import (
    Event,
    Heritage,
    Layout,
    Record,
    RecordKind,
    Unreadable,
    check_growth,
    decode_event,
    decode_mark,
    decode_record,
    encode_mark,
    grown,
    identity_key,
    may_be_laid_out,
    partition_of,
    routes_known,
    strays_marked,
)
from meterline.limits import PARTITIONS_MAX
from meterline.ports import Unavailable, Unsuitable
from tests.unit.meterline.event.test_event import stored

FACTORS = st.lists(st.integers(2, 4), max_size=3)
KEYS = st.binary(min_size=16, max_size=16)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Of a log that has grown a few times, each time with other ends."""
    layout = Layout(draw(st.integers(1, 4)))
    for factor in draw(FACTORS):
        firsts = [layout.first(number) for number in range(layout.partitions)]
        ends = [first + draw(st.integers(0, 1_000)) for first in firsts]
        layout = grown(layout, layout.partitions * factor, ends)
    return layout


@given(layouts(), KEYS)
def test_a_key_comes_to_one_line_of_partitions(layout: Layout, key: bytes) -> None:
    now = partition_of(key, layout.partitions)
    ever = [partition_of(key, growth.before) for growth in layout.growths]
    assert set(ever) <= set(layout.line(now))
    assert layout.line(now)[0] == now


@given(layouts(), st.data())
def test_offsets_of_a_line_ascend(layout: Layout, data: st.DataObject) -> None:
    partition = data.draw(st.integers(0, layout.partitions - 1))
    firsts = [layout.first(number) for number in layout.line(partition)]
    assert firsts == sorted(set(firsts), reverse=True)
    assert firsts[-1] == 0
    for number, first in zip(layout.line(partition), firsts, strict=True):
        assert layout.home(partition, first) == number
        assert layout.home(number, first) == number


@given(layouts(), st.data())
def test_the_history_of_a_partition_is_without_gap(layout: Layout, data: st.DataObject) -> None:
    partition = data.draw(st.integers(0, layout.partitions - 1))
    first = data.draw(st.integers(0, 2**40))
    end = data.draw(st.integers(first, 2**40))
    parts = layout.history(partition, first, end)
    reached = first
    for part in parts:
        assert part.first == reached
        assert part.partition == layout.home(partition, part.first)
        reached = part.end
    assert reached == end
    if parts:
        assert {part.partitions for part in parts} == {parts[-1].partitions}


def test_a_new_partition_takes_over_the_keys_that_belong_to_it() -> None:
    layout = grown(grown(Layout(4), 12, [7, 0, 3, 900]), 24, [2**36 + 5_000] * 12)
    one, other = layout.growths
    assert layout.history(20, 0, other.first + 9) == [
        Heritage(0, 0, one.first, 24),
        Heritage(8, one.first, other.first, 24),
        Heritage(20, other.first, other.first + 9, 24),
    ]
    assert layout.history(3, 5, 9) == [Heritage(3, 5, 9, 1)]
    assert layout.history(3, 9, 9) == []


@pytest.mark.parametrize("wanted", [0, 1, 3, 4, 6, PARTITIONS_MAX + 4, 2 * PARTITIONS_MAX])
def test_a_number_that_a_log_cannot_have_is_refused_with_words(wanted: int) -> None:
    with pytest.raises(Unsuitable, match="the log has 4 partitions"):
        grown(Layout(4), wanted, [0] * 4)


def test_ends_of_a_topic_are_no_ends_of_a_log_that_has_grown() -> None:
    layout = grown(Layout(2), 4, [7, 9])
    with pytest.raises(AssertionError, match="laid out"):
        grown(layout, 8, [7, 9, 3, 4])


@pytest.mark.parametrize(
    ("there", "wanted", "told"),
    [
        (24, 12, "run the command with 24 first"),
        (8, 24, "run the command with 8 first"),
        (10, 8, "such as 12"),
        (4, 6, "a multiple of 4"),
    ],
)
def test_partitions_of_another_tool_are_registered_with_their_own_growth(
    there: int, wanted: int, told: str
) -> None:
    with pytest.raises(Unsuitable, match=told):
        check_growth(4, there, wanted)


@pytest.mark.parametrize("there", [4, 12, 10])
def test_a_topic_with_the_old_number_the_new_one_or_one_that_no_event_went_by_grows(
    there: int,
) -> None:
    check_growth(4, there, 12)


def test_events_are_spread_by_the_greatest_number_that_a_broker_told() -> None:
    assert [routes_known(4, told) for told in (4, 3, 8, 12)] == [4, 4, 8, 12]
    with pytest.raises(Unavailable, match="no event is taken in"):
        routes_known(4, 10)


def test_what_a_log_may_be_laid_out_as() -> None:
    assert may_be_laid_out(4, 4)
    assert may_be_laid_out(12, 4)
    assert not may_be_laid_out(4, 12)
    assert not may_be_laid_out(6, 4)


def test_what_is_not_counted_up_to_the_last_growth() -> None:
    assert Layout(4).uncounted({}) == []
    layout = grown(grown(Layout(2), 4, [0, 0]), 8, [2**40] * 4)
    passed = {(0, 4): 1, (1, 4): 1, (0, 8): 3, (2, 8): 4}
    assert layout.uncounted(passed) == [1, 3]


def _events(names: list[str]) -> list[Event | Unreadable]:
    return [decode_event(stored(id=name)) for name in names]


@given(st.lists(st.text(max_size=4), max_size=9), st.integers(1, 3), st.integers(1, 4))
def test_behind_a_mark_only_what_belongs_here_counts(
    names: list[str], before: int, factor: int
) -> None:
    items, partitions = _events(names), before * factor
    items.insert(len(items) // 2, Unreadable(len(items) // 2, "", "why", b"{"))
    for partition in range(before):
        kept = strays_marked(items, partition, partitions)
        assert len(kept) == len(items)
        for index, (one, item) in enumerate(zip(kept, items, strict=True)):
            belongs = isinstance(item, Unreadable) or (
                partition_of(item.key, partitions) == partition
            )
            assert (one == item) is belongs
            if not belongs:
                assert isinstance(one, Unreadable)
                assert (one.index, one.text) == (index, item.text)
                assert "partitions" in one.reason


def test_a_mark_says_a_number_and_holds_no_events() -> None:
    value = encode_mark(12)
    assert decode_mark(value) == 12
    assert decode_mark(b"{") is None
    assert decode_mark(b"[]") is None
    assert decode_record(Record(0, 9, 1, RecordKind.MARK, value, "log")) == []


def test_partitions_are_chosen_by_the_key_alone() -> None:
    key = identity_key("n", "s", "1")
    assert partition_of(key, 12) % 4 == partition_of(key, 4)
