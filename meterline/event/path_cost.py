"""What a JSON path may cost (RFC 9535): a meter's path runs on every event of its type, and the
events of everybody wait meanwhile.

RFC 9535 allows paths whose work grows faster than the event: descents within descents, the same
child chosen many times over, a filter that reads the whole event for each of its parts, and
patterns (`match`, `search`) that backtrack for ever. A path that someone defines has none of these.
"""

from collections.abc import Iterator

from jsonpath_rfc9535 import JSONPathQuery
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpression,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    PrefixExpression,
    RootFilterQuery,
)
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
from jsonpath_rfc9535.selectors import FilterSelector

from meterline.limits import PATH_CHOICES_MAX, PATH_FILTER_DEPTH_MAX, PATH_FILTER_QUERIES_MAX

_PATTERNS = ("match", "search")


def too_costly(query: JSONPathQuery) -> str | None:
    """Why a path may cost too much, in words; None where it cannot."""
    found = list(_parts(query, 0))
    queries = [part for part, _ in found if isinstance(part, JSONPathQuery)]
    segments = [segment for one in queries for segment in one.segments]
    choices = 1
    for segment in segments:
        choices *= max(1, len(segment.selectors))
    if sum(isinstance(one, JSONPathRecursiveDescentSegment) for one in segments) > 1:
        return "has more than one `..`"
    if choices > PATH_CHOICES_MAX:
        return f"chooses in more than {PATH_CHOICES_MAX} ways; write fewer names in one bracket"
    if any(isinstance(part, RootFilterQuery) for part, _ in found):
        return "has `$` in a filter; use `@`"
    if any(isinstance(part, FunctionExtension) and part.name in _PATTERNS for part, _ in found):
        return f"has a pattern in a filter; {' and '.join(_PATTERNS)} are not taken"
    if len(queries) - 1 > PATH_FILTER_QUERIES_MAX:
        return f"has more than {PATH_FILTER_QUERIES_MAX} `@` in filters"
    if max(depth for _, depth in found) > PATH_FILTER_DEPTH_MAX:
        return f"has filters that are nested more than {PATH_FILTER_DEPTH_MAX} deep"
    return None


def _parts(
    part: JSONPathQuery | Expression, depth: int
) -> Iterator[tuple[JSONPathQuery | Expression, int]]:
    """A query or expression and all within it, each with how deep it lies."""
    yield part, depth
    for inner in _within(part):
        yield from _parts(inner, depth + 1)


def _within(part: JSONPathQuery | Expression) -> list[JSONPathQuery | Expression]:
    match part:
        case JSONPathQuery():
            chosen = [selector for segment in part.segments for selector in segment.selectors]
            return [one.expression for one in chosen if isinstance(one, FilterSelector)]
        case FilterExpression():
            return [part.expression]
        case PrefixExpression():
            return [part.right]
        case LogicalExpression() | ComparisonExpression():
            return [part.left, part.right]
        case FilterQuery():
            return [part.query]
        case FunctionExtension():
            return list(part.args)
        case _:
            return []
