"""Packed keys know what a dictionary of rows knows, and the seen store is told the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.slice import new_keys
from aggregator.slice.new_keys import NewKeys
from aggregator.slice.verdict import Seen
from meterline.limits import SLICE_EVENTS_MAX
from meterline.usage import SeenRow
from tests.simulation.raw import in_order

KEYS = st.integers(0, 5).map(lambda number: bytes([number]) * 16)
SHORT = st.sampled_from([(1 << 60) - 1, 1, 0])  # so that different keys are alike
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 2**40), st.binary(min_size=8, max_size=8)))


@given(rows=ROWS, short=SHORT)
def test_the_latest_of_each_key_is_known(rows: list[tuple[bytes, int, bytes]], short: int) -> None:
    keys, latest = NewKeys(), dict[bytes, Seen]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_keys, "_SHORT", short)
        for number, (key, append_ms, check) in enumerate(rows):
            assert keys.find(key) == latest.get(key)
            assert keys.unknown([key, key]) == [it for it in (key, key) if it not in latest]
            keys.add(key, number << 10, append_ms, check)
            latest[key] = (number << 10, append_ms, check)
        assert len(keys) == len(rows)
        assert {key: keys.find(key) for key in latest} == latest


@given(rows=ROWS)
def test_the_seen_store_is_told_of_all_in_order(rows: list[tuple[bytes, int, bytes]]) -> None:
    keys = NewKeys()
    for number, (key, append_ms, check) in enumerate(rows):
        keys.add(key, number << 10, append_ms, check)
    seen = [
        SeenRow(1, 0, number, 0, 0, append_ms, key, check)
        for number, (key, append_ms, check) in enumerate(rows)
    ]
    assert keys.packed() == in_order(seen)


def test_there_may_be_more_than_a_slice_has() -> None:
    keys = NewKeys()
    for number in range(SLICE_EVENTS_MAX + 2):
        keys.add(number.to_bytes(16, "big"), number, 7, bytes(8))
    last = SLICE_EVENTS_MAX + 1
    assert keys.find(last.to_bytes(16, "big")) == (last, 7, bytes(8))
