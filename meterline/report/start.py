"""When the run of a window starts: its grace after the window, and its place among many that end
in one minute (docs/architecture.md, "The dispatcher").
"""

from dataclasses import dataclass
from hashlib import blake2b

from meterline import limits
from meterline.report.report import Report


@dataclass(frozen=True, slots=True)
class StartTerms:
    """What an installation says of the start of runs. `grace_ms` is that of reports that have none
    of their own; `grace_ms_min` is the least that one may have, for events may be under way so
    long; `spread_ms` bounds how far runs that are due at once are drawn apart, 0 for not at all.
    """

    grace_ms: int = limits.GRACE_MS
    grace_ms_min: int = 0
    spread_ms: int = 0

    def grace_of_ms(self, report: Report) -> int:
        """How long a run of a report waits after its window for events."""
        own_ms = self.grace_ms if report.grace_ms is None else report.grace_ms
        return max(own_ms, self.grace_ms_min)

    def offset_ms(self, report: Report, window_ms: int) -> int:
        """How much later than its grace a run by schedule starts: ever the same for a report and a
        length of window, so that its runs keep their distance.
        """
        bound_ms = min(self.spread_ms, window_ms // limits.START_SPREAD_SHARE)
        if bound_ms <= 0:
            return 0
        digest = blake2b(report.id.encode(), digest_size=8).digest()
        return int.from_bytes(digest) % bound_ms

    def starts_at_ms(self, report: Report, from_ms: int, to_ms: int) -> int:
        """When the run by schedule of a window may start."""
        return to_ms + self.grace_of_ms(report) + self.offset_ms(report, to_ms - from_ms)
