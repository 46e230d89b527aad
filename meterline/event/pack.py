"""Packs: a record of the log holds a CloudEvents JSON batch (docs/architecture.md, "The log")."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from meterline.event.event import Event, decode_event, decode_pack, split_pack
from meterline.limits import (
    EVENT_TIME_MAX_MS,
    EVENT_TIME_MIN_MS,
    PACK_EVENTS_MAX,
    POSITION_INDEX_BITS,
)

RECORD_DIGEST_BYTES: Final = 16


class RecordKind(StrEnum):
    """What a record holds: a pack of events, one refusal of the inbox, or the mark of a growth."""

    PACK = "pack"
    REFUSAL = "refusal"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the log. `append_ms` is the log's own time of the append, unix milliseconds."""

    partition: int
    offset: int
    append_ms: int
    kind: RecordKind
    value: bytes
    log_id: str


class Refusal(msgspec.Struct, frozen=True):
    """What the inbox refused, kept in the log so that one account holds everything."""

    namespace: str
    topic: str
    partition: int
    offset: int
    field: str
    reason: str
    text: str  # what was refused, decoded with replacement, cut
    append_ms: int | None = None  # when the topic took it in; None: not known


_refusals: Final = msgspec.json.Decoder(Refusal)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An event, or a whole record (`index` 0), of which nothing can be made; it counts as
    `invalid`.

    Of what the inbox refused, the namespace is known, and where it lies: the topic as `source`, its
    partition and offset as `id`; and when its topic took it in. Whatever else cannot be read
    belongs to no namespace.
    """

    index: int
    field: str
    reason: str
    text: bytes
    namespace: str = ""
    source: str = ""
    id: str = ""
    recorded_ms: int | None = None


def position(offset: int, index: int) -> int:
    """One integer that orders all events of a partition; the version of rows."""
    return (offset << POSITION_INDEX_BITS) | index


def offset_of(position_: int) -> int:
    """The record's offset in a position."""
    return position_ >> POSITION_INDEX_BITS


def index_of(position_: int) -> int:
    """The place in its pack of the event at a position."""
    return position_ & ((1 << POSITION_INDEX_BITS) - 1)


def record_digest(record: Record) -> bytes:
    """16 bytes (blake2b) of what a record is: where it lies, when it was appended, and its value.

    A seal keeps that of the last record of its slice, so that a log that was restored to an older
    state, and has grown again since, is known by it.
    """
    digest = hashlib.blake2b(digest_size=RECORD_DIGEST_BYTES)
    for number in (record.partition, record.offset, record.append_ms):
        digest.update(number.to_bytes(8, "big", signed=True))
    digest.update(record.kind.encode() + b"\0")
    digest.update(record.value)
    return digest.digest()


def encode_pack(events: Sequence[bytes]) -> bytes:
    """A pack of events, each a JSON object already spliced."""
    return b"[" + b",".join(events) + b"]"


def encode_refusal(refusal: Refusal) -> bytes:
    """The value of a refusal record."""
    return msgspec.json.encode(refusal)


def decode_record(record: Record) -> list[Event | Unreadable]:
    """The events of a record, in order; what cannot be read comes as `Unreadable` in its place.

    Nothing is raised: a poisoned record must never stall a partition. A record that is no pack at
    all is one `Unreadable`.
    """
    if record.kind is RecordKind.REFUSAL:
        return [_refused(record.value)]
    if record.kind is RecordKind.MARK:
        return []
    try:
        texts = split_pack(record.value)
    except (ValueError, RecursionError) as error:
        return [Unreadable(0, "", f"not a pack: {error}", record.value)]
    if len(texts) > PACK_EVENTS_MAX:
        return [Unreadable(0, "", f"a pack of {len(texts)} events", record.value)]
    try:
        return list[Event | Unreadable](decode_pack(record.value, texts))
    except (ValueError, RecursionError, OverflowError):
        return [_decoded(index, text) for index, text in enumerate(texts)]


def _decoded(index: int, text: msgspec.Raw) -> Event | Unreadable:
    try:
        return decode_event(text)
    except (ValueError, RecursionError, OverflowError) as error:
        return Unreadable(index, "", str(error), bytes(text))


def _refused(value: bytes) -> Unreadable:
    try:
        refusal = _refusals.decode(value)
    except (ValueError, RecursionError) as error:
        return Unreadable(0, "", f"not a refusal: {error}", value)
    append_ms = refusal.append_ms
    if append_ms is not None and not EVENT_TIME_MIN_MS <= append_ms < EVENT_TIME_MAX_MS:
        append_ms = None  # no row could hold it
    return Unreadable(
        0,
        refusal.field,
        refusal.reason,
        refusal.text.encode(),
        refusal.namespace,
        refusal.topic,
        f"{refusal.partition}/{refusal.offset}",
        append_ms,
    )
