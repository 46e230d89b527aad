"""The rate limit of an endpoint (`endpoint_per_second`): even distances, never a burst."""

from collections.abc import Iterable
from math import ceil

from meterline import limits
from meterline.delivery import Address


class RateLimit:
    """The next free instant of each endpoint; time is an argument. `per_second` is how many
    deliveries one dispatcher begins to one endpoint in a second at most; None: no limit.
    """

    def __init__(self, per_second: float | None = None) -> None:
        self._apart_ms = None if per_second is None else 1_000 / per_second
        self._next_ms: dict[Address, float] = {}

    def slots(self, addresses: Iterable[Address], now_ms: int) -> dict[Address, int]:
        """How many deliveries may be claimed now for each endpoint: those whose turn comes within
        `RATE_AHEAD_MS`.
        """
        if self._apart_ms is None:
            return {}
        self._forget(now_ms)
        until_ms = now_ms + limits.RATE_AHEAD_MS
        return {
            address: self._slots(self._next_ms.get(address, now_ms), until_ms)
            for address in addresses
        }

    def take(self, address: Address, now_ms: int) -> int:
        """Take the next turn; milliseconds until it comes."""
        if self._apart_ms is None:
            return 0
        turn_ms = max(now_ms, self._next_ms.get(address, now_ms))
        self._next_ms[address] = turn_ms + self._apart_ms
        return round(turn_ms - now_ms)

    def _slots(self, next_ms: float, until_ms: int) -> int:
        assert self._apart_ms is not None, "asked only where a pace is kept"
        if next_ms >= until_ms:
            return 0
        return ceil((until_ms - next_ms) / self._apart_ms)

    def _forget(self, now_ms: int) -> None:
        """What is past holds nothing up: no more is kept than was sent of late."""
        self._next_ms = {at: next_ms for at, next_ms in self._next_ms.items() if next_ms > now_ms}
