"""Retention: which periods of a table may be dropped, and the notice that is given before (pure).

A period is a partition of a table of the usage store: all its rows with append times of one week or
month; of usage by minute, with times of usage of one month or year. It is dropped as a whole. The
control store has a notice of it at least a day before, so the comparison of both stores
(`integrity.py`) knows what is missing on purpose.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from meterline.limits import RETENTION_NOTICE_MS

EVENTS: Final = "events"
REJECTS: Final = "rejects"
SEEN: Final = "seen"
TALLIES: Final = "tallies"
MEMBERS: Final = "members"
BY_PERIOD: Final = (EVENTS, REJECTS, SEEN, TALLIES, MEMBERS)


class Period(NamedTuple):
    """Rows of a table that were appended in [from_ms, to_ms). No slice has rows in two of them. Of
    usage by minute it is the time of usage, and a slice may have rows in any.
    """

    table: str
    name: str  # names of one table sort by time
    from_ms: int
    to_ms: int


class Reach(NamedTuple):
    """How far the rows of a period reach."""

    ends: Mapping[int, int]  # by partition of the current log, the offset after the last row
    latest_ms: int  # greatest time of an event; 0 where no usage is made from the table


class Notice(NamedTuple):
    """Says that a period, and everything older in its table, is not kept."""

    table: str
    period: str
    before_ms: int  # rows that were appended before are not kept
    latest_ms: int  # of what is not kept, the greatest time of an event
    catalogue: int  # revisions up to this version had counted all of it
    given_at_ms: int
    begun_at_ms: int | None = None  # since when rows of usage by minute may be gone


class Kept(NamedTuple):
    """What is kept of a table: periods after this one, rows appended at this instant or later."""

    after: str
    from_ms: int


class SealedEnd(NamedTuple):
    """The end of the last sealed slice of a partition, and its append time."""

    offset: int
    append_ms: int


@dataclass(frozen=True, slots=True)
class RetentionTerms:
    """How long rows of each table are kept; None: for ever."""

    events_ms: int | None = None
    refusals_ms: int | None = None
    seen_ms: int | None = None
    minutes_ms: int | None = None

    def of(self, table: str) -> int | None:
        """How long rows of this table are kept."""
        return {
            EVENTS: self.events_ms,
            REJECTS: self.refusals_ms,
            SEEN: self.seen_ms,
            TALLIES: self.minutes_ms,
            MEMBERS: self.minutes_ms,
        }.get(table)

    def seals_before(self, newest_ms: int) -> int:
        """Seals of slices that were appended earlier may be added up: nothing of them is kept that
        is not kept for ever. 0 where events are.
        """
        if self.events_ms is None:
            return 0
        ages = (self.events_ms, self.refusals_ms, self.seen_ms)
        return newest_ms - max(age_ms for age_ms in ages if age_ms is not None)


def newest_counted(now_ms: int, sealed: Mapping[int, SealedEnd]) -> int:
    """The instant that ages are measured from: the newest sealed append time, but no later than
    now. So a clock that runs ahead makes nothing old, and neither does a log without new events.
    """
    return min(now_ms, max((end.append_ms for end in sealed.values()), default=0))


def expired(periods: Iterable[Period], terms: RetentionTerms, newest_ms: int) -> list[list[Period]]:
    """By table, the periods that are as a whole older than its term, the oldest first."""
    old = [
        period
        for period in sorted(periods)
        if (age_ms := terms.of(period.table)) is not None and period.to_ms <= newest_ms - age_ms
    ]
    return [list(those) for _, those in groupby(old, key=lambda period: period.table)]


def is_sealed(reach: Reach, sealed: Mapping[int, SealedEnd]) -> bool:
    """Whether every row lies in a sealed slice."""
    return all(
        partition in sealed and end <= sealed[partition].offset
        for partition, end in reach.ends.items()
    )


def may_drop(notice: Notice, now_ms: int, wait_ms: int = RETENTION_NOTICE_MS) -> bool:
    """Whether the notice was given long enough ago. Copies of both stores that were made within
    that time agree.
    """
    return now_ms - notice.given_at_ms >= wait_ms


def kept_of(notices: Iterable[Notice]) -> dict[str, Kept]:
    """By table, what is kept of it; a table without notices is kept as a whole."""
    found: dict[str, Kept] = {}
    for one in notices:
        there = found.get(one.table, Kept("", 0))
        found[one.table] = Kept(max(there.after, one.period), max(there.from_ms, one.before_ms))
    return found


def counted_from(notices: Iterable[Notice], revision: int) -> int:
    """Events appended before this instant were not kept any more when a revision of a meter was
    made, so it does not count them; 0: it counts all.
    """
    lost = (one.before_ms for one in notices if one.table == EVENTS and one.catalogue < revision)
    return max(lost, default=0)


def complete_times_from(notices: Sequence[Notice], revision: int | None = None) -> int:
    """Events of this time or later are all kept; 0: all are. With a revision of a meter: those that
    it could not count, because they were not kept any more when it was made, are all before.
    """
    return max(
        (
            max(one.before_ms, one.latest_ms + 1)
            for one in notices
            if one.table == EVENTS and (revision is None or one.catalogue < revision)
        ),
        default=0,
    )


class UsagePeriods(Protocol):
    """The usage store's side."""

    async def periods(self) -> list[Period]:
        """The periods that are there, of tables that have any."""
        ...

    async def reach(self, period: Period, log: int) -> Reach:
        """How far the rows of a period reach."""
        ...

    async def drop(self, period: Period) -> None:
        """Drop it; where it is gone already, nothing happens."""
        ...


class RetentionLedger(Protocol):
    """The control store's side."""

    async def sealed_ends(self, log: int) -> dict[int, SealedEnd]:
        """By partition, where the last sealed slice ends."""
        ...

    async def give_notice(
        self, period: Period, reach: Reach, log: int, now_ms: int
    ) -> Notice | str:
        """Record that a period is not kept, and return the notice: the first one stands. Returns
        why it must be kept for now, where something still needs its events.
        """
        ...

    async def begin_drop(self, period: Period, reach: Reach, log: int, now_ms: int) -> bool:
        """Ask again whether a period with a notice may go, and record that its rows may be gone
        from now on: no block is withdrawn that was made of them. False where it must be kept.
        """
        ...

    async def notices(self) -> list[Notice]:
        """All notices, by table and period."""
        ...

    async def sum_seals(self, log: int, before_ms: int, limit: int) -> int:
        """Add up seals of slices that were appended before an instant, as far as nothing needs them
        one by one; at most so many sums. How many seals were replaced by sums.
        """
        ...
