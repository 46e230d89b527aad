"""What the whole installation has still to report: runs that are due, deliveries that are owed.
With its port.
"""

from typing import NamedTuple, Protocol


class Backlog(NamedTuple):
    """Of all namespaces together. `runs_late` are those of the due ones that are due since before
    an instant; the oldest run that owes a delivery was decided at `owed_since_ms`.
    """

    runs_due: int
    runs_late: int
    owed: int
    owed_since_ms: int | None
    endpoints_out: int


class BacklogStore(Protocol):
    """What is asked for metrics: a few sums, by indexes."""

    async def backlog(self, now_ms: int, late_ms: int) -> Backlog:
        """As of `now_ms`; what is due since before `late_ms` is late."""
        ...
