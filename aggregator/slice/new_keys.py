"""Keys of the new events of an open slice: what it knows of them while it is open, and what its
seen store is told when it is sealed (pure).

A slice may have 65,536 of them, and a worker has a slice open in each partition. So they are packed
in the form in which they are stored, which takes less than a row for each.
"""

import struct
from collections.abc import Iterator
from itertools import chain, count
from typing import Final

from aggregator.slice.verdict import Seen
from meterline.limits import SLICE_EVENTS_MAX

_ROW: Final = struct.Struct(">16sQQ8s")  # as `UsageStore.seen_keys` gives them
_VALUE: Final = struct.Struct(">16xQQ8s")
_NUMBERS: Final = tuple(range(SLICE_EVENTS_MAX))  # each once, for the slices of all partitions


class NewKeys:
    """Rows in order of position, and where the latest of each key is."""

    __slots__ = ("_next", "_rows", "places")

    def __init__(self) -> None:
        self.places: dict[bytes, int] = {}  # by key, the number of its latest row
        self._rows = bytearray()
        self._next: Iterator[int] = chain(_NUMBERS, count(SLICE_EVENTS_MAX))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows) // _ROW.size

    def add(self, key: bytes, position: int, append_ms: int, check: bytes) -> None:
        """A new event."""
        self.places[key] = next(self._next)
        self._rows += _ROW.pack(key, position, append_ms, check)

    def find(self, key: bytes) -> Seen | None:
        """The latest new event with a key."""
        place = self.places.get(key)
        if place is None:
            return None
        position, append_ms, check = _VALUE.unpack_from(self._rows, place * _ROW.size)
        return position, append_ms, check

    def packed(self) -> bytes:
        """All rows, as `SeenStore.apply` takes them."""
        return bytes(self._rows)
