"""A usage event as the log keeps it (contract section 2.1; CloudEvents 1.0), and what makes it
itself.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec
from xxhash import xxh3_64_digest

from meterline.limits import (
    EVENT_TIME_MAX_MS,
    EVENT_TIME_MIN_MS,
    INSTANTS_REMEMBERED_MAX,
    TEXTS_SHARED_MAX,
)
from meterline.number import from_json_float
from meterline.window import parse_instant

DEFAULT_NAMESPACE: Final = "default"
KEY_BYTES: Final = 16
CHECK_BYTES: Final = 8
_INSTANT_CHARS_KEPT: Final = 64
_SECOND_CHARS: Final = len("2026-01-05T00:00:00+00:00")


class Event(msgspec.Struct, frozen=True, gc=False):
    """One accepted event, decoded.

    `time_ms` is the event's own time or, where it has none, its `recorded_ms`, for ever. `data`
    holds JSON values with exact numbers (int, Decimal). `text` is the event's JSON as it stands in
    the log.
    """

    key: bytes  # 16 bytes, see `identity_key`
    check: bytes  # 8 bytes, see `payload_check`
    namespace: str
    source: str
    id: str
    type: str
    subject: str
    time_ms: int
    recorded_ms: int
    data: object
    text: bytes


class LoggedEvent(msgspec.Struct, gc=False):
    """The attributes of an event in a pack that the system reads; extensions stay in the text."""

    id: str
    source: str
    type: str
    subject: str
    namespace: str
    recordedtime: str
    time: str | None = None
    data: object = None


# The events of a request share their recordedtime, and often their time.
_remembered: Final = lru_cache(INSTANTS_REMEMBERED_MAX)(parse_instant)
_shared: Final[dict[str, str]] = {}  # each text once, of namespaces, sources, types, subjects
_decoder: Final = msgspec.json.Decoder(LoggedEvent, float_hook=from_json_float)
_pack: Final = msgspec.json.Decoder(list[LoggedEvent], float_hook=from_json_float)
_texts: Final = msgspec.json.Decoder(list[msgspec.Raw])
_canonical: Final = msgspec.json.Encoder(order="sorted", decimal_format="number")


def identity_key(namespace: str, source: str, event_id: str) -> bytes:
    """The 16-byte key of the identity (namespace, source, id): blake2b over the length-prefixed
    parts.

    Its first four bytes choose the partition, so copies of an event always meet
    (docs/architecture.md, "The log").
    """
    parts = f"{len(namespace)}:{namespace}{len(source)}:{source}{event_id}"
    return hashlib.blake2b(parts.encode(), digest_size=KEY_BYTES).digest()


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of the log in which every copy of the event with this key lies."""
    return int.from_bytes(key[:4], "big") % partitions


def payload_check(event_type: str, subject: str, time_ms: int | None, data: object) -> bytes:
    """8 bytes over what a copy must repeat: type, subject, time and data, in canonical form.

    A re-serialised copy (other member order, white space or spelling of numbers) has the same
    check; any other value has another one. The time is None for an event that carries none.
    """
    content = _canonical.encode([event_type, subject, time_ms, data])
    return xxh3_64_digest(content)


def instant_of(text: str) -> int:
    """What `parse_instant` says, with the latest results at hand."""
    # a fraction may have any number of digits: what is long is not kept
    return _remembered(text) if len(text) <= _INSTANT_CHARS_KEPT else parse_instant(text)


def instant_ms(moment: datetime) -> int:
    """Unix milliseconds of an aware datetime; microseconds are cut off, never rounded up."""
    # a double holds microseconds exactly until 2100, so rounding there and then cutting is exact
    return round(moment.timestamp() * 1_000_000) // 1_000


def decode_event(text: bytes | memoryview) -> Event:
    """The event in a JSON text of a pack. Raises `ValueError` (also msgspec's errors) and
    `RecursionError`.
    """
    (event,) = _events([_decoder.decode(text)], [text])
    return event


def split_pack(value: bytes) -> list[msgspec.Raw]:
    """The texts of the events in a pack. Raises `ValueError` and `RecursionError`."""
    return _texts.decode(value)


def decode_pack(value: bytes, texts: Sequence[msgspec.Raw]) -> list[Event]:
    """All events of a pack and its `texts`, at once. Raises as `decode_event` where one of them
    cannot be read, or `OverflowError`.
    """
    return _events(_pack.decode(value), texts)


def _events(logged: Sequence[LoggedEvent], texts: Sequence[bytes | memoryview]) -> list[Event]:
    """One loop without a call of our own: it runs for every event of the log. Of what events have
    in common, one text is kept for all that wait for a flush.
    """
    blake, digest, encode = hashlib.blake2b, xxh3_64_digest, _canonical.encode
    remembered, one = _remembered, _shared.setdefault
    if len(_shared) > TEXTS_SHARED_MAX:
        _shared.clear()
    found = []
    named: tuple[str | None, str | None] = None, None
    before_id = ""
    for raw, text in zip(logged, texts, strict=True):
        namespace, source, id_ = raw.namespace, raw.source, raw.id
        type_, subject, own, data = raw.type, raw.subject, raw.time, raw.data
        namespace, source = one(namespace, namespace), one(source, source)
        type_, subject = one(type_, type_), one(subject, subject)
        recorded_ms = remembered(raw.recordedtime)
        if own is None:
            own_ms, time_ms = None, recorded_ms
        else:
            alike = len(own) <= _SECOND_CHARS and "." not in own  # with a fraction they seldom are
            own_ms = time_ms = remembered(own) if alike else parse_instant(own)
        if not (
            EVENT_TIME_MIN_MS <= recorded_ms < EVENT_TIME_MAX_MS
            and EVENT_TIME_MIN_MS <= time_ms < EVENT_TIME_MAX_MS
        ):
            raise ValueError("time lies outside 1970 to 2099")  # no window of it could be stored
        # `identity_key` and `payload_check`
        if source is not named[1] or namespace is not named[0]:
            named = namespace, source
            before_id = f"{len(namespace)}:{namespace}{len(source)}:{source}"
        key = blake((before_id + id_).encode(), digest_size=KEY_BYTES).digest()
        check = digest(encode([type_, subject, own_ms, data]))
        found.append(
            Event(
                key,
                check,
                namespace,
                source,
                id_,
                type_,
                subject,
                time_ms,
                recorded_ms,
                data,
                bytes(text),
            )
        )
    return found
