"""The ports of revisions: what they are compared with and correct, and how late usage is found.
The rules of `meterline.ports` hold here too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meterline.report.correction import Correction, KeptCorrection
from meterline.report.filter import ReportFilter
from meterline.report.ports import Claim
from meterline.report.report import Unreadable
from meterline.report.run import LogEnds, Run
from meterline.usage import Stretch


@dataclass(frozen=True, slots=True)
class Baseline:
    """The decided run that a revision follows, and how it was made: the newest of its window.

    `corrections_digest` is that of corrections that it recorded and nobody sent; None where it
    recorded none. Grouping and filter are None for a run from before they were kept.
    """

    run_id: str
    meter_revision: int
    group_by: tuple[str, ...] | None
    filter: ReportFilter | None
    corrections_digest: str | None


class CorrectionStore(Protocol):
    """What revisions correct. Corrections are staged and appointed like deliveries: nobody sees
    them until their holder decides the run.
    """

    async def baseline(self, run: Run) -> Baseline | None:
        """What a revision follows; None for a first run."""
        ...

    async def sent_bodies(self, delivery_ids: Collection[str]) -> dict[str, bytes]:
        """The bytes of deliveries, as far as they are kept."""
        ...

    async def stage_corrections(
        self, claim: Claim, corrections: Sequence[Correction], number_first: int
    ) -> None:
        """Write corrections of an undecided run, numbered from there on. Nothing where the lease is
        lost.
        """
        ...

    async def corrections(self, run_id: str, limit: int, after: int = 0) -> list[KeptCorrection]:
        """Corrections of a decided run by number, from the one after `after`."""
        ...


@dataclass(frozen=True, slots=True)
class DecidedWindow:
    """A window of a live report, and how much of the log its newest decided run had counted: None
    where that was not kept.
    """

    report_id: str
    meter_id: str
    from_ms: int
    to_ms: int
    counted: LogEnds | None


@dataclass(frozen=True, slots=True)
class LateWindow:
    """A window that late events were found for, and that may be revised now."""

    report_id: str
    from_ms: int
    to_ms: int


class LateStore(Protocol):
    """How far the log was looked at for late events, and the windows that have some.

    Looking is done in this order, and may stop anywhere: `begin_look`, then read the catalogue and
    the events, then `mark` every window they touch, then `end_look`. A run that is decided after
    the beginning marks itself, where it had counted less than what is being looked at
    (`ReportStore.decide`); one that was decided before is found.
    """

    async def looked(self, log: int) -> dict[int, int]:
        """By partition, the offset below which all was looked at."""
        ...

    async def unlooked(self, log: int, partitions: int, events_max: int) -> list[Stretch]:
        """Sealed slices that were not looked at: of each partition the next, with at most so many
        events unless a single one has more.
        """
        ...

    async def begin_look(self, log: int, ends: Mapping[int, int]) -> None:
        """Everything below these ends, by partition, is going to be looked at. Merges by the
        greatest.
        """
        ...

    async def end_look(self, log: int, ends: Mapping[int, int]) -> None:
        """Everything below these ends was looked at, and what it touches is marked. Merges by the
        greatest.
        """
        ...

    async def reported_meters(self) -> set[str]:
        """Ids of the meters that live reports are on."""
        ...

    async def decided_windows(
        self,
        meter_ids: Collection[str],
        from_ms: int,
        to_ms: int,
        since_ms: int,
        limit: int,
        after: DecidedWindow | None = None,
    ) -> list[DecidedWindow]:
        """Windows of reports on these meters that reach into [from_ms, to_ms) and whose first run
        was decided at `since_ms` or later, by report, start and end, after the one given.
        """
        ...

    async def mark(self, windows: Sequence[DecidedWindow], due_at_ms: int) -> None:
        """Late events were found for these windows: they are to be revised at the instant. One that
        is to be revised already stays as it is.
        """
        ...

    async def due_windows(self, now_ms: int, pause_ms: int, limit: int) -> list[LateWindow]:
        """Windows to be revised that were not within the pause: of reports that are not paused, and
        where no run of that window is undecided. The longest due first.
        """
        ...

    async def revise_late(self, window: LateWindow, now_ms: int) -> Run | Unreadable | None:
        """A run of the next revision, by the meter revision that answered the last one; its window
        has no mark any more. None, and nothing, where it is not due (any more), or a run of it is
        undecided. Where its report or a run of it cannot be read, it is due again after
        `PLAN_FAILED_REST_MS`.
        """
        ...
