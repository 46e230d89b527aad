"""Which delivery is sent next, and which must wait for its turn.

Endpoints take turns. First attempts come before retries. There is a limit of deliveries in flight
for each endpoint, and one for all.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from meterline import limits
from meterline.delivery import Address, Due, SendGrant

_NO_LIMIT: Final[Mapping[Address, int]] = {}


@dataclass(frozen=True, slots=True)
class Caps:
    """How many deliveries one dispatcher has under way at most: in all, to one endpoint, and to one
    that has answered nothing of late.
    """

    total: int = limits.DELIVERIES_IN_FLIGHT_MAX
    endpoint: int = limits.ENDPOINT_IN_FLIGHT_MAX
    unproven: int = limits.ENDPOINT_UNPROVEN_MAX
    faults: int = limits.ENDPOINT_FAULTS  # deliveries in a row that may fail before it is out

    @property
    def reserve(self) -> int:
        """The last places, for endpoints that hold none."""
        return self.total // limits.PLACES_RESERVED_SHARE

    @property
    def faults_ahead(self) -> int:
        """After so many faults in a row nothing more is begun ahead of their record: with those
        under way they are what makes an endpoint out.
        """
        return max(1, self.faults - self.endpoint)

    def may_begin(self, under_way: int, of_endpoint: int) -> bool:
        """Whether an endpoint with so many under way, of so many in all, may have one more."""
        most = self.total - self.reserve if of_endpoint else self.total
        return under_way < most and of_endpoint < self.endpoint


@dataclass(frozen=True, slots=True)
class Load:
    """What a dispatcher has in hand.

    `claimed`, by endpoint: what waits, is under way, or is answered and not recorded yet;
    `under_way`: how many of all these; `bytes`: of their bodies. `ahead`, by endpoint: how many may
    be claimed beyond its cap; `proven`: those that answered of late; `failing`: those that fail for
    all just now.
    """

    claimed: Mapping[Address, int] = field(default_factory=dict)
    under_way: int = 0
    bytes: int = 0
    ahead: Mapping[Address, int] = field(default_factory=dict)
    proven: Collection[Address] = frozenset()
    failing: Collection[Address] = frozenset()  # nothing more is claimed of these

    @property
    def ahead_free(self) -> int:
        """How many more may be claimed without a place."""
        most = min(sum(self.ahead.values()), limits.DELIVERIES_AHEAD_MAX)
        return max(0, most - (sum(self.claimed.values()) - self.under_way))


def grant_sends(
    due: Sequence[Due],
    load: Load,
    caps: Caps,
    now_ms: int,
    slots: Mapping[Address, int] = _NO_LIMIT,
) -> list[SendGrant]:
    """Share the free places over what is due, the longest waiting first, and then what may be
    claimed ahead.

    A place goes to the endpoint that holds the fewest, and there to its reports in turns. So one
    that hangs holds few places while others want some, and never more than its cap; a report with
    a million deliveries gets as many as one with three. The last quarter of the places goes to
    endpoints that hold none. Endpoints with first tries come before those that have retries only,
    until these have waited for `RETRY_WAIT_MS`. `slots` is how many the pace of an endpoint leaves,
    where it has one.
    """
    queues = _queues(due, now_ms)
    places = {it: _places(it, load, caps) for it in queues}
    rooms = {
        it: _room(queue[0], load, places[it], caps.faults, now_ms, slots)
        for it, queue in queues.items()
    }
    turns = [
        (_rank(queue[0], now_ms), load.claimed.get(address, 0), place, address)
        for place, (address, queue) in enumerate(queues.items())
        if rooms[address]
    ]
    heapify(turns)
    given: dict[Address, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    free, ahead_free = max(0, caps.total - load.under_way), load.ahead_free
    while turns and free + ahead_free:
        rank, held, place, address = heappop(turns)
        if held < places[address] and free > (caps.reserve if held else 0):
            free -= 1
        elif ahead_free and address in load.ahead:
            ahead_free -= 1
        else:
            continue
        queue = queues[address]
        counts[queue[given[address] % len(queue)].report_id] += 1
        given[address] += 1
        if given[address] < rooms[address]:
            heappush(turns, (rank, held + 1, place, address))
    reports = {it.report_id: it for it in due}
    return [_grant(reports[name], count, caps) for name, count in counts.items()]


def _grant(due: Due, count: int, caps: Caps) -> SendGrant:
    retries = due.health.retries(count, caps.faults) if due.others else 0
    return SendGrant(due.report_id, count, due.health.out, due.others, retries)


def _places(address: Address, load: Load, caps: Caps) -> int:
    """How many places an endpoint may hold."""
    return caps.endpoint if address in load.proven else min(caps.unproven, caps.endpoint)


def _room(
    due: Due, load: Load, places: int, faults_max: int, now_ms: int, slots: Mapping[Address, int]
) -> int:
    """How many more of an endpoint's deliveries may be claimed."""
    if due.address in load.failing:
        return 0
    cap = places + load.ahead.get(due.address, 0)
    room = due.health.room(load.claimed.get(due.address, 0), cap, faults_max, now_ms)
    return min(room, slots.get(due.address, cap))


def _queues(due: Sequence[Due], now_ms: int) -> dict[Address, list[Due]]:
    """By endpoint, its reports: the ones that go first at the front, otherwise as they were."""
    queues: dict[Address, list[Due]] = defaultdict(list)
    for it in due:
        queues[it.address].append(it)
    for queue in queues.values():
        queue.sort(key=lambda it: _rank(it, now_ms))
    return queues


def _rank(due: Due, now_ms: int) -> int:
    """0 for what goes first."""
    return int(not due.first and now_ms - due.due_at_ms < limits.RETRY_WAIT_MS)
