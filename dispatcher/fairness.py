"""Who may send next: turns over endpoints, first tries before retries, a cap for each endpoint and
one for all.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from meterline import limits
from meterline.sending import Address, Due

_NONE: Final[Mapping[Address, int]] = {}


@dataclass(frozen=True, slots=True)
class Caps:
    """How many deliveries one dispatcher has in flight at most."""

    total: int = limits.DELIVERIES_IN_FLIGHT_MAX
    endpoint: int = limits.ENDPOINT_IN_FLIGHT_MAX


@dataclass(frozen=True, slots=True)
class Allotment:
    """How many deliveries of a report may be claimed now; `probe`: of an endpoint that is out."""

    report_id: str
    count: int
    probe: bool = False


def allot(
    due: Sequence[Due],
    in_flight: Mapping[Address, int],
    caps: Caps,
    now_ms: int,
    slots: Mapping[Address, int] = _NONE,
    ahead: Mapping[Address, int] = _NONE,
) -> list[Allotment]:
    """Share the free places over what is due, the longest waiting first.

    A place goes to the endpoint that holds the fewest, and there to its reports in turns. So one
    that hangs holds few places while others want some, and never more than its cap; a report with
    a million deliveries gets as many as one with three. Endpoints with first tries come before
    those that have retries only, until these have waited for `RETRY_WAIT_MS`. `slots` is how many
    the pace of an endpoint leaves, where it has one; `ahead` how many may be claimed beyond its
    cap.
    """
    queues = _queues(due, now_ms)
    rooms = {}
    for address, queue in queues.items():
        cap = caps.endpoint + ahead.get(address, 0)
        room = queue[0].health.room(in_flight.get(address, 0), cap, now_ms)
        rooms[address] = min(room, slots.get(address, cap))
    turns = [
        (_rank(queue[0], now_ms), in_flight.get(address, 0), place, address)
        for place, (address, queue) in enumerate(queues.items())
        if rooms[address]
    ]
    heapify(turns)
    given: dict[Address, int] = defaultdict(int)
    counts: dict[Due, int] = defaultdict(int)
    for _ in range(places(caps, ahead) - sum(in_flight.values())):
        if not turns:
            break
        rank, held, place, address = heappop(turns)
        queue = queues[address]
        counts[queue[given[address] % len(queue)]] += 1
        given[address] += 1
        if given[address] < rooms[address]:
            heappush(turns, (rank, held + 1, place, address))
    return [Allotment(it.report_id, count, it.health.out) for it, count in counts.items()]


def places(caps: Caps, ahead: Mapping[Address, int] = _NONE) -> int:
    """How many deliveries may be claimed at once."""
    return caps.total + min(sum(ahead.values()), limits.DELIVERIES_AHEAD_MAX)


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
