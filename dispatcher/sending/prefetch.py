"""How far ahead deliveries are claimed, and those that wait for a place."""

from collections import Counter, deque
from collections.abc import Mapping

from dispatcher.sending.fairness import Caps
from meterline import limits
from meterline.delivery import Address, ClaimedDelivery


class Answered:
    """What endpoints answered of late; time is an argument. `AHEAD_TIMES` as many deliveries may
    wait beside those under way: what a quick endpoint answers is claimed and recorded in large
    portions, each one transaction, and one that hangs is never waited for by more than its cap.
    A refusal counts as well: it says how quick the endpoint is.
    """

    def __init__(self) -> None:
        self._answered: deque[tuple[int, Address]] = deque()
        self._counts: Counter[Address] = Counter()
        self._last_ms: dict[Address, int] = {}

    def add(self, address: Address, now_ms: int) -> None:
        """An endpoint answered a delivery."""
        self._answered.append((now_ms, address))
        self._counts[address] += 1
        self._last_ms.pop(address, None)
        self._last_ms[address] = now_ms  # the latest is the last

    def forget(self, address: Address) -> None:
        """An endpoint is not what it was."""
        self._last_ms.pop(address, None)
        if self._counts.pop(address, 0):
            self._answered = deque(it for it in self._answered if it[1] != address)

    def counts(self, now_ms: int) -> dict[Address, int]:
        """How many each answered within `AHEAD_MS`."""
        while self._answered and self._answered[0][0] < now_ms - limits.AHEAD_MS:
            _, address = self._answered.popleft()
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]
        return dict(self._counts)

    def proven(self, now_ms: int) -> set[Address]:
        """Those that answered something within `PROVEN_MS`."""
        while self._last_ms:
            address, last_ms = next(iter(self._last_ms.items()))
            if last_ms >= now_ms - limits.PROVEN_MS:
                break
            del self._last_ms[address]
        return set(self._last_ms)


class Waiting:
    """Claimed deliveries without a place, by endpoint, in the order of their claims."""

    def __init__(self) -> None:
        self._of: dict[Address, deque[tuple[int, ClaimedDelivery]]] = {}

    def add(self, claimed: ClaimedDelivery, now_ms: int) -> None:
        """It was claimed."""
        self._of.setdefault(claimed.address, deque()).append((now_ms, claimed))

    def begin(self, under_way: Mapping[Address, int], caps: Caps) -> ClaimedDelivery | None:
        """Take what may begin now: of the endpoint with the fewest under way. None: nothing may."""
        total = sum(under_way.values())
        found, fewest = None, caps.endpoint
        for address in self._of:
            held = under_way.get(address, 0)
            if held < fewest and caps.may_begin(total, held):
                found, fewest = address, held
        if found is None:
            return None
        _, claimed = self._of[found].popleft()
        self._drop_empty(found)
        return claimed

    def count(self, address: Address) -> int:
        """How many of an endpoint there are."""
        return len(self._of.get(address, ()))

    def of(self, address: Address) -> list[ClaimedDelivery]:
        """Take all of an endpoint."""
        return [claimed for _, claimed in self._of.pop(address, ())]

    def older_than(self, at_ms: int) -> list[ClaimedDelivery]:
        """Take all that were claimed before an instant."""
        found = []
        for address, queue in list(self._of.items()):
            while queue and queue[0][0] < at_ms:
                found.append(queue.popleft()[1])
            self._drop_empty(address)
        return found

    def all(self) -> list[ClaimedDelivery]:
        """Take all."""
        return [claimed for address in list(self._of) for claimed in self.of(address)]

    def _drop_empty(self, address: Address) -> None:
        if not self._of[address]:
            del self._of[address]
