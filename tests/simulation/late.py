"""The simulated search for late usage, and what its revisions correct."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from dispatcher.runs.late import LateTerms
from meterline.report import (
    UNDECIDED,
    Baseline,
    Claim,
    Correction,
    DecidedWindow,
    KeptCorrection,
    LateWindow,
    LogEnds,
    Run,
    RunState,
    Trigger,
    run_id,
)
from meterline.usage import Stretch, Touched
from meterline.window import MINUTE_MS
from tests.simulation.network import Net
from tests.simulation.progress import ProgressState
from tests.simulation.reports import Kept, ReportsState, before_of
from tests.simulation.usage import UsageState

SETTLE_MS: Final = 3_000  # short, as the lives of dispatchers are
PAUSE_MS: Final = 20_000
Window = tuple[str, int, int]  # report, from, to


def late_terms(log: int, partitions: int) -> LateTerms:
    """When late usage becomes a revision here."""
    return LateTerms(log, partitions, settle_ms=SETTLE_MS, pause_ms=PAUSE_MS, events_max=40)


class LateState:
    """How far the log was looked at, and the windows that are to be revised."""

    def __init__(self, reports: ReportsState, progress: ProgressState, usage: UsageState) -> None:
        self.reports = reports
        self.progress = progress
        self.usage = usage
        self.begun: dict[int, int] = {}
        self.looked: dict[int, int] = {}
        self.due: dict[Window, int] = {}
        self.revised: dict[Window, int] = {}
        reports.overtaken = self.mark_overtaken

    def at_rest(self, ends: Mapping[int, int]) -> bool:
        """Whether all below these ends was looked at, and everything found is in a run."""
        looked = all(self.looked.get(number, 0) >= end for number, end in ends.items())
        late = [it.run for it in self.reports.runs.values() if it.run.trigger is Trigger.LATE]
        return looked and not self.due and not any(run.state in UNDECIDED for run in late)

    def unlooked(self, log: int, partitions: int, events_max: int) -> list[Stretch]:
        found = []
        for number in range(max(partitions, self.progress.layout(log).partitions)):
            first, end, events = self.looked.get(number, 0), None, 0
            for seal in sorted(s for s in self.progress.seals.values() if s.log == log):
                if seal.partition != number or seal.slice < first:
                    continue
                events += seal.events
                if end is not None and events > events_max:
                    break
                end = seal.end
            if end is not None:
                found.append(Stretch(number, first, end))
        return found

    def put(self, ends: Mapping[int, int], kept: dict[int, int]) -> None:
        for number, end in ends.items():
            kept[number] = max(end, kept.get(number, 0))

    def touched(
        self, stretch: Stretch, types: Collection[tuple[str, str]], late_by_ms: int | None
    ) -> list[Touched]:
        last: dict[tuple[str, str, int], int] = {}
        for row in self.usage.tables["events"].values():
            late = late_by_ms is None or row.append_ms - row.time_ms >= late_by_ms
            within = stretch.first <= row.offset < stretch.end
            if row.partition != stretch.partition or not within:
                continue
            if late and (row.namespace, row.type) in types:
                key = (row.namespace, row.type, row.time_ms // MINUTE_MS)
                last[key] = max(row.offset, last.get(key, 0))
        return [Touched(stretch.partition, *key, offset) for key, offset in sorted(last.items())]

    def decided_windows(
        self, meter_ids: Collection[str], from_ms: int, to_ms: int
    ) -> list[DecidedWindow]:
        newest: dict[Window, Run] = {}
        for run in self.reports.decided_runs():
            newest[run.report_id, run.from_ms, run.to_ms] = run
        return [
            DecidedWindow(
                run.report_id, meter_id, run.from_ms, run.to_ms,
                None if run.manifest is None else run.manifest.counted,
            )
            for key, run in sorted(newest.items())
            if (meter_id := self.reports.reports[run.report_id].meter_id) in meter_ids
            and run.from_ms < to_ms and run.to_ms > from_ms
        ]  # fmt: skip

    def mark(self, windows: Sequence[Window], due_at_ms: int) -> None:
        for window in windows:
            self.due.setdefault(window, due_at_ms)

    def mark_overtaken(self, run: Run, counted: LogEnds | None, now_ms: int) -> None:
        """In the transaction that decides a run."""
        if counted is not None and any(
            begun > counted.end(counted.log, number) for number, begun in self.begun.items()
        ):
            self.mark([(run.report_id, run.from_ms, run.to_ms)], now_ms)

    def undecided(self, window: Window) -> bool:
        return any(run.state in UNDECIDED for run in self.reports.runs_of(window))

    def due_windows(self, now_ms: int, pause_ms: int, limit: int) -> list[LateWindow]:
        found = [
            (due_ms, window)
            for window, due_ms in self.due.items()
            if due_ms <= now_ms
            and self.revised.get(window, 0) <= now_ms - pause_ms
            and not self.undecided(window)
        ]
        return [LateWindow(*window) for _, window in sorted(found)][:limit]

    def revise(self, late: LateWindow, now_ms: int) -> Run | None:
        window = (late.report_id, late.from_ms, late.to_ms)
        if self.due.get(window, now_ms + 1) > now_ms:
            return None
        runs = self.reports.runs_of(window)
        told = [run for run in runs if run.manifest is not None]
        if not told or self.undecided(window):
            return None
        revision = runs[-1].revision + 1
        run = Run(
            run_id(*window, revision), late.report_id, "default", late.from_ms, late.to_ms,
            revision, Trigger.LATE, now_ms, RunState.WAITING,
            supersedes=told[-1].id, meter_revision=told[-1].meter_revision,
        )  # fmt: skip
        self.reports.runs[run.id] = Kept(run)
        del self.due[window]
        self.revised[window] = now_ms
        return run


class SimulatedLate:
    """`LateStore`, `LateEvents` and `CorrectionStore` as one dispatcher reaches them."""

    def __init__(self, state: LateState, net: Net) -> None:
        self._state = state
        self._reports = state.reports
        self._net = net

    async def _read(self, what: str, act: Any) -> Any:
        return await self._net.call(f"reports.{what}", act)

    async def _write(self, what: str, act: Any) -> Any:
        return await self._net.call(f"reports.{what}", act, writes=True)

    async def looked(self, _log: int) -> dict[int, int]:
        return dict(await self._read("looked", lambda: dict(self._state.looked)))

    async def unlooked(self, log: int, partitions: int, events_max: int) -> list[Stretch]:
        return list(
            await self._read("unlooked", lambda: self._state.unlooked(log, partitions, events_max))
        )

    async def begin_look(self, _log: int, ends: Mapping[int, int]) -> None:
        await self._write("begin_look", lambda: self._state.put(ends, self._state.begun))

    async def end_look(self, _log: int, ends: Mapping[int, int]) -> None:
        await self._write("end_look", lambda: self._state.put(ends, self._state.looked))

    async def reported_meters(self) -> set[str]:
        state = self._reports
        return set(
            await self._read("meters", lambda: {it.meter_id for it in state.reports.values()})
        )

    async def decided_windows(
        self,
        meter_ids: Collection[str],
        from_ms: int,
        to_ms: int,
        _since_ms: int,
        limit: int,
        after: DecidedWindow | None = None,
    ) -> list[DecidedWindow]:
        assert after is None, "all come at once here"
        found = await self._read(
            "decided_windows", lambda: self._state.decided_windows(meter_ids, from_ms, to_ms)
        )
        assert len(found) < limit, "or pages would be asked for"
        return list(found)

    async def mark(self, windows: Sequence[DecidedWindow], due_at_ms: int) -> None:
        keys = [(it.report_id, it.from_ms, it.to_ms) for it in windows]
        await self._write(f"mark {keys}", lambda: self._state.mark(keys, due_at_ms))

    async def due_windows(self, now_ms: int, pause_ms: int, limit: int) -> list[LateWindow]:
        return list(
            await self._read(
                "due_windows", lambda: self._state.due_windows(now_ms, pause_ms, limit)
            )
        )

    async def revise_late(self, window: LateWindow, now_ms: int) -> Run | None:
        run: Run | None = await self._write(
            f"revise_late {window}", lambda: self._state.revise(window, now_ms)
        )
        return run

    async def touched(
        self,
        _log: int,
        stretch: Stretch,
        namespaced_types: Collection[tuple[str, str]],
        late_by_ms: int | None = None,
    ) -> list[Touched]:
        return await self._net.call(
            f"usage.touched {stretch}",
            lambda: self._state.touched(stretch, namespaced_types, late_by_ms),
        )

    async def baseline(self, run: Run) -> Baseline | None:
        before = await self._read("baseline", lambda: before_of(self._reports, run))
        if before is None:
            return None
        recorded = not before.manifest.deliveries
        return Baseline(
            before.run.id,
            before.run.meter_revision,
            before.report.group_by,
            before.report.filter,
            before.manifest.corrections_digest if recorded else None,
        )

    async def sent_bodies(self, delivery_ids: Collection[str]) -> dict[str, bytes]:
        def find() -> dict[str, bytes]:
            drafts = [draft for one in self._reports.decided for draft in one.deliveries]
            return {draft.id: draft.body for draft in drafts if draft.id in delivery_ids}

        return dict(await self._read("sent_bodies", find))

    async def stage_corrections(
        self, claim: Claim, corrections: Sequence[Correction], number_first: int
    ) -> None:
        await self._write(
            f"stage_corrections {claim.run.id}",
            lambda: self._reports.stage_corrections(claim, corrections, number_first),
        )

    async def corrections(self, run_id: str, limit: int, after: int = 0) -> list[KeptCorrection]:
        raise NotImplementedError(f"nobody lists {limit} corrections of {run_id} after {after}")
