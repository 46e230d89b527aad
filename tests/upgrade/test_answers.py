"""A difference is found wherever it is, and what is new is none."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upgrade.answers import lost, stripped

ANSWER: dict[str, Any] = {"data": [{"value": "1.50", "of": {"region": "eu"}}, {"value": "2"}]}
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def changed(*path: Any, to: Any) -> dict[str, Any]:
    document = copy.deepcopy(ANSWER)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return document


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (changed("data", 0, "value", to="1.5"), ".data[0].value is '1.5', it was '1.50'"),
        (changed("data", 1, "value", to=2), ".data[1].value is 2, it was '2'"),
        (changed("data", 0, "of", to={}), ".data[0].of has no region any more"),
        (changed("data", to=ANSWER["data"][:1]), ".data has 1 entries, it had 2"),
        (changed("data", to=None), ".data is None"),
        ({}, "the answer has no data any more"),
    ],
)
def test_what_is_lost_is_named(now: Any, line: str) -> None:
    (found,) = lost(ANSWER, now)
    assert found.startswith(line)


@given(documents)
def test_nothing_is_lost_of_the_same(document: Any) -> None:
    assert list(lost(document, copy.deepcopy(document))) == []


def test_a_truth_is_no_number() -> None:
    assert list(lost({"a": 1}, {"a": True}))


def test_new_members_are_no_loss() -> None:
    assert list(lost(ANSWER, {**changed("data", 0, "new", to=1), "more": []})) == []


def test_members_are_left_out_at_any_depth() -> None:
    assert stripped(ANSWER, {"of", "more"}) == {"data": [{"value": "1.50"}, {"value": "2"}]}
