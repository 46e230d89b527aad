"""Keys of the new events of an open slice: what it knows of them while it is open, and what its
seen store is told when it is sealed (pure).

A slice may have 65,536 of them, and a worker has a slice open in each partition. So they are packed
in the form in which they are stored, which takes less than a row for each. And they are found by a
number of 60 bits, which takes half of what a key takes as an object of its own.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Final

from aggregator.slice.verdict import Seen
from meterline.limits import SLICE_EVENTS_MAX

_ROW: Final = struct.Struct(">16sQQ8s")  # as `UsageStore.seen_keys` gives them
_NUMBERS: Final = tuple(range(SLICE_EVENTS_MAX))  # each once, for the slices of all partitions


_SHORT: Final = (1 << 60) - 1  # an int of more bits takes 16 bytes more


class NewKeys:
    """Rows in order of position, and where the latest of each key is."""

    __slots__ = ("_alike", "_next", "_places", "_rows")

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # by short hash, the number of the latest row of a key
        self._alike: dict[bytes, int] = {}  # the same by key, where another one has its short hash
        self._rows = bytearray()
        self._next: Iterator[int] = chain(_NUMBERS, count(SLICE_EVENTS_MAX))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows) // _ROW.size

    def add(self, key: bytes, position: int, append_ms: int, check: bytes) -> None:
        """A new event."""
        short, number = hash(key) & _SHORT, next(self._next)
        place = self._places.setdefault(short, number)
        if place != number:  # seldom: the key came before its horizon, or another one is alike
            self._put(short, place, key, number)
        self._rows += _ROW.pack(key, position, append_ms, check)

    def _put(self, short: int, place: int, key: bytes, number: int) -> None:
        if _ROW.unpack_from(self._rows, place * _ROW.size)[0] == key:
            self._places[short] = number
        else:
            self._alike[key] = number

    def find(self, key: bytes) -> Seen | None:
        """The latest new event with a key."""
        place = self._places.get(hash(key) & _SHORT)
        if place is None:
            return None
        found, *seen = _ROW.unpack_from(self._rows, place * _ROW.size)
        if found != key:
            place = self._alike.get(key)
            if place is None:
                return None
            _, *seen = _ROW.unpack_from(self._rows, place * _ROW.size)
        position, append_ms, check = seen
        return position, append_ms, check

    def unknown(self, keys: Iterable[bytes]) -> list[bytes]:
        """Those of which no new event is here."""
        places, find = self._places, self.find
        return [it for it in keys if hash(it) & _SHORT not in places or find(it) is None]

    def packed(self) -> bytes:
        """All rows, as `SeenStore.apply` takes them."""
        return bytes(self._rows)
