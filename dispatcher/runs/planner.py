"""Steps that turn schedules into runs and complete windows into deliveries (docs/architecture.md,
"The dispatcher").

Nothing is sent here. Several dispatchers may do these steps at once: runs are recorded under
ids that follow from their windows, and the store lets one holder decide a run.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from dispatcher.runs.corrections import says_nothing_new
from dispatcher.runs.failing import Failing
from dispatcher.runs.lease import Holding, LeaseLost
from dispatcher.runs.materializing import Gathered, Making, gather, write
from dispatcher.runs.schedule import due_runs
from dispatcher.runs.usage_answers import Answers
from dispatcher.runs.waiting import Judge, Ready, Walk
from dispatcher.tracing import ReportTraces
from meterline import limits
from meterline.delivery import DeliveryBytes
from meterline.meter import CatalogueStore
from meterline.ports import SILENT, Recorder, Unavailable
from meterline.problem import Problem
from meterline.report import (
    Baseline,
    Claim,
    CorrectionStore,
    OpenSpool,
    Plan,
    Report,
    ReportStore,
    Run,
    RunMove,
    RunState,
    RunUnreadable,
    StartTerms,
    Trigger,
    Unreadable,
)
from meterline.usage import ProgressStore, SubjectUsageStore
from meterline.window import DAY_MS


@dataclass(frozen=True, slots=True)
class Sources:
    """The stores that a run is made from, where the bytes of its deliveries are, and how far turns
    have come through the runs that wait.
    """

    reports: ReportStore
    catalogue: CatalogueStore
    progress: ProgressStore
    usage: SubjectUsageStore
    corrections: CorrectionStore
    bytes: DeliveryBytes
    spool: OpenSpool
    walk: Walk = field(default_factory=Walk)
    recorder: Recorder = SILENT
    traces: ReportTraces = field(default_factory=ReportTraces)


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """What runs are judged by. `log` and `partitions` name the log whose completeness counts."""

    log: int
    partitions: int
    start: StartTerms = field(default_factory=StartTerms)
    catch_up_max: int = limits.CATCH_UP_RUNS_MAX
    lease_ms: int = limits.RUN_LEASE_S * 1_000
    bytes_kept_ms: int = limits.REVISED_DAYS * DAY_MS
    rows_max: int = limits.RUN_ROWS_READ  # of usage, read at once


async def find_due(
    reports: ReportStore, now_ms: int, catch_up_max: int, failing: Failing | None = None
) -> int:
    """Record runs for windows that have ended; their number. Nothing is left when it is 0.

    A report whose windows cannot be recorded is `failing`, and keeps no other one from its runs.
    Where the store is away for two that follow each other, it is away for all: `Unavailable`.
    """
    failing = Failing() if failing is None else failing
    found, away = 0, False
    plans = await reports.plans(now_ms, limits.PLAN_REPORTS_MAX + failing.count)
    for plan in failing.without_those_that_rest(plans, now_ms):
        try:
            found += await _record(reports, plan, now_ms, catch_up_max)
        except Unavailable as error:
            if away:
                raise
            away = True
            failing.rests(plan.report, now_ms, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is of this report
            failing.rests(plan.report, now_ms, error)
        else:
            away = False
    return found


async def _record(reports: ReportStore, plan: Plan, now_ms: int, catch_up_max: int) -> int:
    runs = due_runs(plan, now_ms, catch_up_max, limits.PLAN_RUNS_MAX)
    if runs:
        await reports.plan(plan.report, runs, runs[-1].to_ms)
    return len(runs)


async def make_runs(
    sources: Sources, terms: PlanTerms, instant: Callable[[], int], holder: str
) -> int:
    """Materialize runs whose windows are complete; the number decided or closed.

    A turn looks through what waits, page by page, until it has made something: however many runs
    cannot be made yet, one that can be has its turn. It goes on where the one before ended, and
    looks at no more pages than its walk allows.

    `instant` gives the present time, unix milliseconds: runs before one may take longer than its
    lease. `holder` is a name never used before. A run that cannot be made now gives its lease back
    and leaves the turn to the others of its page. Raises `Unavailable` where none of them could be
    made for that; the next turn goes on behind them.
    """
    walk, whole, judge = sources.walk, sources.walk.after is None, None
    for number in range(walk.pages_max):
        page = await walk.page(sources.reports, instant())
        if page and judge is None:
            catalogue = await sources.catalogue.catalogue()
            judge = Judge(catalogue, sources.progress, terms.log, terms.partitions, terms.start)
        # By a name for each page: a run that was given back may be met again, once round.
        if judge and (
            made := await _make_page(sources, terms, judge, page, instant, f"{holder}.{number}")
        ):
            return made
        if walk.after is None:
            if whole:
                break
            whole = True  # it began in the middle: now from the front
    return 0


async def _make_page(
    sources: Sources,
    terms: PlanTerms,
    judge: Judge,
    page: Sequence[tuple[Run, Report]],
    instant: Callable[[], int],
    holder: str,
) -> int:
    ready = await judge.ready(page)
    able = {it.run.id for it in ready}
    found = [run.id for run, _ in page if run.state is RunState.SCHEDULED and run.id not in able]
    if found:
        await sources.reports.await_runs(found)
    # Neighbours ask the same question, which is then asked once.
    ready.sort(key=_question)
    answers = Answers(sources.progress, sources.usage, terms.log, terms.rows_max)
    made = await _refuse_forgotten(sources.reports, terms, page, judge, instant, holder)
    away: list[tuple[Ready, Unavailable]] = []
    for it in ready:
        if away and away[-1][0].query == it.query:
            continue  # its question has just failed
        now_ms = instant()
        claim = await sources.reports.claim_run(it.run.id, holder, now_ms, now_ms + terms.lease_ms)
        if claim is None:
            continue
        if not it.is_still(claim, terms.start):
            await sources.reports.release_run(it.run.id, holder)
            continue
        # as claimed: it may have been changed since it was read
        it = replace(it, report=claim.report)  # noqa: PLW2901
        try:
            made += await _make(sources, terms, it, claim, answers, instant)
        except Unavailable as error:
            away.append((it, error))
        except RunUnreadable as error:  # its lease is its rest
            of = it.run.namespace, it.report.slug, str(error)
            sources.walk.unread.tell([Unreadable(it.report.id, *of)], now_ms)
    # Where some were made, those that were not are tried again at once, and told of then.
    if away and not made:
        raise _none_made(away)
    return made


def _question(it: Ready) -> tuple[object, ...]:
    query = it.query
    return (it.meter.revision, it.run.from_ms, it.run.to_ms, query.group_by, repr(query.subjects))


def _none_made(away: Sequence[tuple[Ready, Unavailable]]) -> Unavailable:
    it, error = away[0]
    return Unavailable(f"no run can be computed; run {it.run.id} of {it.report.slug!r}: {error}")


async def _refuse_forgotten(
    reports: ReportStore,
    terms: PlanTerms,
    page: Sequence[tuple[Run, Report]],
    judge: Judge,
    instant: Callable[[], int],
    holder: str,
) -> int:
    """Close late runs whose meter revision is not counted any more; later ones wait behind them."""
    closed = 0
    for run, report in page:
        if run.trigger is not Trigger.LATE or judge.meter_of(run, report) is not None:
            continue
        now_ms = instant()
        claim = await reports.claim_run(run.id, holder, now_ms, now_ms + terms.lease_ms)
        if claim is not None:
            why = f"revision {run.meter_revision} of the meter is no longer counted"
            closed += await reports.close_run(claim, RunMove.REFUSE, why, now_ms)
    return closed


async def _make(
    sources: Sources,
    terms: PlanTerms,
    it: Ready,
    claim: Claim,
    answers: Answers,
    instant: Callable[[], int],
) -> bool:
    reports, now_ms = sources.reports, instant()
    holding = Holding(reports, claim, terms.lease_ms, instant)
    try:
        baseline = None
        if it.run.revision > 1:
            baseline = await sources.corrections.baseline(it.run)
        it = _as_before(it, baseline)
        if missing := set(it.report.group_by) - set(it.meter.dimension_names):
            why = (
                f"the meter no longer has the dimension {min(missing)!r}: update the report,"
                " then request the run again"
            )
            return await reports.close_run(claim, RunMove.REFUSE, why, now_ms)
        claim = replace(claim, report=it.report)
        making = Making(it, claim, holding, baseline, reports, sources.corrections)
        async with holding.renewed():
            return await _tell(sources, making, answers, now_ms)
    except LeaseLost:
        return False
    except Problem as problem:
        return await reports.close_run(claim, RunMove.REFUSE, problem.detail, now_ms)
    except Unavailable:
        # Where this fails too, the lease runs out by itself.
        with suppress(Unavailable):
            await reports.release_run(it.run.id, claim.holder)
        raise


def _as_before(it: Ready, baseline: Baseline | None) -> Ready:
    """A late run asks what the run before it asked, whatever its report asks by now: only usage may
    tell them apart.
    """
    if it.run.trigger is not Trigger.LATE or baseline is None:
        return it
    report = it.report
    if baseline.group_by is not None:
        report = replace(report, group_by=baseline.group_by)
    if baseline.filter is not None:
        report = replace(report, filter=baseline.filter)
    return replace(it, report=report)


async def _tell(sources: Sources, making: Making, answers: Answers, now_ms: int) -> bool:
    """Make what a run says; a revision that has nothing new to say is closed."""
    reports, claim, spool = sources.reports, making.claim, sources.spool()
    since_ns = sources.traces.now_ns()
    try:
        await answers.ask(making.it, making.claim.erased)
        await making.holding.keep()
        gathered = await gather(making, answers, spool)
        if _is_old(making, gathered):
            why = "the figures are the same as in the previous revision"
            return await reports.close_run(claim, RunMove.UNCHANGED, why, now_ms, answers.counted)
        manifest = await write(making, gathered, spool, answers.counted)
    finally:
        await spool.close()
    decided = await reports.decide(claim, making.it.meter.revision, manifest, now_ms)
    if not decided:
        # The report was changed meanwhile, if the lease is still held: made anew by the next step.
        await reports.release_run(claim.run.id, claim.holder)
    elif sources.traces.on:
        it = making.it
        sources.traces.decided(it.run, it.meter, since_ns)
    return decided


def _is_old(making: Making, gathered: Gathered) -> bool:
    """Whether a revision has nothing new to say."""
    if making.baseline is None:
        return False
    assert gathered.corrections_digest is not None, "of every revision"
    speaks = gathered.statements > 0
    return says_nothing_new(
        making.baseline, gathered.corrections_digest, speaks=speaks, sends=making.sends
    )
