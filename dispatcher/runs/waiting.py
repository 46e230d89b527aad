"""Runs that wait until everything for them is counted, and which of them can start.

How long a run waits for late events is in `schedule.py` (`complete_needed_ms`). Why a delivery
waits is in `dispatcher/sending/fairness.py`. Runs are read a page at a time, so that those that
cannot start yet do not delay others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dispatcher.runs.failing import Unread
from dispatcher.runs.schedule import complete_needed_ms
from meterline import limits
from meterline.meter import Catalogue, Meter, answering
from meterline.report import (
    Claim,
    Report,
    ReportState,
    ReportStore,
    Run,
    StartTerms,
    Trigger,
    subjects_asked,
)
from meterline.usage import ProgressStore, UsageQuery


@dataclass(slots=True)
class Walk:
    """How far turns have come through the runs that wait: `after` is the report and the trigger
    that a page ended with, None at the front.

    By report, not by window: a report has one place for each trigger, however many windows it has
    to make up for, so every walk comes to its end and round to all of them. A page has `runs_max`
    runs, and a turn `pages_max` pages.
    """

    after: tuple[str, str] | None = None
    runs_max: int = limits.UNDECIDED_RUNS_MAX
    pages_max: int = limits.UNDECIDED_PAGES_MAX
    unread: Unread = field(default_factory=Unread)

    async def page(self, reports: ReportStore, now_ms: int) -> list[tuple[Run, Report]]:
        """The next runs that wait; after the last of them it begins at the front again."""
        page = await reports.undecided(now_ms, self.runs_max, self.after)
        self.after = page.after
        self.unread.tell(page.unreadable, now_ms)
        return page.found


@dataclass(frozen=True, slots=True)
class Ready:
    """A run whose usage is complete, with what it takes to make it."""

    run: Run
    report: Report
    meter: Meter
    complete_until_ms: int

    @property
    def query(self) -> UsageQuery:
        """What it asks for."""
        group_by = ("subject", *self.report.group_by)
        subjects = subjects_asked(self.report.filter, limits.SUBJECTS_ASKED_BYTES_MAX)
        return UsageQuery(
            self.meter, self.run.from_ms, self.run.to_ms, group_by=group_by, subjects=subjects
        )

    def is_still(self, claim: Claim, start: StartTerms) -> bool:
        """Whether it is so by what was claimed: while runs before it were made, the report may have
        been paused, or got a longer grace. A run that was taken over by hand asks another meter.
        """
        run, report = claim.run, claim.report
        if run.trigger is not self.run.trigger or report.state is ReportState.PAUSED:
            return False
        return self.complete_until_ms >= complete_needed_ms(run, report, start)


class Judge:
    """Tells in one turn which runs can be made: it asks once how complete a revision of a meter is,
    which is only more by the end of the turn.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        progress: ProgressStore,
        log: int,
        partitions: int,
        start: StartTerms,
    ) -> None:
        self._in_force = {meter.id: meter for meter in catalogue.in_force}
        self._folded = {meter.revision: meter for meter in catalogue.meters}
        self._progress = progress
        self._log = log
        self._partitions = partitions
        self._start = start
        self._complete: dict[int, int | None] = {}

    def meter_of(self, run: Run, report: Report) -> Meter | None:
        """The revision that answers a run: the one in force, or for a late run the one that
        answered before it. None while there is none.
        """
        if run.trigger is Trigger.LATE and run.meter_revision is not None:
            return self._folded.get(run.meter_revision)
        # A meter in use cannot be deleted; while one is being changed the next step finds it.
        return self._in_force.get(report.meter_id)

    async def ready(self, page: Sequence[tuple[Run, Report]]) -> list[Ready]:
        """Those whose usage is complete."""
        found = []
        for run, report in page:
            meter = self.meter_of(run, report)
            if meter is None:
                continue
            until_ms = await self._complete_until(meter, run)
            if until_ms is not None and until_ms >= complete_needed_ms(run, report, self._start):
                found.append(Ready(run, report, meter, until_ms))
        return found

    async def _complete_until(self, meter: Meter, run: Run) -> int | None:
        # those that answer the window: the older ones where it lies before the first instant
        untils: list[int] = []
        for revision in answering(meter, run.from_ms, run.to_ms):
            if revision not in self._complete:
                self._complete[revision] = await self._progress.complete_until(
                    self._log, self._partitions, revision
                )
            until_ms = self._complete[revision]
            if until_ms is None:
                return None
            untils.append(until_ms)
        return min(untils)
