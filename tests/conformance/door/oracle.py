"""What the door must say to a request, judged anew with the standard library from docs/api.md.

It shares no code with `ingest`. It is told what is sent and says which events are in, or which
problems may be the answer.
"""

import json
import re
import unicodedata
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    BATCH_EVENTS_MAX,
    BODY_BYTES_MAX,
    EVENT_BYTES_MAX,
    JSON_DEPTH_MAX,
)
from tests.conformance.door.posts import BATCH, EITHER, ONE, Post

INTEGER_CHARS_MAX: Final = 4_300
"""Of an integer; numbers with a point have no such bound."""
STORED_BYTES: Final = 66
"""What the door adds to an event: its namespace and the moment."""

INVALID: Final = frozenset({"invalid-event"})
TOO_LARGE: Final = frozenset({"body-too-large"})
ENCODING: Final = frozenset({"bad-request"})
MEDIA_TYPE: Final = frozenset({"unsupported-content-type"})

_REQUIRED: Final = ("specversion", "id", "source", "type", "subject")
_ATTRIBUTES: Final = frozenset({*_REQUIRED, "datacontenttype", "dataschema"})
_NULLABLE: Final = frozenset({"data", "time", "datacontenttype", "dataschema"})
_EXTENSION: Final = re.compile("[a-z0-9]{1,20}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)",
    re.ASCII,
)
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = datetime(2100, 1, 1, tzinfo=UTC)


class Known(NamedTuple):
    """An accepted event: what makes it itself, and its members as they were sent."""

    source: str
    id: str
    type: str
    members: dict[str, Any]


class Expected(NamedTuple):
    """What must be the answer: success with these events, or one of these problems."""

    events: list[Known]
    problems: frozenset[str] = frozenset()


class Number(str):
    """A JSON number, as it is written."""

    __slots__ = ()


class _NoEvent(Exception):
    """The text is not what docs/api.md calls an event."""


def expected(post: Post) -> Expected:
    """What must be the answer to a request."""
    media_type = (post.media_type or "").partition(";")[0].strip(" \t").lower()
    if post.attributes and not media_type.startswith("application/cloudevents"):
        return _expected_binary(post, media_type)
    if media_type not in (ONE, BATCH, EITHER):
        return Expected([], MEDIA_TYPE)
    body = _inflated(post)
    if isinstance(body, Expected):
        return body
    try:
        return _judged(body, media_type)
    except (_NoEvent, ValueError, RecursionError):
        return Expected([], INVALID)


def _expected_binary(post: Post, media_type: str) -> Expected:
    """What must be the answer where the attributes are headers (CloudEvents' HTTP binding 3.1)."""
    event: dict[str, Any] = {}
    try:
        for header, value in post.attributes:
            name = header.lower().removeprefix("ce-")
            if name in event:
                raise _NoEvent
            event[name] = _unquoted(value)
        if media_type:
            event.setdefault("datacontenttype", media_type)
        if post.body:
            if "data" in event:
                raise _NoEvent
            event["data"] = _DECODER.decode(post.body.decode())
            _check_depth(event["data"], 2)
            _check_surrogates(event)
        return Expected([_known(event)])
    except (_NoEvent, ValueError, RecursionError):
        return Expected([], INVALID)


def _unquoted(value: str) -> str:
    raw = value.strip(" \t").encode(errors="surrogateescape")
    if len(raw) > 1 and raw[:1] == raw[-1:] == b'"':
        raw = re.sub(rb"\\(.)", rb"\1", raw[1:-1])
    return unquote_to_bytes(raw).decode()


def _inflated(post: Post) -> bytes | Expected:
    if len(post.body) > BODY_BYTES_MAX:
        return Expected([], TOO_LARGE)
    encoding = (post.encoding or "").strip().lower()
    if encoding in ("", "identity"):
        return post.body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return Expected([], ENCODING)
    bits = 31
    if encoding == "deflate":
        bits = 15 if post.body[:1] and post.body[0] & 15 == zlib.DEFLATED else -15
    found, left = b"", post.body
    while left:
        inflater = zlib.decompressobj(bits)
        try:
            found += inflater.decompress(left, BODY_BYTES_MAX + 1 - len(found))
        except zlib.error:
            return Expected([], ENCODING)
        if len(found) > BODY_BYTES_MAX:
            return Expected([], TOO_LARGE)
        left = inflater.unused_data
        if not inflater.eof or (left and encoding == "deflate"):
            return Expected([], ENCODING)
    return found


def _judged(body: bytes, media_type: str) -> Expected:
    text = body.decode()
    batch = text.lstrip(" \t\r\n").startswith("[")
    if media_type == (ONE if batch else BATCH):
        raise _NoEvent
    if batch and text.count(",") >= BATCH_EVENTS_MAX and _elements(text) > BATCH_EVENTS_MAX:
        return Expected([], TOO_LARGE | INVALID)
    value = _DECODER.decode(text)
    events = value if batch else [value]
    if len(events) > BATCH_EVENTS_MAX:
        return Expected([], TOO_LARGE | INVALID)
    if text.count("[") + text.count("{") > JSON_DEPTH_MAX:
        _check_depth(value, 0 if batch else 1)
    if "\\u" in text:
        _check_surrogates(value)
    if len(body) + STORED_BYTES > EVENT_BYTES_MAX:
        for size in _sizes(text, batch=batch):
            if size + STORED_BYTES > EVENT_BYTES_MAX:
                raise _NoEvent
    return Expected([_known(event) for event in events])


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NoEvent
    return members


def _no_number(_: str) -> Any:
    raise _NoEvent


def _integer(text: str) -> Number:
    if len(text) > INTEGER_CHARS_MAX:
        raise _NoEvent
    return Number(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_constant=_no_number, parse_int=_integer, parse_float=Number
)


def _known(event: Any) -> Known:
    if type(event) is not dict:
        raise _NoEvent
    for name in _REQUIRED:
        if type(event.get(name)) is not str:
            raise _NoEvent
    for name, value in event.items():
        if value is not None or name not in _NULLABLE:
            _check_member(name, value)
    if event["specversion"] != "1.0":
        raise _NoEvent
    if event.get("datacontenttype") not in (None, "application/json"):
        raise _NoEvent
    return Known(event["source"], event["id"], event["type"], event)


def _check_member(name: str, value: Any) -> None:
    if name == "data":
        if type(value) is not dict:
            raise _NoEvent
    elif name == "time":
        instant(value)
    elif name in _ATTRIBUTES:
        _check_text(value)
        if not value:
            raise _NoEvent
    elif name in ("namespace", "recordedtime") or _EXTENSION.fullmatch(name) is None:
        raise _NoEvent
    elif type(value) is str:
        _check_text(value)
    elif type(value) in (dict, list):
        raise _NoEvent


def _check_text(value: Any) -> None:
    if type(value) is not str or len(value) > ATTRIBUTE_CHARS_MAX:
        raise _NoEvent
    if not value.isprintable() and "Cc" in map(unicodedata.category, value):
        raise _NoEvent


def instant(value: Any) -> tuple[datetime, str]:
    """The instant of a timestamp to the second, and the digits behind it."""
    found = _TIME.fullmatch(value) if type(value) is str else None
    if found is None:
        raise _NoEvent
    date, time, fraction, zone = found.groups()
    if leap := time.endswith(":60"):
        time, fraction = f"{time[:-2]}59", "999"
    moment = datetime.fromisoformat(f"{date}T{time}{zone.upper()}").astimezone(UTC)
    if leap and (moment.hour, moment.minute) != (23, 59):
        raise _NoEvent
    if not _FIRST <= moment < _END:
        raise _NoEvent
    return moment, (fraction or "")[:3].ljust(3, "0")


def _check_depth(value: Any, depth: int) -> None:
    if type(value) not in (dict, list):
        return
    if depth > JSON_DEPTH_MAX:
        raise _NoEvent
    for inner in value.values() if type(value) is dict else value:
        _check_depth(inner, depth + 1)


def _check_surrogates(value: Any) -> None:
    if type(value) is str:
        if _SURROGATE.search(value):
            raise _NoEvent
    elif type(value) is dict:
        for name, inner in value.items():
            _check_surrogates(name)
            _check_surrogates(inner)
    elif type(value) is list:
        for inner in value:
            _check_surrogates(inner)


_SCAN: Final = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
_GAP: Final = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")


def _sizes(text: str, *, batch: bool) -> Iterator[int]:
    """Bytes of each event of a text that is well-formed."""
    if not batch:
        yield len(text.strip(" \t\r\n").encode())
        return
    at = text.index("[") + 1
    while True:
        gap = _GAP.match(text, at)
        at = at if gap is None else gap.end()
        if text[at] == "]":
            return
        _, end = _SCAN(text, at)
        yield len(text[at:end].encode())
        at = end


def _elements(text: str) -> int:
    """How many elements a batch has, as far as it is well-formed and not beyond what is allowed."""
    found, at = 0, text.index("[") + 1
    while found <= BATCH_EVENTS_MAX:
        gap = _GAP.match(text, at)
        at = at if gap is None else gap.end()
        try:
            _, at = _SCAN(text, at)
        except (ValueError, RecursionError):
            return found
        found += 1
    return found
