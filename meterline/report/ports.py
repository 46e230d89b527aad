"""The ports of reports: where they and their runs are kept, and what large runs are written to.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from meterline.access import COMMAND, DISPATCHER
from meterline.delivery import (
    Attempt,
    AttemptEnd,
    ClaimedDelivery,
    Delivery,
    DeliveryDraft,
    DeliveryPlace,
    DeliveryQuery,
    Due,
    EndpointChange,
    HealthTerms,
    SendGrant,
)
from meterline.report.report import Report, ReportChange, Unreadable
from meterline.report.resumption import Owed, Resumed
from meterline.report.run import EVERY_RUN, LogEnds, Manifest, Run, RunMove, RunQuery


@dataclass(frozen=True, slots=True)
class Plan:
    """A report, and where the first window begins that has no run yet."""

    report: Report
    planned_until_ms: int


class DuePlans(NamedTuple):
    """Reports whose next window has ended."""

    found: list[Plan]
    unreadable: list[Unreadable] = []  # noqa: RUF012 - never changed


class WaitingRuns(NamedTuple):
    """A page of runs that wait, each with its report. `after` is the report and the trigger that
    the page ended with; None: it was the last one.
    """

    found: list[tuple[Run, Report]]
    unreadable: list[Unreadable] = []  # noqa: RUF012 - never changed
    after: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A run whose lease `holder` has; `sequence_next` numbers its first delivery. `erased` is how
    many subjects of its namespace were erased before: usage that was read earlier may name one.
    """

    run: Run
    report: Report
    holder: str
    sequence_next: int
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Booked:
    """What was last said to a receiver for a subject of a window: the figures, and the newest
    delivery that has bytes. None where the only ones so far were too large to be made.
    """

    delivery_id: str | None
    usage_digest: bytes


@dataclass(frozen=True, slots=True)
class RetiredSecret:
    """A secret that a rotation replaced, and the instant up to which it signs too."""

    sealed: bytes
    signs_until_ms: int


class ReportStore(Protocol):
    """Reports, their runs and deliveries. Ids win over slugs; deleted reports are found by none
    of the reads by name.

    What has an `author` is recorded with it as a change, in its own transaction
    (`meterline.access.change`). A call that finds nothing to do records none.
    """

    async def create_report(
        self, report: Report, planned_until_ms: int, *, author: str = COMMAND
    ) -> None:
        """Keep a new report; its first window starts at `planned_until_ms`. Raises `Problem`
        (conflict) for a taken slug, and where the namespace has `REPORTS_MAX` reports.
        """
        ...

    async def report(self, namespace: str, id_or_slug: str) -> Report | None:
        """A live report."""
        ...

    async def reports(
        self, namespace: str, limit: int | None = None, after: tuple[int, str] | None = None
    ) -> list[Report]:
        """Live reports by creation and id, from the one after such a pair."""
        ...

    async def update_report(
        self,
        report_id: str,
        change: ReportChange,
        now_ms: int,
        *,
        author: str = COMMAND,
        dry_run: bool = False,
    ) -> Report:
        """The report as changed: runs that are not decided yet, and those to come, go by it. With
        `dry_run` it is the report as it would be, and nothing is changed.

        Raises `Problem`: not found, or bad request for a schedule that cannot follow the present
        one (`report.changed`).
        """
        ...

    async def delete_report(self, report_id: str, now_ms: int, *, author: str = COMMAND) -> None:
        """Delete logically: undecided runs are skipped, open deliveries cancelled, in one
        transaction.
        """
        ...

    async def pause_report(self, report_id: str, now_ms: int, *, author: str = COMMAND) -> None:
        """No run is found or made and nothing is sent until it is resumed; all is kept."""
        ...

    async def resume_report(
        self, report_id: str, now_ms: int, *, owed: Owed = Owed.ALL, author: str = COMMAND
    ) -> Resumed:
        """A paused or parked report is active again, and what is asked for of what it owes is sent;
        the rest is skipped and cancelled, in one transaction. Its endpoint has all patience before
        it.
        """
        ...

    async def rotate_secret(
        self, report_id: str, sealed: bytes, overlap_ms: int, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """Sign with another secret from now on, and with those before it for `overlap_ms` at most;
        0 ends them at once. Again with the same one: nothing.

        Raises `Problem`: not found, or conflict where too many sign already.
        """
        ...

    async def tell_secret_shown(
        self, report: Report, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """Record that the signing secret is shown to someone; many showings to one author are told
        once a minute.
        """
        ...

    async def sealed_secrets(self, most: int) -> list[bytes]:
        """The sealed current secrets of live reports, of the newest ones first; of none where no
        report was ever made.
        """
        ...

    async def retired_secrets(self, report_id: str, now_ms: int) -> list[RetiredSecret]:
        """Secrets from before that sign still, the newest first."""
        ...

    async def park_endpoint(
        self, namespace: str, endpoint: str, reason: str, now_ms: int, *, author: str = DISPATCHER
    ) -> None:
        """Park every active report of the namespace with this endpoint: nothing more is sent, all
        is kept as owed.
        """
        ...

    async def plans(self, window_end_max_ms: int, limit: int) -> DuePlans:
        """Live reports, not paused, whose next window ends at or before the instant; the longest
        overdue first.
        """
        ...

    async def plan(self, report: Report, runs: Sequence[Run], planned_until_ms: int) -> None:
        """Add runs (one that exists stays as it is) and move the report's plan forward, in one
        transaction; nothing where its definition is another by now.
        """
        ...

    async def request_run(
        self,
        report: Report,
        from_ms: int,
        to_ms: int,
        now_ms: int,
        *,
        revise: bool,
        author: str = COMMAND,
    ) -> tuple[Run, bool]:
        """The run of a window by hand, and whether it is new.

        An existing run is given back as it is; one that was skipped or refused is set to waiting.
        With `revise`, a window whose newest run is decided gets a run of the next revision; a late
        run that is not becomes it.
        """
        ...

    async def undecided(
        self, now_ms: int, limit: int, after: tuple[str, str] | None = None
    ) -> WaitingRuns:
        """For each report that is not paused, the oldest undecided run of each trigger whose lease
        is free, by report and trigger, from the one after such a pair.
        """
        ...

    async def await_runs(self, run_ids: Sequence[str]) -> None:
        """Scheduled runs are seen to be waiting; one that somebody changes just now may stay as it
        is.
        """
        ...

    async def claim_run(
        self, run_id: str, holder: str, now_ms: int, lease_until_ms: int
    ) -> Claim | None:
        """Take the lease of an undecided run, under a name never used before; None where another
        run or holder of the report has it, or the run is gone.
        """
        ...

    async def release_run(self, run_id: str, holder: str) -> None:
        """Give the lease back; what was staged is dropped."""
        ...

    async def stage(
        self, claim: Claim, drafts: Sequence[DeliveryDraft], lease_until_ms: int | None = None
    ) -> bool:
        """Write deliveries of an undecided run, seen by nobody until this holder decides it, and
        hold its lease until then, if that is given; False where the lease is lost.
        """
        ...

    async def decide(
        self, claim: Claim, meter_revision: int, manifest: Manifest, now_ms: int
    ) -> bool:
        """Make what this holder staged the run's deliveries, in one transaction; False where the
        lease, the number or something staged is lost.

        Conditional on the run being undecided, the lease being held, all that the manifest counts
        being staged, the report's sequence standing where the claim found it, and the report being
        there with the claim's definition. True again when repeated by the winner.
        """
        ...

    async def close_run(
        self,
        claim: Claim,
        move: RunMove,
        reason: str,
        now_ms: int,
        counted: LogEnds | None = None,
    ) -> bool:
        """End an undecided run without deliveries (`UNCHANGED`, `REFUSE`); False where the lease
        is lost. Unchanged, the run before holds good as far as `counted`; a late one is gone.
        """
        ...

    async def booked(
        self, run: Run, after: str | None = None, until: str | None = None
    ) -> dict[str, Booked]:
        """By subject, the newest deliveries of the run's window by earlier revisions: of subjects
        after one, up to another, by code points.
        """
        ...

    async def due(self, now_ms: int) -> list[Due]:
        """Active reports with a delivery due at the instant, the longest waiting first."""
        ...

    async def claim_deliveries(
        self, grants: Sequence[SendGrant], now_ms: int, lease_until_ms: int
    ) -> list[ClaimedDelivery]:
        """Take due deliveries of different reports, as many as are granted to each, first tries
        before retries, then the oldest first, in one transaction, each with a new attempt recorded.
        Together they hold `CLAIM_BYTES_MAX` at most, but for the first of each report.

        A delivery whose dispatcher's lease ran out is due again; the attempt that it left open is
        marked lost. As a probe none is taken unless the endpoint is out and its next probe is due;
        until the lease ends, or the attempt is recorded, there is no other one.
        """
        ...

    async def give_back(self, claimed_deliveries: Sequence[ClaimedDelivery], now_ms: int) -> None:
        """Undo claims of what was never sent, in one transaction: their attempts never were, and
        they are due as before. One that is not its delivery's newest attempt any more, or that was
        cancelled meanwhile, is recorded as not sent. Who took the probe of an endpoint gives it
        back as well.
        """
        ...

    async def record(
        self, ends: Sequence[AttemptEnd], now_ms: int, terms: HealthTerms | None = None
    ) -> list[EndpointChange]:
        """Record how attempts ended, move their deliveries, and keep what was heard of their
        endpoints, in one transaction; the last of a run ends the run. Returns the endpoints that
        went down by this, or are up again.

        `CONFIRM` always wins, but for attempts from before a replay. Any other move holds only
        while the attempt is its delivery's newest and that is being sent; the attempt itself is
        recorded anyhow. Repeating changes no delivery. The reports of an endpoint that nobody
        believes in any more (`meterline.delivery.distrusted`, by `terms`) are parked.
        """
        ...

    async def replay(
        self, namespace: str, delivery_id: str, now_ms: int, *, author: str = COMMAND
    ) -> Delivery:
        """Have a delivery sent again, as soon as its report may send: the same bytes under the same
        id, with all its retries before it. One that waits for its first attempt stays as it is.

        One whose dispatcher's lease ran out is being sent by nobody; the attempt that it left open
        is marked lost.

        Raises `Problem`: not found, or conflict while it is being sent and where its report was
        deleted.
        """
        ...

    async def runs(
        self,
        report_id: str,
        limit: int,
        before: "Run | None" = None,
        query: RunQuery = EVERY_RUN,
    ) -> list[Run]:
        """Runs of a report that are asked for, newest window first, after the one given."""
        ...

    async def run(self, report_id: str, run_id: str) -> Run | None:
        """One run."""
        ...

    async def deliveries(self, run_id: str, limit: int, after: int = 0) -> list[Delivery]:
        """Deliveries of a decided run by number, from the one after `after`."""
        ...

    async def listed_deliveries(
        self,
        namespace: str,
        query: DeliveryQuery,
        limit: int,
        after: DeliveryPlace | None = None,
    ) -> list[Delivery]:
        """Deliveries of a namespace in order of their places, from the one after `after`; those of
        deleted reports too.
        """
        ...

    async def delivery(self, namespace: str, delivery_id: str) -> Delivery | None:
        """One delivery."""
        ...

    async def delivery_body(self, namespace: str, delivery_id: str) -> bytes | None:
        """The bytes that are signed and sent, ever the same."""
        ...

    async def attempts(self, delivery_ids: Sequence[str]) -> list[Attempt]:
        """Attempts by delivery and number."""
        ...


class Spool(Protocol):
    """Records that are written once, then read in order; they are gone when it is closed. Raises
    `Unavailable` where there is no room.
    """

    async def append(self, records: Sequence[bytes]) -> None:
        """Keep records behind those before."""
        ...

    def portions(self, bytes_max: int) -> AsyncIterator[list[bytes]]:
        """All of them, in portions of so many bytes at most, but for their last record."""
        ...

    async def close(self) -> None:
        """Let go of them."""
        ...


OpenSpool = Callable[[], Spool]
