"""The hash of a row, for count-back: the sum of these over a slice is compared with what the store says it holds.

The text of a row is its values in a fixed order, joined by `|`, bytes as capital hex; the hash is xxHash64 with
seed 0. Every usage store computes the same over what it really keeps (design.md section 4.3).
"""

from collections.abc import Callable, Iterable
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


def event_text(row: EventRow) -> str:
    """Of an event: where it lies, when, which, and its whole text."""
    return (
        f"{row.offset}|{row.place}|{row.append_ms}|{row.time_ms}|{row.recorded_ms}"
        f"|{row.key.hex().upper()}|{row.text}"
    )


def reject_text(row: RejectRow) -> str:
    """Of a reject: where it lies, and why."""
    return (
        f"{row.offset}|{row.place}|{row.append_ms}|{row.kind}|{row.key.hex().upper()}"
        f"|{row.field}|{row.reason}|{row.text}"
    )


def seen_text(row: SeenRow) -> str:
    """Of a first position."""
    return (
        f"{row.offset}|{row.place}|{row.append_ms}|{row.key.hex().upper()}|{row.check.hex().upper()}"
    )


def tally_text(row: TallyRow) -> str:
    """Of a tally: cell, version and every value."""
    return (
        f"{row.revision}|{row.window}|{row.subject}|{row.groups}|{row.version}|{row.total}|{row.counted}"
        f"|{row.rejected}|{row.minimum}|{row.maximum}|{row.latest_time_ms}|{row.latest_recorded_ms}"
        f"|{row.latest_key.hex().upper()}|{row.latest}"
    )


def member_text(row: MemberRow) -> str:
    """Of a distinct value."""
    return (
        f"{row.revision}|{row.window}|{row.subject}|{row.groups}|{row.member.hex().upper()}"
    )


def rejected_text(row: RejectedRow) -> str:
    """Of a rejected value."""
    return (
        f"{row.revision}|{row.offset}|{row.place}|{row.subject}|{row.groups}|{row.window}"
        f"|{row.reason}|{row.value}"
    )


def tally_hash(row: TallyRow) -> int:
    """The hash of one tally."""
    return xxh64_intdigest(tally_text(row).encode())


TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "events": event_text,
    "rejects": reject_text,
    "seen": seen_text,
    "tallies": tally_text,
    "members": member_text,
    "rejected": rejected_text,
}


def counted(table: str, rows: Iterable[Any]) -> Counted:
    """Number and hash sum of rows of a table, as count-back gives them for what is stored."""
    text = TEXTS[table]
    hashes = [xxh64_intdigest(text(row).encode()) for row in rows]
    return Counted(len(hashes), sum(hashes) % MODULUS)


def together(one: Counted, other: Counted) -> Counted:
    """The count of both, for rows written in parts."""
    return Counted(one.rows + other.rows, (one.digest + other.digest) % MODULUS)
