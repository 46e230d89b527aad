"""The eight operators on usage and subject (contract 2.2), exact and judged whole."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.number import SCALED_MAX, UNIT, from_json_float, text
from meterline.report import ReportFilter, filter_document, parse_filter
from meterline.report.filter import EVERYTHING
from meterline.usage import LISTS, Comparison, Condition

scaled_values = st.integers(-SCALED_MAX, SCALED_MAX)


def conditions_of(operands: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition[Any]]:
    singles = st.sampled_from([c for c in Comparison if c not in LISTS])
    one = st.builds(lambda c, v: Condition(c, (v,)), singles, operands)
    some = st.builds(
        lambda c, vs: Condition(c, tuple(vs)),
        st.sampled_from(sorted(LISTS)),
        st.lists(operands, max_size=4),
    )
    return one | some


def distinct(conditions: st.SearchStrategy[Condition[Any]]) -> st.SearchStrategy[Any]:
    return st.lists(conditions, max_size=4, unique_by=lambda c: c.comparison).map(tuple)


filters = st.builds(
    ReportFilter, distinct(conditions_of(scaled_values)), distinct(conditions_of(st.text()))
)


def parsed(document: object) -> ReportFilter:
    filter_, faults = parse_filter(document)
    assert faults == []
    return filter_


@pytest.mark.parametrize(
    ("operator", "operand", "passing"),
    [
        ("$gt", 10, [11]),
        ("$gte", 10, [10, 11]),
        ("$lt", 10, [9]),
        ("$lte", 10, [9, 10]),
        ("$eq", 10, [10]),
        ("$ne", 10, [9, 11]),
        ("$in", [9, 11], [9, 11]),
        ("$nin", [9, 11], [10]),
    ],
)
def test_each_operator_on_usage(operator: str, operand: object, passing: list[int]) -> None:
    filter_ = parsed({"usage": {operator: operand}})
    assert [v for v in (9, 10, 11) if filter_.accepts("s", v * UNIT)] == passing


@pytest.mark.parametrize(
    ("operator", "operand", "passing"),
    [
        ("$gt", "b", ["c"]),
        ("$gte", "b", ["b", "c"]),
        ("$lt", "b", ["a"]),
        ("$lte", "b", ["a", "b"]),
        ("$eq", "b", ["b"]),
        ("$ne", "b", ["a", "c"]),
        ("$in", ["a", "c", "zz"], ["a", "c"]),
        ("$nin", ["a"], ["b", "c"]),
    ],
)
def test_each_operator_on_the_subject(operator: str, operand: object, passing: list[str]) -> None:
    filter_ = parsed({"subject": {operator: operand}})
    assert [s for s in "abc" if filter_.accepts(s, 0)] == passing


def test_conditions_are_joined_by_and() -> None:
    filter_ = parsed({"usage": {"$gt": 1, "$lt": 3}, "subject": {"$ne": "x"}})
    assert filter_.accepts("a", 2 * UNIT)
    assert not filter_.accepts("a", 3 * UNIT)
    assert not filter_.accepts("x", 2 * UNIT)


def test_usage_is_compared_to_the_last_digit() -> None:
    document = msgspec.json.Decoder(float_hook=from_json_float).decode(
        b'{"usage": {"$gt": 90071992547409931.000000000000000001}}'
    )
    edge = 90071992547409931 * UNIT + 1
    assert not parsed(document).accepts("s", edge)
    assert parsed(document).accepts("s", edge + 1)


@given(filters, st.text(), scaled_values)
def test_a_filter_survives_being_stored(filter_: ReportFilter, subject: str, value: int) -> None:
    stored = msgspec.json.encode(filter_document(filter_))
    again = parsed(msgspec.json.Decoder(float_hook=from_json_float).decode(stored))
    assert again == filter_
    assert again.accepts(subject, value) == filter_.accepts(subject, value)


@given(filters)
def test_numbers_are_stored_as_json_numbers(filter_: ReportFilter) -> None:
    stored = json.loads(msgspec.json.encode(filter_document(filter_)), parse_float=Decimal)
    for operator, operand in stored.get("usage", {}).items():
        for value in operand if operator in LISTS else [operand]:
            assert isinstance(value, int | Decimal)


@pytest.mark.parametrize("document", [None, {}, {"usage": None}, {"usage": {}, "subject": {}}])
def test_nothing_asked_accepts_everything(document: object) -> None:
    assert parsed(document) == EVERYTHING
    assert EVERYTHING.accepts("", -5)


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ([], ["filter"]),
        ({"usage": 5}, ["filter.usage"]),
        ({"usage": {"$gt": "5"}}, ["filter.usage.$gt"]),
        ({"usage": {"$gt": True}}, ["filter.usage.$gt"]),
        ({"usage": {"$gt": [5]}}, ["filter.usage.$gt"]),
        ({"usage": {"$in": 5}}, ["filter.usage.$in"]),
        ({"usage": {"$in": [1, None]}}, ["filter.usage.$in.1"]),
        ({"usage": {"$gt": 10**20}}, ["filter.usage.$gt"]),
        ({"usage": {"$gt": Decimal("1e-19")}}, ["filter.usage.$gt"]),
        ({"usage": {"$gt": Decimal("Infinity")}}, ["filter.usage.$gt"]),
        ({"usage": {"gt": 5}}, ["filter.usage.gt"]),
        ({"subject": {"$eq": 5}}, ["filter.subject.$eq"]),
        ({"subject": {"$in": ["a", 5]}}, ["filter.subject.$in.1"]),
        ({"subject": {"$in": ["a"] * 10_001}}, ["filter.subject.$in"]),
        ({"value": {}, "usage": {"$x": 1, "$y": 2}}, ["filter.value", "filter.usage.$x"]),
    ],
)
def test_every_fault_is_named(document: object, fields: list[str]) -> None:
    _, faults = parse_filter(document)
    assert [fault.field for fault in faults][: len(fields)] == fields
    assert all(fault.reason for fault in faults)


def test_a_single_operand_is_needed() -> None:
    with pytest.raises(ValueError, match="one operand"):
        Condition(Comparison.GT, (1, 2))


def test_text_of_an_operand_is_its_number() -> None:
    assert filter_document(parsed({"usage": {"$lte": Decimal("1.50")}})) == {
        "usage": {"$lte": msgspec.Raw(text(15 * UNIT // 10).encode())}
    }
