"""How much memory the open slices of a worker may take, and which one goes on when they take it
(pure).

A slice ends where the log says, so it cannot be sealed early. But it can wait: what is not taken in
stays in the log. So one partition goes on until its slice is sealed, then the next.
"""

from collections.abc import Mapping

from aggregator.catalogue_debounce import passed
from aggregator.slice.partition import Partition
from meterline.limits import OPEN_TURN_MS


class Room:
    """`look` is told often how it is; `may_grow` is asked before records are taken in."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._turn: int | None = None  # the partition that goes on
        self._slice: int | None = None  # which slice of it was open when its turn began
        self._grew_ms = 0
        self._grew = False  # since its turn began
        self._took_ms = 0  # when any partition took records in
        self._sealing = False  # slices that have ended wait for their seals
        self._refused: dict[int, None] = {}  # partitions that wait for a turn, in order

    @property
    def is_full(self) -> bool:
        """Whether partitions take turns."""
        return self.held_bytes >= self.bytes_max

    def gets_on(self, now_ms: int) -> bool:
        """Whether partitions take turns, and some records were taken in meanwhile: then those that
        wait do not stand still.
        """
        return self.is_full and not passed(now_ms, self._took_ms, 2 * OPEN_TURN_MS)

    def look(self, partitions: Mapping[int, Partition], now_ms: int) -> bool:
        """Note what open slices take now. Whether partitions take turns from here on, and did not
        before.
        """
        was_full = self.is_full
        held_slices = [one for it in partitions.values() for one in it.unsealed()]
        self.held_bytes = sum(one.held_bytes for one in held_slices)
        self._sealing = any(it.ended is not None for it in partitions.values())
        slices = {it.number: it.slice for it in partitions.values() if it.slice is not None}
        if self._turn is not None:
            held = slices.get(self._turn)
            ended = self._slice is not None and (held is None or held.id.slice != self._slice)
            gone = self._turn not in partitions
            if ended or gone or passed(now_ms, self._grew_ms, OPEN_TURN_MS) or not self.is_full:
                self._turn = None
            elif self._slice is None and held is not None:
                self._slice = held.id.slice
        self._hand_on(partitions, now_ms)
        return self.is_full and not was_full

    def _hand_on(self, partitions: Mapping[int, Partition], now_ms: int) -> None:
        """First come, first served: else those that are asked for last would never have a turn."""
        self._refused = {it: None for it in self._refused if it in partitions and self.is_full}
        if self._turn is None and self._refused:
            number = next(iter(self._refused))
            del self._refused[number]
            self._begin(partitions[number], now_ms)

    def _begin(self, partition: Partition, now_ms: int) -> None:
        self._turn, self._grew_ms, self._grew = partition.number, now_ms, False
        self._slice = None if partition.slice is None else partition.slice.id.slice

    def may_grow(self, partition: Partition, now_ms: int) -> bool:
        """Whether records that are there may be taken in by a partition now. Where partitions take
        turns, whoever has waited longest is next.
        """
        if not self.is_full:
            return True
        if self._sealing:  # memory is about to be free
            return False
        if self._turn is None:
            self._refused.pop(partition.number, None)
            self._begin(partition, now_ms)
        if self._turn != partition.number:
            self._refused.setdefault(partition.number)
        return self._turn == partition.number

    def took(self, number: int, records: int, now_ms: int) -> None:
        """How many records a partition took in. Whoever has none when its turn begins lets another
        one go on; later it is waited for a while.
        """
        if records:
            self._took_ms = now_ms
        if self._turn != number:
            return
        if records:
            self._grew_ms, self._grew = now_ms, True
        elif not self._grew:
            self._turn = None
