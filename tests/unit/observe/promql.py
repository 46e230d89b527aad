"""PromQL as far as the alert rules use it, over recorded series: what promtool does, in the tests
themselves, for it is in no registry that they use. Whatever else a rule uses is an error here.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import promql_parser as parser

LOOKBACK_S: Final = 300.0
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
_NAME: Final = "__name__"
_COMPARES: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "==": operator.eq,
}
_COMPUTES: Final[Mapping[str, Callable[[float, float], float]]] = {
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else math.nan,
}
_SELECTOR: Final = re.compile(r"(\w+)(?:\{(.*)\})?")
_DURATION: Final = re.compile(r"(\d+)([hms])")
_UNITS: Final = {"h": 3_600, "m": 60, "s": 1}


def seconds(text: str) -> int:
    """Of a duration such as `1h30m`."""
    return sum(int(count) * _UNITS[unit] for count, unit in _DURATION.findall(text))


def labels_of(series: str) -> Labels:
    """The labels of a series as written, its name among them."""
    found = _SELECTOR.fullmatch(series)
    assert found is not None, series
    pairs = re.findall(r'(\w+)="([^"]*)"', found[2] or "")
    return frozenset([(_NAME, found[1]), *pairs])


def expanded(values: str) -> list[float]:
    """Promtool's notation: `1+2x3` is 1 3 5 7, `5x2` is 5 5 5."""
    found: list[float] = []
    for part in values.split():
        run = re.fullmatch(r"(-?\d+)(?:\+(\d+))?x(\d+)", part)
        if run is None:
            found.append(float(part))
        else:
            found += [int(run[1]) + int(run[2] or 0) * turn for turn in range(int(run[3]) + 1)]
    return found


@dataclass(frozen=True, slots=True)
class Recorded:
    """Series that were recorded, each with samples (second, value)."""

    series: Mapping[Labels, list[tuple[float, float]]]

    def value(self, expression: Any, at_s: float) -> Vector | float:
        """What an expression is at a second."""
        match expression:
            case parser.NumberLiteral():
                return float(expression.val)
            case parser.ParenExpr():
                return self.value(expression.expr, at_s)
            case parser.VectorSelector():
                return self._instant(expression, at_s)
            case parser.Call():
                return self._rates(expression, at_s)
            case parser.AggregateExpr():
                return self._together(expression, at_s)
            case parser.BinaryExpr():
                return self._both(expression, at_s)
        raise AssertionError(f"not understood here: {expression.prettify()}")

    def _selected(self, selector: Any) -> Iterable[tuple[Labels, list[tuple[float, float]]]]:
        for labels, samples in self.series.items():
            named = dict(labels)
            if named[_NAME] == selector.name and all(
                _matches(one, named.get(one.name, "")) for one in selector.matchers.matchers
            ):
                yield labels, samples

    def _instant(self, selector: Any, at_s: float) -> Vector:
        until_s = at_s - (selector.offset or timedelta()).total_seconds()
        found: Vector = {}
        for labels, samples in self._selected(selector):
            lately = [value for when, value in samples if until_s - LOOKBACK_S < when <= until_s]
            if lately:
                found[labels] = lately[-1]
        return found

    def _rates(self, call: Any, at_s: float) -> Vector:
        """`rate` and `increase`, with Prometheus' own extrapolation to the ends of the range; and
        `changes`.
        """
        (matrix,) = call.args
        range_s = matrix.range.total_seconds()
        found: Vector = {}
        for labels, samples in self._selected(matrix.vector_selector):
            # NaN is the mark of a scrape that failed (`tests.faults.watch`): no sample
            within = [
                one
                for one in samples
                if at_s - range_s <= one[0] <= at_s and not math.isnan(one[1])
            ]
            if call.func.name == "changes":
                pairs = pairwise(value for _, value in within)
                found[_unnamed(labels)] = float(sum(before != after for before, after in pairs))
            elif len(within) > 1:
                grown = _increase(within, at_s - range_s, at_s)
                found[_unnamed(labels)] = grown if call.func.name == "increase" else grown / range_s
        return found

    def _together(self, aggregate: Any, at_s: float) -> Vector:
        by = set(aggregate.modifier.labels) if aggregate.modifier is not None else set()
        groups: dict[Labels, list[float]] = {}
        for labels, value in _vector(self.value(aggregate.expr, at_s)).items():
            group = frozenset(one for one in labels if one[0] in by)
            groups.setdefault(group, []).append(value)
        how = str(aggregate.op)
        return {group: _aggregated(how, values) for group, values in groups.items()}

    def _both(self, binary: Any, at_s: float) -> Vector:
        matching = binary.modifier and binary.modifier.matching
        assert matching is None, "not understood here: on, ignoring"
        left = self.value(binary.lhs, at_s)
        assert not isinstance(left, float), "not understood here: a number on the left"
        right = self.value(binary.rhs, at_s)
        how, found = str(binary.op), {}
        others = None if isinstance(right, float) else {_unnamed(k): v for k, v in right.items()}
        for labels, value in left.items():
            other = right if isinstance(right, float) else (others or {}).get(_unnamed(labels))
            if other is None:
                continue
            if how == "and":
                found[labels] = value
            elif how in _COMPARES:
                if _COMPARES[how](value, other):
                    found[labels] = value
            else:
                found[_unnamed(labels)] = _COMPUTES[how](value, other)
        return found


def _vector(value: Vector | float) -> Vector:
    return {frozenset(): value} if isinstance(value, float) else value


def _unnamed(labels: Labels) -> Labels:
    return frozenset(one for one in labels if one[0] != _NAME)


def _aggregated(how: str, values: list[float]) -> float:
    if how == "sum":
        return sum(values)
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return math.nan
    return {"min": min, "max": max}[how](numbers)


def _increase(samples: list[tuple[float, float]], from_s: float, to_s: float) -> float:
    grown, before = 0.0, samples[0][1]
    for _, value in samples[1:]:
        grown += value if value < before else value - before  # a counter that began anew
        before = value
    first_s, last_s = samples[0][0], samples[-1][0]
    sampled_s = last_s - first_s
    apart_s = sampled_s / (len(samples) - 1)
    start_s, end_s = first_s - from_s, to_s - last_s
    if grown > 0 and samples[0][1] >= 0:
        start_s = min(start_s, sampled_s * samples[0][1] / grown)  # it was not below zero
    reached = sampled_s + sum(
        gap if gap < apart_s * 1.1 else apart_s / 2 for gap in (start_s, end_s)
    )
    return grown * reached / sampled_s


def _matches(matcher: Any, value: str) -> bool:
    how = str(matcher.op)
    if how.endswith(("NotEqual", "!=")):
        return bool(value != matcher.value)
    if how.endswith(("Equal", "=")) and "Not" not in how and "!" not in how:
        return bool(value == matcher.value)
    assert "Re" in how or "~" in how, how
    return re.fullmatch(matcher.value, value) is not None
