"""JSON paths into the `data` of an event: compiled once per meter, called once per event.

The simple forms (`$.a.b`, `$['a']`, `$[0]`) become plain look-ups; everything else is RFC 9535 by
`jsonpath_rfc9535`, of which the first node found is taken. A property test holds the two to the
same answers.
"""

import re
from collections.abc import Callable
from typing import Final

from jsonpath_rfc9535 import JSONPathError, JSONPathQuery
from jsonpath_rfc9535 import compile as compile_rfc9535

from meterline.event.path_cost import too_costly
from meterline.limits import PATH_CHARS_MAX, PATH_FILTER_DEPTH_MAX


class Missing:
    """The type of `MISSING`: a path that leads nowhere, as against one that leads to null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
Getter = Callable[[object], object]

_SEGMENT: Final = re.compile(
    r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\['(?P<single>[^'\\\x00-\x1f]*)'\]"""
    r"""|\["(?P<double>[^"\\\x00-\x1f]*)"\]|\[(?P<index>0|[1-9][0-9]{0,8})\]"""
)


class PathError(ValueError):
    """A path that is no JSON path; the text says why."""


def compile_path(path: str) -> Getter:
    """A function that gives what `path` finds in a decoded JSON value, or `MISSING`. Raises
    `PathError`.
    """
    if not path.startswith("$"):
        raise PathError("a JSON path starts with $, for example $.tokens")
    if len(path) > PATH_CHARS_MAX:
        raise PathError(f"a JSON path has at most {PATH_CHARS_MAX} characters")
    steps = simple_steps(path)
    return general_getter(path) if steps is None else simple_getter(steps)


def check_path(path: str) -> None:
    """Judge a path that someone defines. Raises `PathError` for what `compile_path` does not take,
    and for a path that may cost too much.

    A path that was defined before this was judged still compiles: it counts as it did.
    """
    compile_path(path)
    if simple_steps(path) is not None:
        return
    if path.count("(") > PATH_FILTER_DEPTH_MAX:  # compiled here, it may not be elsewhere
        raise PathError(f"this JSON path has more than {PATH_FILTER_DEPTH_MAX} parentheses")
    if (why := too_costly(_query(path))) is not None:
        raise PathError(f"this JSON path {why}: it could hold up the counting of events")


def simple_steps(path: str) -> tuple[str | int, ...] | None:
    """The names and indexes of a path of simple segments; None where it needs RFC 9535 whole."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _SEGMENT.match(path, at)
        if found is None:
            return None
        index = found["index"]
        steps.append(int(index) if index is not None else _name(found))
        at = found.end()
    return tuple(steps)


def _name(found: re.Match[str]) -> str:
    return next(g for g in (found["name"], found["single"], found["double"]) if g is not None)


def simple_getter(steps: tuple[str | int, ...]) -> Getter:
    """The look-up for a path of simple segments."""
    if len(steps) == 1 and isinstance(steps[0], str):
        return _member_getter(steps[0])

    def get(value: object) -> object:
        for step in steps:
            if isinstance(step, str):
                if type(value) is not dict or step not in value:
                    return MISSING
                value = value[step]
            else:
                if type(value) is not list or step >= len(value):
                    return MISSING
                value = value[step]
        return value

    return get


def _member_getter(name: str) -> Getter:
    def get(value: object) -> object:
        # data may be null or no object at all; the common case pays one look-up
        return value.get(name, MISSING) if type(value) is dict else MISSING

    return get


def general_getter(path: str) -> Getter:
    """The RFC 9535 query for any path. Raises `PathError`."""
    query = _query(path)

    def get(value: object) -> object:
        if not isinstance(value, dict | list):
            return value if path == "$" else MISSING
        return next((node.value for node in query.finditer(value)), MISSING)

    return get


def _query(path: str) -> JSONPathQuery:
    try:
        return compile_rfc9535(path)
    except JSONPathError as error:
        raise PathError(f"not a JSON path of RFC 9535: {error}") from error
    except (OverflowError, RecursionError) as error:
        message = "a JSON path of RFC 9535 with a number that is too large, or nested too deep"
        raise PathError(message) from error
