"""Who may send next: a cap for each endpoint and one for all, taken in turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meterline.report_ports import Due


@dataclass(frozen=True, slots=True)
class Allotment:
    """How many deliveries of a report may be claimed now."""

    report_id: str
    endpoint: str
    count: int


def allot(
    due: Sequence[Due], in_flight: Mapping[str, int], total_max: int, endpoint_max: int
) -> list[Allotment]:
    """Share the free places over reports, one at a time in turns, in the order given.

    `in_flight` counts by endpoint. So one receiver that hangs holds `endpoint_max` places and
    no more, and a report with a million deliveries gets as many as one with three.
    """
    room = {it.endpoint: endpoint_max - in_flight.get(it.endpoint, 0) for it in due}
    free = total_max - sum(in_flight.values())
    counts = dict.fromkeys(due, 0)
    taken = True
    while free > 0 and taken:
        taken = False
        for it in due:
            if free > 0 and room[it.endpoint] > 0:
                counts[it] += 1
                room[it.endpoint] -= 1
                free -= 1
                taken = True
    return [Allotment(it.report_id, it.endpoint, count) for it, count in counts.items() if count]
