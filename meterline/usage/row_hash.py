"""The hash of a row, for count-back: the sum of these over a slice is compared with what the store
says it holds.

The text of a row is its values in a fixed order, with `|` behind each but the last, keys as bytes.
Of what there is of every event, and of tallies, it is the bytes of the values themselves, numbers
little-endian.
The hash is xxHash64 with seed 0. Every usage store computes the same over what it really keeps
(docs/architecture.md, "Order of effects").
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from operator import add, itemgetter
from typing import Any, Final

from xxhash import xxh64_intdigest

from meterline.meter import Cell, Tally
from meterline.usage.rows import (
    Counted,
    EventRow,
    MemberRow,
    RejectedRow,
    RejectRow,
    SeenRow,
    TallyRow,
)

MODULUS: Final = 1 << 64

_EVENT_FIELDS: Final = ("offset", "place", "append_ms", "time_ms", "recorded_ms", "key")
_EVENT_VALUES: Final = itemgetter(*map(EventRow._fields.index, _EVENT_FIELDS))
_EVENT_BYTES: Final = struct.Struct("<QHqqq16s").pack
_TEXT: Final = itemgetter(EventRow._fields.index("text"))
_SEEN_BYTES: Final = struct.Struct("<HHQHQq16s8s").pack
_TALLY_BYTES: Final = struct.Struct("<IIQQQqq16s").pack
_NO_VALUES: Final = bytes(3 * 16)
# Of a tally with a total of 64 bits and nothing but that: no latest event, no values.
_PLAIN_BYTES: Final = struct.Struct("<IIQQQ32xqqqq48x").pack
_PLAIN_MAX: Final = 1 << 63


# These two run for every event: nothing but calls into C for each.
def event_bytes(rows: Sequence[EventRow]) -> Iterable[bytes]:
    """Of events: where each lies, when, which, and its whole text."""
    return map(add, starmap(_EVENT_BYTES, map(_EVENT_VALUES, rows)), map(_TEXT, rows))


def seen_bytes(rows: Sequence[SeenRow]) -> Iterable[bytes]:
    """Of first positions: every value in the order of the row, as wide as its column."""
    return starmap(_SEEN_BYTES, rows)


def reject_text(row: RejectRow) -> bytes:
    """Of a reject: where it lies, when, which, why, and its whole text."""
    (_, _, offset, place, _, append_ms, key, namespace, type_, subject, source, id_, time_ms,
     recorded_ms, text, kind, first, field, reason) = row  # fmt: skip
    head = b"%d|%d|%d|%d|%d|%d|" % (offset, place, append_ms, time_ms, recorded_ms, first)
    fields = f"{kind}|{field}|{reason}|{namespace}|{type_}|{subject}|{source}|{id_}|"
    return head + key + fields.encode() + text


def tally_bytes(row: TallyRow) -> bytes:
    """Of a tally: cell, version and every value, numbers as wide as their columns."""
    (revision, subject, groups, window, _, _, _, version, total, counted_, rejected, minimum,
     maximum, time_ms, recorded_ms, key, latest) = row  # fmt: skip
    head = _TALLY_BYTES(
        revision, window, version, counted_, rejected, time_ms, recorded_ms, key
    ) + total.to_bytes(32, "little", signed=True)
    if minimum or maximum or latest:
        wide = [it.to_bytes(16, "little", signed=True) for it in (minimum, maximum, latest)]
        return head + b"".join(wide) + f"{subject}|{groups}".encode()
    return (
        head + _NO_VALUES + f"{subject}|{groups}".encode()
    )  # of most tallies: a third of the time


def tally_hash(cell: Cell, tally: Tally, row_of: Callable[[Cell, Tally], TallyRow]) -> int:
    """The hash of the row of a cell. Most rows are not made for it: that takes more than half the
    time. A row is made where there are extremes, a latest value or a very large total.
    """
    total = tally.total
    plain = tally.latest is None and tally.minimum is None and tally.maximum is None
    if not plain or not -_PLAIN_MAX <= total < _PLAIN_MAX:
        return xxh64_intdigest(tally_bytes(row_of(cell, tally)))
    revision, subject, groups, window = cell
    sign = -1 if total < 0 else 0
    head = _PLAIN_BYTES(
        revision, window, tally.version, tally.count, tally.rejected, total, sign, sign, sign
    )  # fmt: skip
    return xxh64_intdigest(head + f"{subject}|{groups}".encode())


def member_text(row: MemberRow) -> bytes:
    """Of a distinct value."""
    return f"{row.revision}|{row.window}|{row.subject}|{row.groups}|".encode() + row.member


def rejected_text(row: RejectedRow) -> bytes:
    """Of a rejected value."""
    return (
        f"{row.revision}|{row.offset}|{row.place}|{row.subject}|{row.groups}|{row.window}"
        f"|{row.reason}|{row.value}"
    ).encode()


TEXTS: Final[dict[str, Callable[[Any], bytes]]] = {
    "rejects": reject_text,
    "tallies": tally_bytes,
    "members": member_text,
    "rejected": rejected_text,
    "late_tallies": tally_bytes,
    "late_members": member_text,
}
_BYTES: Final[dict[str, Callable[[Any], Iterable[bytes]]]] = {
    "events": event_bytes,
    "seen": seen_bytes,
}


def counted(table: str, rows: Sequence[Any]) -> Counted:
    """Number and hash sum of rows of a table, as count-back gives them for what is stored."""
    texts = map(TEXTS[table], rows) if table in TEXTS else _BYTES[table](rows)
    digest = sum(map(xxh64_intdigest, texts))
    return Counted(len(rows), digest % MODULUS)


def counted_of(hashes: Sequence[int]) -> Counted:
    """`counted` of rows whose hashes are known."""
    return Counted(len(hashes), sum(hashes) % MODULUS)


def together(one: Counted, other: Counted) -> Counted:
    """The count of both, for rows written in parts."""
    return Counted(one.rows + other.rows, (one.digest + other.digest) % MODULUS)
