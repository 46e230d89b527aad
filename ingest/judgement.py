"""Judgement: all that is wrong with an event, by field (OpenMeter's v3).

Exact and slow: only events that the quick look of `ingest.admission` did not accept come here.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from meterline.event import instant_of
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    INTEGER_TEXT_CHARS_MAX,
    JSON_DEPTH_MAX,
    PROBLEM_ERRORS_MAX,
)
from meterline.problem import Fault, Problem, ProblemType
from meterline.window import rfc3339

REQUIRED: Final = ("id", "source", "specversion", "type", "subject")
KNOWN: Final = frozenset({*REQUIRED, "time", "datacontenttype", "dataschema", "data"})
RESERVED: Final = frozenset({"namespace", "recordedtime"})  # what the gateway adds
EXTENSION_NAME: Final = re.compile(r"[a-z0-9]{1,20}")  # CloudEvents 1.0, section 3.1
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_PLAIN: Final = frozenset({int, float, bool, type(None)})  # passed at once, however many
_NAMED_CHARS_MAX: Final = 100  # of a member's name in an answer
_FIELD_CHARS_MAX: Final = 300  # of the way to it: a hundred faults stay readable


class Span(NamedTuple):
    """The first and the last instant that an event may have happened at."""

    first_ms: int
    last_ms: int
    first: datetime  # the same for the quick look, to the microsecond
    last: datetime


class _Members(dict[str, object]):
    """A decoded object that knows which of its members were repeated."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) != len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen and name not in self.repeated:
                    self.repeated.append(name)
                seen.add(name)


class _NoNumber(str):
    """NaN, Infinity or -Infinity, which the standard library's decoder lets pass."""

    __slots__ = ()


class _LongInteger(_NoNumber):
    """Digits of an integer that no reader of the log could read."""

    __slots__ = ()


def _integer(digits: str) -> object:
    return _LongInteger(digits) if len(digits) > INTEGER_TEXT_CHARS_MAX else 0


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_Members, parse_constant=_NoNumber, parse_int=len, parse_float=len
)


def faults_of(text: bytes, span: Span, index: int | None) -> list[Fault]:
    """All faults of one event's text (valid UTF-8), at most `PROBLEM_ERRORS_MAX`."""
    try:
        members = _decoder.decode(text.decode())
    except json.JSONDecodeError as error:
        return [not_json(error, index)]
    except RecursionError:
        return [too_deep("", index)]
    if not isinstance(members, _Members):
        return [Fault("", f"must be an object, not {_kind(members)}", "type", index=index)]
    return _faults(_all(members, span), index)


def long_integers(text: bytes, index: int | None) -> list[Fault]:
    """The faults of an event without others that cannot be read: integers without end."""
    decoder = json.JSONDecoder(object_pairs_hook=_Members, parse_int=_integer, parse_float=len)
    return _faults(_walk("", decoder.decode(text.decode()), 1), index)


def form_faults(text: str, index: int) -> list[Fault]:
    """Faults of form in one JSON value that the strict decoder refuses to pass over."""
    try:
        value = _decoder.decode(text)
    except RecursionError:
        return [too_deep("", index)]
    found = (finding for finding in _walk("", value, 1) if finding[2] in ("json", "max_depth"))
    return _faults(found, index)


def refusal(faults: Sequence[Fault]) -> Problem:
    """The problem of a request with these faults, the first of them in its detail."""
    kept = tuple(faults[:PROBLEM_ERRORS_MAX])
    first = kept[0]
    where = "" if first.index is None else f"event {first.index}: "
    field = f"{first.field}: " if first.field else ""
    # The search for faults ends at the bound: how many there are beyond it is not known.
    least = "at least " if len(kept) == PROBLEM_ERRORS_MAX else ""
    more = f" (and {least}{len(kept) - 1} more)" if len(kept) > 1 else ""
    return Problem(ProblemType.INVALID_EVENT, f"{where}{field}{first.reason}{more}", kept)


def too_large(found: int | None, size_max: int, index: int | None) -> Fault:
    """An event of so many bytes as stored (None: not counted) is above the bound."""
    has = f"has {found}" if found is not None else f"has more than {size_max}"
    reason = f"the event {has} bytes as stored; at most {size_max} are allowed"
    return Fault("", reason, "max_length", index=index)


def not_json(error: json.JSONDecodeError, index: int | None, start: int = 0) -> Fault:
    """What the decoder found in a text that begins at character `start` of the body."""
    at = start + error.pos
    return Fault("", f"not JSON: {error.msg} at character {at}", "json", index=index)


def too_deep(field: str, index: int | None) -> Fault:
    """A value is nested deeper than is allowed."""
    reason = f"is nested more than {JSON_DEPTH_MAX} levels deep"
    return Fault(field, reason, "max_depth", index=index)


_Finding = tuple[str, str, str]  # field, reason, rule


def _faults(found: Iterable[_Finding], index: int | None) -> list[Fault]:
    return [
        Fault(field[:_FIELD_CHARS_MAX], reason, rule, index=index)
        for field, reason, rule in islice(found, PROBLEM_ERRORS_MAX)
    ]


def _all(members: _Members, span: Span) -> Iterator[_Finding]:
    for name in members.repeated:
        yield _named(name), "appears more than once", "repeated_member"
    for name in REQUIRED:
        if name not in members:
            yield name, "is missing", "required"
    for name, value in members.items():
        if name == "data":
            yield from _data(value)
        elif name == "time":
            yield from _time_of(value, span)
        elif name in KNOWN:
            yield from _attribute(name, value)
        else:
            yield from _extension(name, value)


def _attribute(name: str, value: object) -> Iterator[_Finding]:
    if value is None and name not in REQUIRED:
        return
    if type(value) is not str:
        yield name, f"must be a string, not {_kind(value)}", "type"
        return
    if not value:
        yield name, "must not be empty", "min_length"
    yield from _plain(name, value)
    if name == "specversion" and value != "1.0":
        yield name, 'must be "1.0"', "enum"
    if name == "datacontenttype" and value != "application/json":
        yield name, "must be application/json: data must be JSON", "enum"


def _extension(name: str, value: object) -> Iterator[_Finding]:
    field = _named(name)
    if name in RESERVED:
        yield field, "is set by the server: remove it from the event", "reserved_attribute"
    elif name == "data_base64":
        yield field, "binary data is not supported; send data as a JSON object", "unknown_property"
    elif EXTENSION_NAME.fullmatch(name) is None:
        reason = "is not a known attribute; names of extensions have 1 to 20 of a-z and 0-9"
        yield field, reason, "unknown_property"
    elif isinstance(value, dict | list):
        reason = f"must be a string, number or boolean, not {_kind(value)}"
        yield field, reason, "type"
    elif type(value) is str:
        yield from _plain(field, value)
    elif type(value) is _NoNumber:
        yield from _walk(field, value, 1)


def _plain(field: str, value: str) -> Iterator[_Finding]:
    if len(value) > ATTRIBUTE_CHARS_MAX:
        yield field, f"has more than {ATTRIBUTE_CHARS_MAX} characters", "max_length"
    if _CONTROL.search(value):
        yield field, "contains a control character", "matches_regex"
    if _SURROGATE.search(value):
        yield field, "holds half of a surrogate pair", "json"


def _time_of(value: object, span: Span) -> Iterator[_Finding]:
    if value is None:
        return
    if type(value) is not str:
        yield "time", f"must be an RFC 3339 timestamp, not {_kind(value)}", "type"
        return
    try:
        at_ms = instant_of(value)
    except (OverflowError, ValueError):
        reason = "must be an RFC 3339 timestamp with an offset, such as 2026-01-31T00:00:00Z"
        yield "time", reason, "is_date_time"
        return
    if at_ms < span.first_ms:
        yield "time", f"must not be before {rfc3339(span.first_ms)}", "minimum"
    elif at_ms > span.last_ms:
        yield "time", f"must not be after {rfc3339(span.last_ms)}", "maximum"


def _data(value: object) -> Iterator[_Finding]:
    if value is not None and not isinstance(value, dict):
        yield "data", f"must be an object or null, not {_kind(value)}", "type"
        return
    if not _fine(value, 2):
        yield from _walk("data", value, 2)


def _fine(value: object, depth: int) -> bool:
    """Whether `_walk` would find nothing; several times as fast."""
    if depth > JSON_DEPTH_MAX and isinstance(value, dict | list):
        return False
    inner: list[object]
    if isinstance(value, list):
        inner = value
    elif isinstance(value, _Members):
        if value.repeated or _SURROGATE.search("".join(value)):
            return False
        inner = [*value.values()]
    else:
        return type(value) is not _NoNumber and not (
            type(value) is str and _SURROGATE.search(value)
        )
    kinds = {*map(type, inner)}
    return kinds <= _PLAIN or all(_fine(one, depth + 1) for one in inner if type(one) not in _PLAIN)


def _walk(field: str, value: object, depth: int) -> Iterator[_Finding]:
    """Faults of form in a value. `depth` counts the objects and arrays around it, and itself."""
    if isinstance(value, dict | list) and depth > JSON_DEPTH_MAX:
        yield field, f"is nested more than {JSON_DEPTH_MAX} levels deep", "max_depth"
    elif isinstance(value, _Members):
        for name in value.repeated:
            yield _member(field, name), "appears more than once", "repeated_member"
        for name, inner in value.items():
            if _SURROGATE.search(name):
                yield _member(field, name), "its name holds half of a surrogate pair", "json"
            yield from _walk(_member(field, name), inner, depth + 1)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _walk(f"{field}[{place}]", inner, depth + 1)
    else:
        yield from _walk_scalar(field, value)


def _walk_scalar(field: str, value: object) -> Iterator[_Finding]:
    if type(value) is _NoNumber:
        yield field, f"{value} is not a JSON number", "json"
    elif type(value) is _LongInteger:
        reason = (
            f"is an integer of {len(value)} digits; at most {INTEGER_TEXT_CHARS_MAX} are allowed"
        )
        yield field, reason, "max_length"
    elif type(value) is str and _SURROGATE.search(value):
        yield field, "holds half of a surrogate pair", "json"


def _member(field: str, name: str) -> str:
    return f"{field}.{_named(name)}" if field else _named(name)


def _named(name: str) -> str:
    return _SURROGATE.sub("\ufffd", name)[:_NAMED_CHARS_MAX]


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, bool):
        return "a boolean"
    return "a string" if type(value) is str else "a number"
