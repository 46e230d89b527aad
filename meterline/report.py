"""Reports, the scheduled usage syncs of the contract (2.2): what is reported, when, and where
to.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from meterline.limits import EVENT_TIME_MAX_MS, EVENT_TIME_MIN_MS, REPORT_SLUG_CHARS_MAX
from meterline.report_filter import EVERYTHING, ReportFilter
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS

_SLUG: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{REPORT_SLUG_CHARS_MAX}}}", re.ASCII)


class Interval(StrEnum):
    """How often a report runs, in the contract's shorthand (2.2). Days are days of UTC."""

    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"

    @property
    def length_ms(self) -> int:
        """Length of a window."""
        return _LENGTH_MS[self]


_LENGTH_MS: Final = {
    Interval.MINUTE: MINUTE_MS,
    Interval.HOUR: HOUR_MS,
    Interval.DAY: DAY_MS,
}
INTERVALS: Final = {
    "1m": Interval.MINUTE,
    "1h": Interval.HOUR,
    "1d": Interval.DAY,
    "PT1M": Interval.MINUTE,
    "PT1H": Interval.HOUR,
    "P1D": Interval.DAY,
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """Windows of one length that tile time from `start_at_ms`, a whole minute."""

    interval: Interval
    start_at_ms: int

    def __post_init__(self) -> None:
        if self.start_at_ms % MINUTE_MS:
            message = "startAt is a whole minute"
            raise ValueError(message)
        if not EVENT_TIME_MIN_MS <= self.start_at_ms <= EVENT_TIME_MAX_MS:
            message = "startAt lies between 1970 and 2100"
            raise ValueError(message)

    def first_window_ms(self, created_at_ms: int) -> int:
        """Start of the first window that ends after a report was made (design.md section 7)."""
        length_ms = self.interval.length_ms
        passed = max(0, (created_at_ms - self.start_at_ms) // length_ms)
        return self.start_at_ms + passed * length_ms


class ReportState(StrEnum):
    """Where a report stands (design.md section 7). Deleted reports keep their last state and have
    an instant.
    """

    ACTIVE = "active"
    PAUSED = "paused"  # by its owner: no runs are made
    PARKED = "parked"  # its endpoint said 410: runs are made and kept as owed, nothing is sent


class ReportMove(StrEnum):
    """What moves a report."""

    PAUSE = "pause"
    PARK = "park"
    RESUME = "resume"


REPORT_MOVES: Final = {
    (ReportState.ACTIVE, ReportMove.PAUSE): ReportState.PAUSED,
    (ReportState.ACTIVE, ReportMove.PARK): ReportState.PARKED,
    (ReportState.PARKED, ReportMove.PAUSE): ReportState.PAUSED,
    (ReportState.PAUSED, ReportMove.RESUME): ReportState.ACTIVE,
    (ReportState.PARKED, ReportMove.RESUME): ReportState.ACTIVE,
}


@dataclass(frozen=True, slots=True)
class Report:
    """A report as stored. What is secret is sealed: only a `SecretBox` opens it.

    `endpoint` is the URL without user information, fit to be shown; `user_info_sealed` is the
    `user:password` that was in it, if any. `group_by` names dimensions of the meter.
    """

    id: str
    namespace: str
    slug: str
    meter_id: str
    schedule: Schedule
    group_by: tuple[str, ...]
    endpoint: str
    signing_secret_sealed: bytes
    created_at_ms: int
    filter: ReportFilter = EVERYTHING
    user_info_sealed: bytes | None = None
    state: ReportState = ReportState.ACTIVE
    state_reason: str = ""

    def __post_init__(self) -> None:
        if not is_slug(self.slug):
            message = f"no slug: {self.slug!r}"
            raise ValueError(message)


def is_slug(text: str) -> bool:
    """Whether a text can be the slug of a report (design.md section 7)."""
    return _SLUG.fullmatch(text) is not None
