"""PromQL as far as alert rules and the dashboard use it, over recorded series: what promtool does,
in the tests themselves, for it is in no registry that they use. Whatever else is used is an error
here.
"""

import math
import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import promql_parser as parser

LOOKBACK_S: Final = 300.0
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Samples = Sequence[tuple[float, float]]
STALE: Final = float("nan")
"""The value, by identity, of a sample that says: this series has ended. Any other NaN was told."""
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
    "/": lambda left, right: left / right if right else left * math.inf,  # 0 / 0 is NaN
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
    """Series that were recorded, each with samples (second, value), in the order of time."""

    series: Mapping[Labels, Samples]

    def of(self, names: Iterable[str]) -> "Recorded":
        """Those of metrics with these names alone: an expression over them is found sooner."""
        wanted = {(_NAME, name) for name in names}
        return Recorded({it: of for it, of in self.series.items() if not wanted.isdisjoint(it)})

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
                return self._called(expression, at_s)
            case parser.AggregateExpr():
                return self._together(expression, at_s)
            case parser.BinaryExpr():
                return self._both(expression, at_s)
        raise AssertionError(f"not understood here: {expression.prettify()}")

    def _selected(self, selector: Any) -> Iterable[tuple[Labels, Samples]]:
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
            last = bisect_right(samples, until_s, key=_when) - 1
            if last >= 0 and until_s - LOOKBACK_S < samples[last][0]:
                value = samples[last][1]
                if value is not STALE:
                    found[labels] = value
        return found

    def _called(self, call: Any, at_s: float) -> Vector:
        match call.func.name:
            case "vector":
                return _vector(self.value(call.args[0], at_s))
            case "histogram_quantile":
                share, vector = (self.value(it, at_s) for it in call.args)
                assert isinstance(share, float), "the quantile is a number"
                return _quantiles(share, _vector(vector))
            case "rate" | "increase" | "changes":
                return self._rates(call, at_s)
        raise AssertionError(f"not understood here: {call.func.name}")

    def _rates(self, call: Any, at_s: float) -> Vector:
        """`rate` and `increase`, with Prometheus' own extrapolation to the ends of the range; and
        `changes`.
        """
        (matrix,) = call.args
        range_s = matrix.range.total_seconds()
        found: Vector = {}
        for labels, samples in self._selected(matrix.vector_selector):
            first = bisect_left(samples, at_s - range_s, key=_when)
            last = bisect_right(samples, at_s, key=_when)
            # NaN is the mark of a scrape that failed (`tests.faults.watch`): no sample
            within = [one for one in samples[first:last] if not math.isnan(one[1])]
            if call.func.name == "changes":
                pairs = pairwise(value for _, value in within)
                found[_unnamed(labels)] = float(sum(before != after for before, after in pairs))
            elif len(within) > 1:
                grown = _increase(within, at_s - range_s, at_s)
                found[_unnamed(labels)] = grown if call.func.name == "increase" else grown / range_s
        return found

    def _together(self, aggregate: Any, at_s: float) -> Vector:
        modifier = aggregate.modifier
        assert modifier is None or modifier.type is parser.AggModifierType.By, "no `without` here"
        by = set(modifier.labels) if modifier is not None else set()
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
        if how == "or":
            return _either(left, _vector(right))
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


def _when(sample: tuple[float, float]) -> float:
    return sample[0]


def _either(left: Vector, right: Vector) -> Vector:
    """All of the left, and what the right has beyond it."""
    taken = {_unnamed(labels) for labels in left}
    return left | {labels: it for labels, it in right.items() if _unnamed(labels) not in taken}


def _quantiles(share: float, buckets: Vector) -> Vector:
    """Of each histogram, by its labels without `le`."""
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        until = [value for name, value in labels if name == "le"]
        if until:
            rest = frozenset(one for one in _unnamed(labels) if one[0] != "le")
            histograms.setdefault(rest, []).append((float(until[0]), count))
    return {labels: _quantile(share, sorted(of)) for labels, of in histograms.items()}


def _quantile(share: float, buckets: Samples) -> float:
    """As Prometheus estimates it: within a bucket, events lie evenly. NaN: there were none, or no
    bucket has an end; the end before the last one where it is beyond.
    """
    ends, counts = [end for end, _ in buckets], [count for _, count in buckets]
    if len(buckets) < 2 or not math.isinf(ends[-1]) or not counts[-1] > 0:
        return math.nan
    assert 0 <= share <= 1, "not understood here: a quantile beyond all"
    rank = share * counts[-1]
    at = next(number for number, count in enumerate(counts) if count >= rank)
    if at == len(buckets) - 1:
        return ends[-2]
    if at == 0 and ends[0] <= 0:
        return ends[0]
    begin, before = (ends[at - 1], counts[at - 1]) if at else (0.0, 0.0)
    held = counts[at] - before
    return begin + (ends[at] - begin) * ((rank - before) / held if held else 0.0)


def _aggregated(how: str, values: list[float]) -> float:
    if how == "sum":
        return sum(values)
    if how == "count":
        return float(len(values))
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
