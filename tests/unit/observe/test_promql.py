"""The evaluator computes as Prometheus does: figures worked out by hand."""

import math
from collections.abc import Mapping

import promql_parser
import pytest

from tests.unit.observe.promql import STALE, Recorded, Vector, labels_of


def found(query: str, series: Mapping[str, float], at_s: float = 100.0) -> Vector:
    """What a query is, over series that had one value throughout."""
    of = {labels_of(name): [(at_s - 15.0, value), (at_s, value)] for name, value in series.items()}
    value = Recorded(of).value(promql_parser.parse(query), at_s)
    assert isinstance(value, dict)
    return value


def only(vector: Vector) -> float:
    (value,) = vector.values()
    return value


# 100 requests: 50 within 0.1 s, 90 within 0.5 s, 98 within 1 s.
HISTOGRAM = {
    'h_bucket{le="0.1"}': 50.0,
    'h_bucket{le="0.5"}': 90.0,
    'h_bucket{le="1"}': 98.0,
    'h_bucket{le="+Inf"}': 100.0,
}


@pytest.mark.parametrize(
    ("quantile", "expected"),
    [
        ("0.25", 0.05),  # the 25th of 50 that lie evenly from 0 to 0.1
        ("0.5", 0.1),  # the last of them
        ("0.7", 0.3),  # the 20th of 40 from 0.1 to 0.5
        ("0.9", 0.5),
        ("0.94", 0.75),  # the 4th of 8 from 0.5 to 1
        ("0.99", 1.0),  # beyond: the end before the last one
    ],
)
def test_a_quantile_lies_within_its_bucket(quantile: str, expected: float) -> None:
    value = only(found(f"histogram_quantile({quantile}, h_bucket)", HISTOGRAM))
    assert value == pytest.approx(expected)


def test_quantiles_are_of_each_histogram() -> None:
    series = {
        'h_bucket{le="1",x="a"}': 10.0,
        'h_bucket{le="+Inf",x="a"}': 10.0,
        'h_bucket{le="1",x="b"}': 0.0,
        'h_bucket{le="2",x="b"}': 10.0,
        'h_bucket{le="+Inf",x="b"}': 10.0,
        'h_bucket{x="c"}': 10.0,
    }
    vector = found("histogram_quantile(0.5, h_bucket)", series)
    assert vector == {frozenset({("x", "a")}): 0.5, frozenset({("x", "b")}): 1.5}


@pytest.mark.parametrize(
    "series",
    [
        {'h_bucket{le="1"}': 0.0, 'h_bucket{le="+Inf"}': 0.0},  # nothing happened
        {'h_bucket{le="1"}': 1.0, 'h_bucket{le="2"}': 2.0},  # no bucket holds the rest
        {'h_bucket{le="+Inf"}': 2.0},
    ],
)
def test_no_quantile_is_told_of_what_has_none(series: Mapping[str, float]) -> None:
    assert math.isnan(only(found("histogram_quantile(0.5, h_bucket)", series)))


def test_a_first_bucket_that_does_not_begin_above_zero_is_its_end() -> None:
    series = {'h_bucket{le="-1"}': 5.0, 'h_bucket{le="+Inf"}': 5.0}
    assert only(found("histogram_quantile(0.5, h_bucket)", series)) == -1.0


def test_a_quantile_of_rates_over_processes() -> None:
    """Two processes with 5 and 15 requests in 50 seconds, all of them in the second bucket."""
    grown = {("a", "1"): 0.0, ("a", "2"): 5.0, ("b", "1"): 0.0, ("b", "2"): 15.0}
    series = {
        labels_of(f'h_bucket{{p="{process}",le="{end}"}}'): [
            (float(at), 1_000 + many * at / 50) for at in range(0, 101, 10)
        ]
        for (process, end), many in grown.items()
    }
    series |= {
        frozenset({*(labels - {("le", "2")}), ("le", "+Inf")}): of
        for labels, of in series.items()
        if ("le", "2") in labels
    }
    query = promql_parser.parse("histogram_quantile(0.5, sum by (le) (rate(h_bucket[50s])))")
    value = Recorded(series).value(query, 100.0)
    assert isinstance(value, dict)
    assert only(value) == pytest.approx(1.5)


SERIES = {
    'a{x="1",y="p"}': 6.0,
    'a{x="1",y="q"}': 4.0,
    'a{x="2",y="p"}': 3.0,
    'b{x="1"}': 2.0,
    'b{x="2"}': 0.0,
    'b{x="3"}': 1.0,
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sum(a)", {"": 13.0}),
        ("sum by (x) (a)", {"1": 10.0, "2": 3.0}),
        ("max by (x) (a)", {"1": 6.0, "2": 3.0}),
        ("max(max by (x) (a))", {"": 6.0}),
        ("sum(max by (x) (a))", {"": 9.0}),
        ("min(a)", {"": 3.0}),
        ("count(a)", {"": 3.0}),
        ("count(b == 0)", {"": 1.0}),
        ("count by (x) (a > 3)", {"1": 2.0}),
        ("sum by (x) (a) / sum by (x) (b)", {"1": 5.0, "2": math.inf}),
        ("sum by (x) (a) - b", {"1": 8.0, "2": 3.0}),
        ("b * 2", {"1": 4.0, "2": 0.0, "3": 2.0}),
        ("vector(7)", {"": 7.0}),
        ("count(b == 9) or vector(0)", {"": 0.0}),
        ("count(b == 1) or vector(0)", {"": 1.0}),
        ("b or sum by (x) (a)", {"1": 2.0, "2": 0.0, "3": 1.0}),
        ("sum by (x) (a) or b", {"1": 10.0, "2": 3.0, "3": 1.0}),
        ("sum by (x) (a) and b", {"1": 10.0, "2": 3.0}),
        ('sum(a{x!="1"})', {"": 3.0}),
        ('sum(a{y=~"p|r"})', {"": 9.0}),
        ('sum(a{nothing=""})', {"": 13.0}),
        ('sum(a{nothing="z"})', {}),
    ],
)
def test_vectors_are_put_together(query: str, expected: Mapping[str, float]) -> None:
    vector = {dict(labels).get("x", ""): value for labels, value in found(query, SERIES).items()}
    assert vector == expected


def test_nothing_by_nothing_is_no_number() -> None:
    assert math.isnan(only(found("a / b", {"a": 0.0, "b": 0.0})))
    assert only(found("a / b", {"a": -1.0, "b": 0.0})) == -math.inf


def test_a_series_that_ended_is_not_there_and_one_that_lacks_a_scrape_is_for_five_minutes() -> None:
    series = {
        labels_of('a{x="ended"}'): [(0.0, 1.0), (10.0, STALE)],
        labels_of('a{x="lacks"}'): [(0.0, 1.0)],
        labels_of('a{x="told"}'): [(0.0, 1.0), (10.0, float("nan"))],
    }
    query = promql_parser.parse("a")
    recorded = Recorded(series)

    def at(second: float) -> set[str]:
        vector = recorded.value(query, second)
        assert isinstance(vector, dict)
        return {dict(labels)["x"] for labels in vector}

    assert at(9.0) == {"ended", "lacks", "told"}
    assert at(10.0) == {"lacks", "told"}
    assert at(299.0) == {"lacks", "told"}
    assert at(300.0) == {"told"}


def test_offset_looks_back() -> None:
    series = {labels_of("a"): [(float(at), float(at)) for at in range(0, 101, 10)]}
    value = Recorded(series).value(promql_parser.parse("a offset 30s"), 100.0)
    assert value == {labels_of("a"): 70.0}


def test_only_series_of_the_names_asked_for_are_taken() -> None:
    series = {labels_of(it): [(0.0, 1.0)] for it in ('a{b="c"}', "b", "c")}
    assert set(Recorded(series).of(["b", "d"]).series) == {labels_of("b")}


@pytest.mark.parametrize(
    "query",
    ["abs(a)", "sum without (x) (a)", "a * on (x) b", "2 * a", "avg(a)", "topk(1, a)"],
)
def test_what_is_not_understood_is_an_error(query: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        found(query, SERIES)
