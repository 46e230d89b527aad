"""The hash of a row, for count-back: the sum of these over a slice is compared with what the store
says it holds.

The text of a row is its values in a fixed order, with `|` behind each but the last, keys as bytes;
the hash is xxHash64 with seed 0. Every usage store computes the same over what it really keeps
(design.md section 4.3).
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

from xxhash import xxh64_intdigest

from meterline.rows import (
    Counted,
    EventRow,
    MemberRow,
    RejectedRow,
    RejectRow,
    SeenRow,
    TallyRow,
)

MODULUS: Final = 1 << 64


def _indices(row: type[EventRow] | type[SeenRow], names: str) -> list[int]:
    return [row._fields.index(name) for name in names.split()]


_EVENT: Final = itemgetter(
    *_indices(EventRow, "offset place append_ms time_ms recorded_ms key text")
)
_SEEN: Final = itemgetter(*_indices(SeenRow, "offset place append_ms key check"))


# These two run for every event: picking and putting together are one call into C each.


def event_text(row: EventRow) -> bytes:
    """Of an event: where it lies, when, which, and its whole text."""
    return b"%d|%d|%d|%d|%d|%b%b" % _EVENT(row)


def reject_text(row: RejectRow) -> bytes:
    """Of a reject: where it lies, when, which, why, and its whole text."""
    (_, _, offset, place, _, append_ms, key, namespace, type_, subject, source, id_, time_ms,
     recorded_ms, text, kind, first, field, reason) = row  # fmt: skip
    head = b"%d|%d|%d|%d|%d|%d|" % (offset, place, append_ms, time_ms, recorded_ms, first)
    words = f"{kind}|{field}|{reason}|{namespace}|{type_}|{subject}|{source}|{id_}|"
    return head + key + words.encode() + text


def seen_text(row: SeenRow) -> bytes:
    """Of a first position."""
    return b"%d|%d|%d|%b%b" % _SEEN(row)


def tally_text(row: TallyRow) -> bytes:
    """Of a tally: cell, version and every value."""
    head = (
        f"{row.revision}|{row.window}|{row.subject}|{row.groups}|{row.version}|{row.total}"
        f"|{row.counted}|{row.rejected}|{row.minimum}|{row.maximum}|{row.latest_time_ms}"
        f"|{row.latest_recorded_ms}|{row.latest}|"
    )
    return head.encode() + row.latest_key


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
    "events": event_text,
    "rejects": reject_text,
    "seen": seen_text,
    "tallies": tally_text,
    "members": member_text,
    "rejected": rejected_text,
}


def counted(table: str, rows: Sequence[Any]) -> Counted:
    """Number and hash sum of rows of a table, as count-back gives them for what is stored."""
    digest = sum(map(xxh64_intdigest, map(TEXTS[table], rows)))
    return Counted(len(rows), digest % MODULUS)


def together(one: Counted, other: Counted) -> Counted:
    """The count of both, for rows written in parts."""
    return Counted(one.rows + other.rows, (one.digest + other.digest) % MODULUS)
