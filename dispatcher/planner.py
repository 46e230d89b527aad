"""Steps that turn schedules into runs and complete windows into deliveries (design.md section 5).

Nothing is sent here. Several dispatchers may do these steps at once: runs are recorded under
ids that follow from their windows, and the store lets one holder decide a run.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from dispatcher.render import (
    BodyTooLarge,
    Selection,
    Statement,
    drafts,
    manifest_digest,
    select,
    statements,
)
from dispatcher.schedule import complete_needed_ms, due_runs
from meterline import limits
from meterline.meter import Meter
from meterline.ports import CatalogueStore, ProgressStore, Unavailable, UsageStore
from meterline.problem import Problem
from meterline.report import Report
from meterline.report_ports import Booked, Claim, ReportStore
from meterline.run import DeliveryDraft, Manifest, Run, RunMove, RunState
from meterline.usage import UsageQuery, UsageRow


@dataclass(frozen=True, slots=True)
class Sources:
    """The stores that a run is made from."""

    reports: ReportStore
    catalogue: CatalogueStore
    progress: ProgressStore
    usage: UsageStore


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """What runs are judged by. `log` and `partitions` name the log whose completeness counts."""

    log: int
    partitions: int
    grace_ms: int = limits.GRACE_MS
    catch_up_max: int = limits.CATCH_UP_RUNS_MAX
    lease_ms: int = limits.RUN_LEASE_S * 1_000


@dataclass(frozen=True, slots=True)
class _Ready:
    """A run whose usage is complete, with what it takes to make it."""

    run: Run
    report: Report
    meter: Meter
    complete_until_ms: int

    @property
    def query(self) -> UsageQuery:
        group_by = ("subject", *self.report.group_by)
        return UsageQuery(self.meter, self.run.from_ms, self.run.to_ms, group_by=group_by)


@dataclass(slots=True)
class _Asked:
    """The last query and its rows: reports on one meter and window share one query."""

    query: UsageQuery | None = None
    rows: list[UsageRow] = field(default_factory=list)


async def find_due(reports: ReportStore, now_ms: int, catch_up_max: int) -> int:
    """Record runs for windows that have ended; their number. Nothing is left when it is 0."""
    found = 0
    for plan in await reports.plans(now_ms, limits.PLAN_REPORTS_MAX):
        runs = due_runs(plan, now_ms, catch_up_max, limits.PLAN_RUNS_MAX)
        if runs:
            await reports.plan(plan.report, runs, runs[-1].to_ms)
        found += len(runs)
    return found


async def make_runs(
    sources: Sources, terms: PlanTerms, instant: Callable[[], int], holder: str
) -> int:
    """Materialize the runs whose windows are complete; the number decided or closed.

    `instant` gives the present time, unix milliseconds: runs before one may take longer than its
    lease. `holder` is a name never used before. A run that cannot be made now gives its lease back
    and leaves the turn to the others. Raises `Unavailable` where none could be made for that.
    """
    undecided = await sources.reports.undecided(instant(), limits.UNDECIDED_RUNS_MAX)
    if not undecided:
        return 0
    meters = {meter.id: meter for meter in (await sources.catalogue.catalogue()).meters}
    ready = await _ready(sources, terms, undecided, meters)
    # Neighbours ask the same question, which is then asked once.
    ready.sort(key=lambda it: (it.meter.revision, it.run.from_ms, it.run.to_ms, it.report.group_by))
    asked = _Asked()
    made = 0
    away: list[tuple[_Ready, Unavailable]] = []
    for it in ready:
        if away and away[-1][0].query == it.query:
            continue  # its question has just failed
        now_ms = instant()
        claim = await sources.reports.claim_run(it.run.id, holder, now_ms, now_ms + terms.lease_ms)
        if claim is None:
            continue
        # as claimed: it may have been changed since it was read
        it = replace(it, report=claim.report)  # noqa: PLW2901
        try:
            made += await _make(sources, it, claim, asked, now_ms)
        except Unavailable as error:
            away.append((it, error))
    # Where some were made, those that were not are tried again at once, and told of then.
    if away and not made:
        raise _none_made(away)
    return made


def _none_made(away: Sequence[tuple[_Ready, Unavailable]]) -> Unavailable:
    it, error = away[0]
    return Unavailable(f"no run can be made now; run {it.run.id} of {it.report.slug!r}: {error}")


async def _ready(
    sources: Sources,
    terms: PlanTerms,
    undecided: Sequence[tuple[Run, Report]],
    meters: Mapping[str, Meter],
) -> list[_Ready]:
    complete: dict[int, int | None] = {}
    ready = []
    for run, report in undecided:
        meter = meters.get(report.meter_id)
        # A meter in use cannot be deleted; while one is being changed the next step finds it.
        if meter is None:
            continue
        if meter.revision not in complete:
            complete[meter.revision] = await sources.progress.complete_until(
                terms.log, terms.partitions, meter.revision
            )
        until_ms = complete[meter.revision]
        if until_ms is not None and until_ms >= complete_needed_ms(run, terms.grace_ms):
            ready.append(_Ready(run, report, meter, until_ms))
        elif run.state is RunState.SCHEDULED:
            await sources.reports.await_run(run.id)
    return ready


async def _make(sources: Sources, it: _Ready, claim: Claim, asked: _Asked, now_ms: int) -> bool:
    reports = sources.reports
    if missing := set(it.report.group_by) - set(it.meter.dimension_names):
        why = f"the meter has no group-by key {min(missing)!r} any more; make the report anew"
        return await reports.close_run(claim, RunMove.REFUSE, why, now_ms)
    try:
        if asked.query != it.query:
            asked.query = None
            asked.rows = await sources.usage.usage(it.query)
            asked.query = it.query
        selection = select(asked.rows, it.report.filter)
        booked: Mapping[str, Booked] = {}
        if it.run.revision > 1:
            booked = await reports.booked(it.run)
        said = statements(it.run, selection, booked)
        if it.run.revision > 1 and not said:
            why = "the figures are those of the revision before"
            return await reports.close_run(claim, RunMove.UNCHANGED, why, now_ms)
        return await _decide(reports, it, claim, selection, said, now_ms)
    except (Problem, BodyTooLarge) as error:
        why = error.detail if isinstance(error, Problem) else str(error)
        return await reports.close_run(claim, RunMove.REFUSE, why, now_ms)
    except Unavailable:
        # Where this fails too, the lease runs out by itself.
        with suppress(Unavailable):
            await reports.release_run(it.run.id, claim.holder)
        raise


async def _decide(
    reports: ReportStore,
    it: _Ready,
    claim: Claim,
    selection: Selection,
    said: Sequence[Statement],
    now_ms: int,
) -> bool:
    parts: list[tuple[str, bytes]] = []
    chunk: list[DeliveryDraft] = []
    chunk_bytes = 0
    for draft in drafts(
        it.report, it.meter, it.run, said, claim.sequence_next, it.complete_until_ms
    ):
        parts.append((draft.id, draft.digest))
        chunk.append(draft)
        chunk_bytes += len(draft.body)
        if len(chunk) == limits.STAGED_BODIES_MAX or chunk_bytes > limits.DELIVERY_BODY_BYTES_MAX:
            await reports.stage(claim, chunk)
            chunk, chunk_bytes = [], 0
    await reports.stage(claim, chunk)
    manifest = Manifest(
        deliveries=len(parts),
        entries=selection.entries,
        filtered_out=selection.filtered_out,
        total=selection.total,
        total_filtered_out=selection.total_filtered_out,
        complete_until_ms=it.complete_until_ms,
        digest=manifest_digest(parts),
        sequence_first=claim.sequence_next if parts else 0,
    )
    decided = await reports.decide(claim, it.meter.revision, manifest, now_ms)
    if not decided:
        # The report was changed meanwhile, if the lease is still held: made anew by the next step.
        await reports.release_run(it.run.id, claim.holder)
    return decided
