"""Differences between two JSON documents, value by value (pure)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from meterline.number import from_json_float

Absent = msgspec.UnsetType
ABSENT: Final = msgspec.UNSET
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements: Final = msgspec.json.Decoder(list[msgspec.Raw])
_value: Final = msgspec.json.Decoder(float_hook=from_json_float)
_canonical: Final = msgspec.json.Encoder(order="sorted", decimal_format="number")


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that is another one in the other document, as JSON text in each; `ABSENT` where it is
    in one of them only.
    """

    path: tuple[str | int, ...]  # names of members and indexes of elements, from the root
    one: bytes | Absent
    other: bytes | Absent

    @property
    def path_text(self) -> str:
        """The path as JSONPath has it (RFC 9535)."""
        return "$" + "".join(map(_part, self.path))


def differences(one: bytes, other: bytes, limit: int) -> tuple[list[Difference], bool]:
    """In what one JSON text differs from another, at most `limit` times, and whether in more.

    Members are compared by name and elements by index, as deep as both have them. Spellings of a
    number do not differ, nor does the order of members. Raises `ValueError` and `RecursionError`
    for what is no JSON.
    """
    found = list(islice(_walk((), one, other), limit + 1))
    return found[:limit], len(found) > limit


def _part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN.fullmatch(part):
        return f".{part}"
    return f"[{msgspec.json.encode(part).decode()}]"


def _walk(
    path: tuple[str | int, ...], one: bytes | Absent, other: bytes | Absent
) -> Iterator[Difference]:
    if isinstance(one, Absent) or isinstance(other, Absent):
        yield Difference(path, one, other)
        return
    if one == other:
        return
    opening = one.lstrip()[:1]
    if opening != other.lstrip()[:1] or opening not in (b"{", b"["):
        if _contents(one) != _contents(other):
            yield Difference(path, one, other)
    elif opening == b"{":
        members, others = _members.decode(one), _members.decode(other)
        for name in dict.fromkeys((*members, *others)):
            yield from _walk((*path, name), _of(members.get(name)), _of(others.get(name)))
    else:
        elements, others_ = _elements.decode(one), _elements.decode(other)
        for index in range(max(len(elements), len(others_))):
            mine = elements[index] if index < len(elements) else None
            theirs = others_[index] if index < len(others_) else None
            yield from _walk((*path, index), _of(mine), _of(theirs))


def _of(raw: msgspec.Raw | None) -> bytes | Absent:
    return ABSENT if raw is None else bytes(raw)


def _contents(text: bytes) -> bytes:
    """The value of a text in its one canonical form, as the check of a payload has it."""
    return _canonical.encode(_value.decode(text))
