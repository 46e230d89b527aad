"""Packing: events of one partition become packs within the log's bounds (docs/architecture.md,
"Ingest").
"""

from collections.abc import Sequence
from typing import NamedTuple

from meterline.event import encode_pack
from meterline.limits import PACK_BYTES_MAX, PACK_EVENTS_MAX


class Pack(NamedTuple):
    """The value of a record, and how many events it holds."""

    value: bytes
    events: int


def packs_of(
    texts: Sequence[bytes],
    events_max: int = PACK_EVENTS_MAX,
    bytes_max: int = PACK_BYTES_MAX,
) -> list[Pack]:
    """The values of the records that hold these events, in their order, each as full as it may be.

    A pack has at most `events_max` events and `bytes_max` bytes, brackets and commas included. An
    event that is larger alone must not come here: admission's bound is far below.
    """
    if len(texts) <= events_max and _size(texts) <= bytes_max:
        return [_pack(texts)] if texts else []
    packs: list[Pack] = []
    first = 0
    size = 1  # the brackets, less the comma that the first event has not
    for place, text in enumerate(texts):
        grown = size + 1 + len(text)
        if place - first == events_max or (grown > bytes_max and place > first):
            packs.append(_pack(texts[first:place]))
            first = place
            grown = 2 + len(text)
        assert grown <= bytes_max, f"an event of {len(text)} bytes is larger than a pack"
        size = grown
    packs.append(_pack(texts[first:]))
    return packs


def _pack(texts: Sequence[bytes]) -> Pack:
    return Pack(encode_pack(texts), len(texts))


def _size(texts: Sequence[bytes]) -> int:
    return sum(map(len, texts)) + len(texts) + 1
