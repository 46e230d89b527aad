"""Reports, the scheduled usage syncs of the contract (2.2): what is reported, when, and where
to.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from meterline.delivery import NO_HEADERS, SealedHeaders
from meterline.limits import EVENT_TIME_MAX_MS, EVENT_TIME_MIN_MS, REPORT_SLUG_CHARS_MAX
from meterline.report.filter import EVERYTHING, ReportFilter
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
    """Windows of one length that tile time from `start_at_ms`, any instant: usage is cut to the
    millisecond.
    """

    interval: Interval
    start_at_ms: int

    def __post_init__(self) -> None:
        if not EVENT_TIME_MIN_MS <= self.start_at_ms <= EVENT_TIME_MAX_MS:
            message = "must not be before 1970-01-01T00:00:00Z nor after 2100-01-01T00:00:00Z"
            raise ValueError(message)

    def first_window_ms(self, created_at_ms: int) -> int:
        """Start of the first window that ends after a report was made."""
        length_ms = self.interval.length_ms
        passed = max(0, (created_at_ms - self.start_at_ms) // length_ms)
        return self.start_at_ms + passed * length_ms

    def border_ms(self, at_ms: int) -> int:
        """The first border between two windows at or after an instant."""
        length_ms = self.interval.length_ms
        return self.start_at_ms + max(0, -((self.start_at_ms - at_ms) // length_ms)) * length_ms

    def takeover_ms(self, other: "Schedule", earliest_ms: int) -> int | None:
        """Where another schedule can follow this one, so that neither gap nor overlap comes of it.

        That is the first border of both at or after `earliest_ms` and the other's start; None where
        they have none in common.
        """
        longer, shorter = self, other
        if other.interval.length_ms >= self.interval.length_ms:
            longer, shorter = other, self
        # A border of the longer windows is one of the shorter ones always or never.
        at_ms = longer.border_ms(max(earliest_ms, other.start_at_ms))
        apart_ms = at_ms - shorter.start_at_ms
        return None if apart_ms % shorter.interval.length_ms else at_ms


@dataclass(frozen=True, slots=True)
class Takeover:
    """A schedule that follows the one in force at an instant that is a border of both."""

    schedule: Schedule
    at_ms: int


class ReportState(StrEnum):
    """Where a report stands. Deleted reports keep their last state and have
    an instant.
    """

    ACTIVE = "active"
    PAUSED = "paused"  # by its owner: no runs are made, nothing is sent
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


class Revisions(StrEnum):
    """What becomes of corrections that late usage makes to what was reported."""

    RECORD = "record"  # they are kept and shown
    SEND = "send"  # and sent, as deliveries that replace those of before


@dataclass(frozen=True, slots=True)
class Report:
    """A report as stored. What is secret is sealed: only a `SecretBox` opens it.

    `endpoint` is the URL without user information, fit to be shown; `user_info_sealed` is the
    `user:password` that was in it, if any, `headers` what deliveries carry besides. `group_by`
    names dimensions of the meter. `updated_at_ms` grows with every change of the definition, so it
    names one.
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
    updated_at_ms: int
    filter: ReportFilter = EVERYTHING
    user_info_sealed: bytes | None = None
    state: ReportState = ReportState.ACTIVE
    state_reason: str = ""
    takeover: Takeover | None = None
    revisions: Revisions = Revisions.RECORD
    headers: SealedHeaders = NO_HEADERS
    grace_ms: int | None = None  # of its runs; None: that of the installation
    skip_until_ms: int | None = None  # windows that end by then and have no run yet are skipped

    def __post_init__(self) -> None:
        if not is_slug(self.slug):
            message = f"no slug: {self.slug!r}"
            raise ValueError(message)

    @property
    def schedule_asked(self) -> Schedule:
        """The schedule that was asked for last, in force or to be."""
        return self.schedule if self.takeover is None else self.takeover.schedule

    def window_end_ms(self, from_ms: int) -> int:
        """End of the window that starts at a border."""
        schedule = self.schedule
        if self.takeover is not None and from_ms >= self.takeover.at_ms:
            schedule = self.takeover.schedule
        return from_ms + schedule.interval.length_ms

    def ended_windows(self, from_ms: int, now_ms: int) -> int:
        """How many windows from a border on have ended."""
        ended = 0
        if self.takeover is not None and from_ms < self.takeover.at_ms:
            until_ms = min(now_ms, self.takeover.at_ms)
            ended = max(0, (until_ms - from_ms) // self.schedule.interval.length_ms)
            from_ms = self.takeover.at_ms
        length_ms = self.window_end_ms(from_ms) - from_ms
        return ended + max(0, (now_ms - from_ms) // length_ms)

    def border_after_ms(self, from_ms: int, windows: int) -> int:
        """The border that lies so many windows after another one."""
        if self.takeover is not None and from_ms < self.takeover.at_ms:
            length_ms = self.schedule.interval.length_ms
            before = min(windows, (self.takeover.at_ms - from_ms) // length_ms)
            from_ms += before * length_ms
            windows -= before
        return from_ms + windows * (self.window_end_ms(from_ms) - from_ms)


class Unreadable(NamedTuple):
    """A stored report, or a run of it, that this build cannot read: a newer build wrote it, or
    somebody did by hand. It holds up no other one.
    """

    report_id: str
    namespace: str
    report: str  # its slug
    reason: str


class RunUnreadable(Exception):
    """An earlier run of the window cannot be read, so this one cannot be made now."""


@dataclass(frozen=True, slots=True)
class ReportChange:
    """What of a report's definition is to change; None stays as it is. Slug and meter never do.

    A new endpoint comes with its own user information and headers or none; the same endpoint
    without any keeps what it has, unless `drops_user_info`. `drops_grace` gives it that of the
    installation again.
    """

    schedule: Schedule | None = None
    group_by: tuple[str, ...] | None = None
    filter: ReportFilter | None = None
    endpoint: str | None = None
    user_info_sealed: bytes | None = None
    drops_user_info: bool = False
    revisions: Revisions | None = None
    headers: SealedHeaders | None = None
    grace_ms: int | None = None
    drops_grace: bool = False


def changed(report: Report, change: ReportChange, planned_until_ms: int, now_ms: int) -> Report:
    """The report with a change; the very same where nothing changes.

    Windows before `planned_until_ms` have their runs: another schedule takes over behind them, at a
    border of both. Raises `ValueError` where there is none, with words.
    """
    after = report
    if change.schedule is not None:
        after = replace(after, takeover=_takeover(report, change.schedule, planned_until_ms))
    if change.group_by is not None:
        after = replace(after, group_by=change.group_by)
    if change.filter is not None:
        after = replace(after, filter=change.filter)
    if change.endpoint is not None:
        kept = change.endpoint == report.endpoint and not change.drops_user_info
        user_info = change.user_info_sealed or (report.user_info_sealed if kept else None)
        after = replace(after, endpoint=change.endpoint, user_info_sealed=user_info)
        if change.headers is not None or change.endpoint != report.endpoint:
            after = replace(after, headers=change.headers or NO_HEADERS)
    if change.revisions is not None:
        after = replace(after, revisions=change.revisions)
    if change.grace_ms is not None or change.drops_grace:
        after = replace(after, grace_ms=change.grace_ms)
    if after == report:
        return report
    # later than any instant before, whatever the clock says: it names this definition
    after = replace(after, updated_at_ms=max(now_ms, report.updated_at_ms + 1))
    return in_force(after, planned_until_ms)


def in_force(report: Report, planned_until_ms: int) -> Report:
    """The report with the schedule of the next window that is to be planned."""
    takeover = report.takeover
    if takeover is None or planned_until_ms < takeover.at_ms:
        return report
    return replace(report, schedule=takeover.schedule, takeover=None)


def _takeover(report: Report, schedule: Schedule, planned_until_ms: int) -> Takeover | None:
    if report.takeover is not None and schedule == report.takeover.schedule:
        return report.takeover
    if schedule == report.schedule:
        return None  # what was to follow shall not
    at_ms = report.schedule.takeover_ms(schedule, planned_until_ms)
    if at_ms is None:
        message = (
            "windows of the new schedule never begin where one of the present schedule ends, so"
            " usage would be missing or there twice; choose a start on the present grid, or make"
            " another report"
        )
        raise ValueError(message)
    return Takeover(schedule, at_ms)


def is_slug(text: str) -> bool:
    """Whether a text can be the slug of a report."""
    return _SLUG.fullmatch(text) is not None
