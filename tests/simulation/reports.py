"""The simulated report store, as far as the planner asks it, and dispatchers that plan there."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from dispatcher.runs.late import LateUsage
from dispatcher.runs.planner import PlanTerms, Sources, find_due, make_runs
from meterline.delivery import DeliveryDraft
from meterline.meter import Meter
from meterline.ports import Unavailable
from meterline.report import (
    UNDECIDED,
    Booked,
    Claim,
    Correction,
    DuePlans,
    Interval,
    LogEnds,
    Manifest,
    Plan,
    Report,
    Revisions,
    Run,
    RunMove,
    RunState,
    Schedule,
    Trigger,
    WaitingRuns,
    run_id,
    run_sources,
    run_target,
)
from tests.simulation.network import Net, Process

LEASE_MS: Final = 1_000  # short: a lease must run out while its holder is still at work
CATCH_UP_MAX: Final = 20


@dataclass(slots=True)
class Kept:
    """A run with its lease."""

    run: Run
    holder: str | None = None
    lease_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Decided:
    """What one holder made of a run."""

    run: Run
    holder: str
    manifest: Manifest
    deliveries: tuple[DeliveryDraft, ...]
    report: Report  # as it was then
    corrections: tuple[Correction, ...] = ()


class ReportsState:
    """Reports, runs, what is staged, and every decision that was ever taken."""

    def __init__(self) -> None:
        self.reports: dict[str, Report] = {}
        self.planned: dict[str, int] = {}
        self.sequence: dict[str, int] = {}
        self.runs: dict[str, Kept] = {}
        self.staged: dict[tuple[str, str], dict[int, DeliveryDraft]] = {}
        self.decided: list[Decided] = []
        self.staged_corrections: dict[tuple[str, str], dict[int, Correction]] = {}
        self.appointed: Callable[[Decided, int], None] = lambda *_: None
        self.overtaken: Callable[[Run, LogEnds | None, int], None] = lambda *_: None

    def create(self, meter_id: str, group_by: tuple[str, ...], now_ms: int, *, sends: bool) -> None:
        """A report by the hour."""
        name = f"r{len(self.reports)}"
        schedule = Schedule(Interval.HOUR, now_ms // 60_000 * 60_000 - 90 * 60_000)
        self.reports[name] = Report(
            name, "default", name, meter_id, schedule, group_by, "http://x", b"", now_ms, now_ms,
            revisions=Revisions.SEND if sends else Revisions.RECORD,
        )  # fmt: skip
        self.planned[name] = schedule.first_window_ms(now_ms)
        self.sequence[name] = 1

    def on(self, meter: Meter) -> list[Report]:
        """The reports on a meter."""
        return [report for report in self.reports.values() if report.meter_id == meter.id]

    def is_on(self, meter_id: str) -> bool:
        """Whether a report is on a meter."""
        return any(report.meter_id == meter_id for report in self.reports.values())

    def ask(self, report_id: str, from_ms: int, to_ms: int, now_ms: int) -> None:
        """A run by hand."""
        name = run_id(report_id, from_ms, to_ms, 1)
        run = Run(
            name, report_id, "default", from_ms, to_ms, 1, Trigger.MANUAL, now_ms, RunState.WAITING
        )
        self.runs.setdefault(name, Kept(run))

    def plans(self, window_end_max_ms: int, limit: int) -> DuePlans:
        found = [Plan(report, self.planned[name]) for name, report in self.reports.items()]
        due = [p for p in found if p.report.window_end_ms(p.planned_until_ms) <= window_end_max_ms]
        return DuePlans(due[:limit])

    def plan(self, report: Report, runs: Sequence[Run], planned_until_ms: int) -> None:
        for run in runs:
            self.runs.setdefault(run.id, Kept(run))
        self.planned[report.id] = max(self.planned[report.id], planned_until_ms)

    def undecided(self, now_ms: int, limit: int, after: tuple[str, str] | None) -> WaitingRuns:
        oldest: dict[tuple[str, Trigger], Kept] = {}
        for kept in sorted(self.runs.values(), key=lambda it: (it.run.to_ms, it.run.from_ms)):
            if kept.run.state in UNDECIDED:
                oldest.setdefault((kept.run.report_id, kept.run.trigger), kept)
        behind = sorted(place for place in oldest if after is None or place > after)
        free = [oldest[place].run for place in behind if oldest[place].lease_until_ms <= now_ms]
        page = [(run, self.reports[run.report_id]) for run in free][:limit]
        last = page[-1][0] if len(page) == limit else None
        return WaitingRuns(page, [], None if last is None else (last.report_id, last.trigger))

    def _moved(self, kept: Kept, move: RunMove, **changed: Any) -> bool:
        if kept.run.state not in run_sources(move):
            return False
        kept.run = replace(kept.run, state=run_target(move), **changed)
        return True

    def await_runs(self, names: Sequence[str]) -> None:
        for name in names:
            if (kept := self.runs.get(name)) is not None:
                self._moved(kept, RunMove.WAIT)

    def claim(self, name: str, holder: str, now_ms: int, lease_until_ms: int) -> Claim | None:
        if (kept := self.runs.get(name)) is None:  # a late one that found nothing
            return None
        for other in self.runs.values():
            busy = other.run.state is RunState.MATERIALIZING and other.lease_until_ms > now_ms
            if busy and other.run.report_id == kept.run.report_id:
                return None
        if not self._moved(kept, RunMove.CLAIM):
            return None
        kept.holder, kept.lease_until_ms = holder, lease_until_ms
        report_id = kept.run.report_id
        return Claim(kept.run, self.reports[report_id], holder, self.sequence[report_id])

    def held(self, name: str, holder: str) -> bool:
        """Whether a holder still has a run."""
        kept = self.runs.get(name)
        if kept is None:  # a late one that found nothing
            return False
        return kept.run.state is RunState.MATERIALIZING and kept.holder == holder

    def release(self, name: str, holder: str) -> None:
        if self.held(name, holder):
            kept = self.runs[name]
            self._moved(kept, RunMove.RELEASE)
            kept.holder, kept.lease_until_ms = None, 0
            self._drop_staged(name, holder)

    def _drop_staged(self, name: str, holder: str) -> None:
        self.staged.pop((name, holder), None)
        self.staged_corrections.pop((name, holder), None)

    def stage(
        self, claim: Claim, drafts: Sequence[DeliveryDraft], lease_until_ms: int | None
    ) -> bool:
        if not self.held(claim.run.id, claim.holder):
            return False
        if lease_until_ms is not None:
            self.runs[claim.run.id].lease_until_ms = lease_until_ms
        rows = self.staged.setdefault((claim.run.id, claim.holder), {})
        for draft in drafts:
            rows.setdefault(draft.number, draft)
        return True

    def whole(self, claim: Claim, manifest: Manifest) -> bool:
        """Whether all that a manifest counts is staged: a lease that was given back may come again,
        without what was dropped with it.
        """
        key = claim.run.id, claim.holder
        corrections = len(self.staged_corrections.get(key, {}))
        return (len(self.staged.get(key, {})), corrections) == (
            manifest.deliveries,
            manifest.corrections,
        )

    def decide(self, claim: Claim, revision: int, manifest: Manifest, now_ms: int) -> bool:
        name, report_id = claim.run.id, claim.report.id
        lost = self.sequence[report_id] != claim.sequence_next
        if lost or not self.held(name, claim.holder) or not self.whole(claim, manifest):
            kept = self.runs.get(name)
            decided = kept is not None and kept.run.decided_at_ms is not None
            return decided and self.runs[name].holder == claim.holder
        self.appoint(claim, revision, manifest, now_ms)
        return True

    def appoint(self, claim: Claim, revision: int, manifest: Manifest, now_ms: int) -> None:
        """The decision itself, whatever stands against it."""
        kept = self.runs[claim.run.id]
        self.sequence[claim.report.id] = claim.sequence_next + manifest.deliveries
        state = RunState.RECORDED if manifest.corrections else RunState.SUCCEEDED
        state = RunState.DELIVERING if manifest.deliveries else state
        kept.run = replace(
            kept.run, state=state, meter_revision=revision, decided_at_ms=now_ms, manifest=manifest
        )
        kept.lease_until_ms = 0
        drafts = self.staged.get((claim.run.id, claim.holder), {})
        ordered = tuple(drafts[number] for number in sorted(drafts))
        staged = self.staged_corrections.get((claim.run.id, claim.holder), {})
        corrections = tuple(staged[number] for number in sorted(staged))
        decided = Decided(kept.run, claim.holder, manifest, ordered, claim.report, corrections)
        self.decided.append(decided)
        self.appointed(decided, now_ms)
        self.overtaken(kept.run, manifest.counted, now_ms)

    def close(
        self, claim: Claim, move: RunMove, reason: str, now_ms: int, counted: LogEnds | None
    ) -> bool:
        if not self.held(claim.run.id, claim.holder):
            return False
        kept = self.runs[claim.run.id]
        kept.lease_until_ms = 0
        for name, holder in self.staged.keys() | self.staged_corrections.keys():
            if name == claim.run.id:
                self._drop_staged(name, holder)
        if move is RunMove.UNCHANGED and (before := before_of(self, kept.run)) is not None:
            told = self.runs[before.run.id]
            assert told.run.manifest is not None, "decided"
            manifest = replace(told.run.manifest, counted=counted)
            told.run = replace(told.run, manifest=manifest)
        if move is RunMove.UNCHANGED and kept.run.trigger is Trigger.LATE:
            del self.runs[claim.run.id]
            return True
        return self._moved(kept, move, reason=reason, ended_at_ms=now_ms)

    def stage_corrections(
        self, claim: Claim, corrections: Sequence[Correction], number_first: int
    ) -> None:
        if self.held(claim.run.id, claim.holder):
            rows = self.staged_corrections.setdefault((claim.run.id, claim.holder), {})
            for place, correction in enumerate(corrections):
                rows.setdefault(number_first + place, correction)

    def windows(self) -> list[tuple[int, int]]:
        """Those that were told of."""
        return sorted({(one.run.from_ms, one.run.to_ms) for one in self.decided})

    def runs_of(self, window: tuple[str, int, int]) -> list[Run]:
        """The runs of a window by revision."""
        runs = [kept.run for kept in self.runs.values()]
        found = [run for run in runs if (run.report_id, run.from_ms, run.to_ms) == window]
        return sorted(found, key=lambda run: run.revision)

    def decided_runs(self) -> list[Run]:
        """Those that say something, by revision."""
        runs = [kept.run for kept in self.runs.values() if kept.run.manifest is not None]
        return sorted(runs, key=lambda run: run.revision)


def before_of(reports: ReportsState, run: Run) -> Decided | None:
    """The decision that a revision follows."""
    found = [
        one
        for one in reports.decided
        if (one.run.report_id, one.run.from_ms, one.run.to_ms)
        == (run.report_id, run.from_ms, run.to_ms)
        and one.run.revision < run.revision
    ]
    return max(found, key=lambda one: one.run.revision, default=None)


def booked_before(reports: ReportsState, run: Run) -> dict[str, Booked]:
    """By subject, the newest delivery of the window by earlier revisions."""
    window = (run.report_id, run.from_ms, run.to_ms)
    decided = [
        one
        for one in reports.decided
        if (one.run.report_id, one.run.from_ms, one.run.to_ms) == window
        and one.run.revision < run.revision
    ]
    return {
        draft.subject: Booked(draft.id, draft.usage_digest)
        for one in sorted(decided, key=lambda one: one.run.revision)
        for draft in one.deliveries
    }


class SimulatedReports:
    """`ReportStore` as the part of a dispatcher that makes runs reaches it."""

    def __init__(self, state: ReportsState, net: Net) -> None:
        self.state = state
        self.net = net

    async def _write(self, what: str, act: Callable[[], Any]) -> Any:
        return await self.net.call(f"reports.{what}", act, writes=True)

    async def plans(self, window_end_max_ms: int, limit: int) -> DuePlans:
        return await self.net.call(
            "reports.plans", lambda: self.state.plans(window_end_max_ms, limit)
        )

    async def plan(self, report: Report, runs: Sequence[Run], planned_until_ms: int) -> None:
        await self._write("plan", lambda: self.state.plan(report, runs, planned_until_ms))

    async def undecided(
        self, now_ms: int, limit: int, after: tuple[str, str] | None = None
    ) -> WaitingRuns:
        return await self.net.call(
            "reports.undecided", lambda: self.state.undecided(now_ms, limit, after)
        )

    async def await_runs(self, names: Sequence[str]) -> None:
        await self._write(f"await {', '.join(names)}", lambda: self.state.await_runs(names))

    async def claim_run(
        self, name: str, holder: str, now_ms: int, lease_until_ms: int
    ) -> Claim | None:
        claimed: Claim | None = await self._write(
            f"claim {name}", lambda: self.state.claim(name, holder, now_ms, lease_until_ms)
        )
        return claimed

    async def release_run(self, name: str, holder: str) -> None:
        await self._write(f"release {name}", lambda: self.state.release(name, holder))

    async def stage(
        self, claim: Claim, drafts: Sequence[DeliveryDraft], lease_until_ms: int | None = None
    ) -> bool:
        held: bool = await self._write(
            f"stage {claim.run.id}", lambda: self.state.stage(claim, drafts, lease_until_ms)
        )
        return held

    async def decide(self, claim: Claim, revision: int, manifest: Manifest, now_ms: int) -> bool:
        decided: bool = await self._write(
            f"decide {claim.run.id}", lambda: self.state.decide(claim, revision, manifest, now_ms)
        )
        return decided

    async def close_run(
        self,
        claim: Claim,
        move: RunMove,
        reason: str,
        now_ms: int,
        counted: LogEnds | None = None,
    ) -> bool:
        closed: bool = await self._write(
            f"close {claim.run.id}", lambda: self.state.close(claim, move, reason, now_ms, counted)
        )
        return closed

    async def booked(
        self, run: Run, after: str | None = None, until: str | None = None
    ) -> Mapping[str, Booked]:
        return await self.net.call(
            "reports.booked",
            lambda: {
                subject: held
                for subject, held in booked_before(self.state, run).items()
                if (after is None or subject > after) and (until is None or subject <= until)
            },
        )


async def plan_for_ever(sources: Sources, terms: PlanTerms, process: Process) -> None:
    """The part of a dispatcher that makes runs."""
    turn = 0
    while True:
        turn += 1
        with suppress(Unavailable):
            await find_due(sources.reports, process.now_ms(), CATCH_UP_MAX)
            await make_runs(sources, terms, process.now_ms, f"{process.name}/{turn}")
        await asyncio.sleep(0.4)


async def revise_for_ever(late: LateUsage, process: Process) -> None:
    """The part of a dispatcher that looks for late usage."""
    while True:
        with suppress(Unavailable):
            await late.turn(process.now_ms())
        await asyncio.sleep(0.4)
