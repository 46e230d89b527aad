"""How far ahead deliveries are claimed, and which of them may be under way."""

from asyncio import Semaphore
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dispatcher.fairness import Caps
from meterline import limits
from meterline.sending import Address


class Ahead:
    """As many deliveries as an endpoint took of late may be claimed beside those under way: what a
    quick one takes is claimed and recorded in large portions, each one transaction, and one that
    hangs is waited for by no more than its cap. Time is an argument.
    """

    def __init__(self) -> None:
        self._taken: deque[tuple[int, Address]] = deque()
        self._counts: Counter[Address] = Counter()

    def took(self, address: Address, now_ms: int) -> None:
        """An endpoint took a delivery."""
        self._taken.append((now_ms, address))
        self._counts[address] += 1

    def counts(self, now_ms: int) -> dict[Address, int]:
        """How many may be claimed ahead now, by endpoint; in all no more than
        `DELIVERIES_AHEAD_MAX`.
        """
        while self._taken and self._taken[0][0] < now_ms - limits.AHEAD_MS:
            _, address = self._taken.popleft()
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]
        return {
            address: min(count, limits.DELIVERIES_AHEAD_MAX)
            for address, count in self._counts.items()
        }


class Places:
    """The places of those under way: so many for each endpoint, so many for all, in the order in
    which they were asked for.
    """

    def __init__(self, caps: Caps) -> None:
        self._cap = caps.endpoint
        self._all = Semaphore(caps.total)
        self._of: dict[Address, Semaphore] = {}
        self._asking: Counter[Address] = Counter()

    @asynccontextmanager
    async def place(self, address: Address) -> AsyncIterator[None]:
        """Have a place during the block. Who waits for his endpoint keeps no place of all."""
        self._asking[address] += 1
        try:
            async with self._of.setdefault(address, Semaphore(self._cap)), self._all:
                yield
        finally:
            self._asking[address] -= 1
            if not self._asking[address]:
                del self._asking[address], self._of[address]
