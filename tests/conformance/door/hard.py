"""Bodies that try the bounds of the door; most of them are megabytes, or inflate to some."""

import gzip
import zlib
from collections.abc import Callable
from typing import Final

from meterline.limits import BATCH_EVENTS_MAX, BODY_BYTES_MAX, EVENT_BYTES_MAX

Made = tuple[bytes, str | None]
"""A body, and its encoding."""

_MOST: Final = BODY_BYTES_MAX
_TEXT: Final = EVENT_BYTES_MAX - 2_000
"""Letters of a data member that leave room for the rest of an event."""
_FITTING: Final = _MOST // (_TEXT + 200)
"""Such events, in one body."""


def event(name: str, data: str = "{}") -> str:
    """An event with this id."""
    head = '"specversion":"1.0","source":"fuzz","type":"fuzz","subject":"hard"'
    return f'{{{head},"id":"{name}","data":{data}}}'


def events(name: str, count: int, letters: int) -> str:
    """A batch of so many events with so much text in each."""
    data = f'{{"text":"{"x" * letters}"}}'
    return f"[{','.join([event(f'{name}-{number}', data) for number in range(count)])}]"


def plain(text: str) -> Made:
    """As it is."""
    return text.encode(), None


def zipped(body: bytes) -> Made:
    """In gzip."""
    return gzip.compress(body, 6, mtime=0), "gzip"


def deep_names(name: str) -> str:
    """A fault below names that are long."""
    opened = "".join([f'{{"{"n" * 3_000}{level}":' for level in range(60)])
    return event(name, f"{opened}NaN{'}' * 60}")


def many_faults(name: str) -> str:
    """Thousands of faults in one event."""
    return event(name, "{" + ",".join(['"a":NaN,"a":"\\ud800"'] * 5_000) + "}")


# Each takes the name that its events' ids begin with.
HARD: Final[dict[str, Callable[[str], Made]]] = {
    "as large as may be": lambda name: plain(events(name, _FITTING, _TEXT)),
    "the same in gzip": lambda name: zipped(events(name, _FITTING, _TEXT).encode()),
    "too large": lambda name: plain(events(name, _FITTING + 1, _TEXT)),
    "event too large": lambda name: plain(event(name, f'{{"text":"{"é" * _TEXT}"}}')),
    "as many as may be": lambda name: plain(events(name, BATCH_EVENTS_MAX, 1)),
    "too many": lambda name: plain(events(name, BATCH_EVENTS_MAX + 1, 1)),
    "commas": lambda _: plain("[" + "," * (_MOST - 2) + "]"),
    "numbers": lambda _: plain("[" + "0," * (_MOST // 2 - 2) + "0]"),
    "brackets": lambda _: plain("[" * _MOST),
    "braces": lambda _: plain('{"a":' * (_MOST // 5)),
    "empty arrays": lambda _: plain("[" + "[]," * (_MOST // 3 - 2) + "[]]"),
    "empty objects": lambda _: plain("[" + "{}," * (_MOST // 3 - 2) + "{}]"),
    "white space": lambda _: plain(" " * (_MOST - 1) + "["),
    "an empty batch in white space": lambda _: plain("[" + " " * (_MOST - 2) + "]"),
    "one string": lambda _: plain('["' + "x" * (_MOST - 4) + '"]'),
    "escapes": lambda name: plain(event(name, '{"a":"' + "\\u00e9" * (_MOST // 6 - 99) + '"}')),
    "quotes": lambda _: plain('"' * _MOST),
    "backslashes": lambda _: plain('"' + "\\" * (_MOST - 1)),
    "a number": lambda _: plain("1" * _MOST),
    "a number in an event": lambda name: plain(event(name, f'{{"value":{"1" * (_TEXT // 2)}}}')),
    "a fraction in an event": lambda name: plain(event(name, f'{{"value":0.{"1" * _TEXT}}}')),
    "many members": lambda name: plain(
        event(name, "{" + ",".join([f'"a{number}":{number}' for number in range(17_000)]) + "}")
    ),
    "bad names": lambda _: plain(
        "{" + ",".join([f'"A{number}":{number}' for number in range(200_000)]) + "}"
    ),
    "repeated members": lambda _: plain("{" + ",".join(['"a":1'] * 40_000) + "}"),
    "many faults": lambda name: plain(many_faults(name)),
    "deep names": lambda name: plain(deep_names(name)),
    "no UTF-8 at its end": lambda _: (b'["' + b"x" * (_MOST - 8) + b'\xff"]', None),
    "bomb": lambda _: zipped(bytes(3 * _MOST)),
    "bomb of members": lambda _: (gzip.compress(bytes(_MOST // 8), 9, mtime=0) * 100, "gzip"),
    "bomb in deflate": lambda _: (zlib.compress(bytes(3 * _MOST), 6), "deflate"),
    "bomb of white space": lambda _: zipped(b" " * _MOST + b"[]"),
    "bomb that fits": lambda _: zipped(b"[" + b" " * (_MOST - 2) + b"]"),
    "bomb of brackets": lambda _: zipped(b"[" * _MOST),
}
