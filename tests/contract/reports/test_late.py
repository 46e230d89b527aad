"""What every LateStore promises: looks, marks, late runs; and what runs that are decided meanwhile
do.
"""

import asyncio
from dataclasses import replace

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.report import (
    DecidedWindow,
    LateStore,
    LogEnds,
    Report,
    ReportState,
    ReportStore,
    Run,
    RunMove,
    RunState,
    Trigger,
)
from meterline.usage import Seal, SliceId, Stretch
from meterline.window import DAY_MS, HOUR_MS
from tests.contract.reports.conftest import (
    NOW,
    PAUSE_MS,
    START,
    claimed,
    decided,
    delivering,
    manifest,
    of,
    scheduled,
    the_run,
    window,
)

PARTITIONS = 2


@pytest.fixture
async def log(control_database: Database) -> int:
    return await SqlProgressStore(control_database).register_log("the log", PARTITIONS)


async def counting(store: ReportStore, run: Run, counted: LogEnds, holder: str = "c") -> None:
    """Decide a run without deliveries that has counted the log so far."""
    claim = await claimed(store, run, holder)
    said = replace(manifest(claim, 0), sequence_first=0, counted=counted)
    assert await store.decide(claim, 7, said, NOW)


async def test_sealed_slices_are_looked_at_once_each_in_whole_ones(
    control_database: Database, late: LateStore, log: int
) -> None:
    progress = SqlProgressStore(control_database)
    assert await late.unlooked(log, PARTITIONS, 100) == []

    async def seal(partition: int, first: int, end: int, events: int) -> None:
        await progress.seal(Seal(*SliceId(log, partition, first), end, events, 1, NOW))

    await seal(0, 0, 10, 60)
    await seal(0, 10, 30, 40)
    await seal(0, 35, 40, 1)  # a gap between offsets means nothing
    await seal(1, 7, 9, 1_000)
    await seal(1, 9, 11, 0)
    assert await late.unlooked(log, PARTITIONS, 100) == [Stretch(0, 0, 30), Stretch(1, 0, 9)]
    assert await late.unlooked(log + 1, PARTITIONS, 100) == []
    await late.begin_look(log, {0: 30, 1: 9})
    assert await late.looked(log) == {0: 0, 1: 0}
    assert await late.unlooked(log, PARTITIONS, 100) == [Stretch(0, 0, 30), Stretch(1, 0, 9)]
    for ends in ({0: 30, 1: 9}, {0: 10}):  # somebody slow does not bring it back
        await late.begin_look(log, ends)
        await late.end_look(log, ends)
    assert await late.looked(log) == {0: 30, 1: 9}
    assert await late.unlooked(log, PARTITIONS, 100) == [Stretch(0, 30, 40), Stretch(1, 9, 11)]
    await late.end_look(log, {0: 40, 1: 11})
    assert await late.unlooked(log, PARTITIONS, 100) == []


async def test_windows_are_found_by_meter_and_span(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(4)]
    await store.plan(report, runs, runs[-1].to_ms)
    counted = LogEnds(1, ((0, 3),))
    for run in runs[:3]:
        await counting(store, run, counted)
    long, _ = await store.request_run(report, START - 40 * DAY_MS, START + 1, NOW, revise=False)
    await counting(store, long, counted, "long")

    async def found(
        from_ms: int, to_ms: int, meter_id: str = report.meter_id, since_ms: int = NOW
    ) -> list[tuple[int, int]]:
        listed: list[DecidedWindow] = []
        while page := await late.decided_windows(
            [meter_id, "other"], from_ms, to_ms, since_ms, 2, listed[-1] if listed else None
        ):
            listed += page
        assert all(it.counted == counted and it.report_id == report.id for it in listed)
        return [(it.from_ms, it.to_ms) for it in listed]

    hours = [(run.from_ms, run.to_ms) for run in runs]
    whole = (long.from_ms, long.to_ms)
    assert await found(START + HOUR_MS, START + HOUR_MS + 1) == [hours[1]]
    assert await found(START + HOUR_MS - 1, START + 9 * HOUR_MS) == hours[:3]
    assert await found(START, START + 1) == [whole, hours[0]]
    assert await found(START - 39 * DAY_MS, START - 38 * DAY_MS) == [whole]
    assert await found(START - 50 * DAY_MS, START - 40 * DAY_MS) == []
    assert await found(0, START + DAY_MS, "another meter") == []
    assert await found(0, START + DAY_MS, since_ms=NOW + 1) == []
    assert await late.reported_meters() == {report.meter_id}
    await store.delete_report(report.id, NOW)
    assert await found(0, START + DAY_MS) == []
    assert await late.reported_meters() == set()


async def test_of_a_window_the_newest_decided_run_tells_how_far_it_counted(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await counting(store, run, LogEnds(1, ((0, 3),)))
    asked, _ = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=True)

    async def ends() -> list[LogEnds | None]:
        span = (run.from_ms, run.to_ms)
        return [it.counted for it in await late.decided_windows([report.meter_id], *span, NOW, 10)]

    assert await ends() == [LogEnds(1, ((0, 3),))]
    await counting(store, asked, LogEnds(1, ((0, 9), (1, 4))))
    assert await ends() == [LogEnds(1, ((0, 9), (1, 4)))]


async def test_a_marked_window_gets_one_late_run_and_not_again_within_the_pause(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    assert await late.due_windows(NOW + DAY_MS, PAUSE_MS, 10) == []
    assert await late.revise_late(window(first), NOW) is None
    await late.mark([of(report, first), of(report, first)], NOW + 60)
    await late.mark([of(report, first)], NOW + 5_000)  # it is to be revised already
    assert await late.due_windows(NOW + 59, PAUSE_MS, 10) == []
    assert await late.revise_late(window(first), NOW + 59) is None
    assert await late.due_windows(NOW + 60, PAUSE_MS, 10) == [window(first)]
    tries = await asyncio.gather(*(late.revise_late(window(first), NOW + 60) for _ in range(4)))
    (run,) = [one for one in tries if isinstance(one, Run)]
    assert run == await the_run(store, run)
    assert (run.trigger, run.state, run.revision) == (Trigger.LATE, RunState.WAITING, 2)
    assert (run.supersedes, run.meter_revision, run.asked_at_ms) == (first.id, 7, NOW + 60)
    assert await late.due_windows(NOW + DAY_MS, PAUSE_MS, 10) == []
    await late.mark([of(report, first)], NOW + 70)
    # until that run is decided it will say this as well
    assert await late.due_windows(NOW + DAY_MS, PAUSE_MS, 10) == []
    assert await late.revise_late(window(first), NOW + DAY_MS) is None
    await decided(store, run, "alice")
    assert await late.due_windows(NOW + 59 + PAUSE_MS, PAUSE_MS, 10) == []
    assert await late.due_windows(NOW + 60 + PAUSE_MS, PAUSE_MS, 10) == [window(first)]
    third = await late.revise_late(window(first), NOW + 60 + PAUSE_MS)
    assert isinstance(third, Run)
    assert (third.revision, third.supersedes) == (3, run.id)


async def test_of_a_late_run_that_finds_nothing_new_nothing_is_left(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    counted = LogEnds(1, ((0, 8),))
    for _ in range(3):
        await late.mark([of(report, first)], NOW)
        run = await late.revise_late(window(first), NOW)
        assert isinstance(run, Run)
        assert run.revision == 2
        claim = await claimed(store, run)
        assert await store.close_run(claim, RunMove.UNCHANGED, "the same", NOW, counted)
        assert await store.run(report.id, run.id) is None
        assert not await store.close_run(claim, RunMove.UNCHANGED, "the same", NOW, counted)
        # another dispatcher may have read of it before
        assert await store.claim_run(run.id, "slow", NOW, NOW + 60_000) is None
    (left,) = await store.runs(report.id, 10)
    assert left.manifest is not None
    assert left.manifest.counted == counted


async def test_who_asks_by_hand_takes_a_late_run_over(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    await late.mark([of(report, first)], NOW)
    run = await late.revise_late(window(first), NOW)
    assert isinstance(run, Run)
    held = await claimed(store, run)
    same, new = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=False)
    assert (same.id, new) == (first.id, False)
    asked, new = await store.request_run(report, run.from_ms, run.to_ms, NOW + 1, revise=True)
    assert (asked.id, asked.trigger, asked.state, new) == (
        run.id,
        Trigger.MANUAL,
        RunState.WAITING,
        False,
    )
    assert (asked.meter_revision, asked.asked_at_ms) == (None, NOW + 1)
    # whoever was at it as a late run has lost it
    empty = replace(manifest(held, 0), corrections=1, corrections_digest="d")
    assert not await store.decide(held, 7, empty, NOW)
    await decided(store, asked, "alice", holder="by hand")


async def test_a_late_run_that_was_refused_stays_and_the_next_one_follows(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    await late.mark([of(report, first)], NOW)
    run = await late.revise_late(window(first), NOW)
    assert isinstance(run, Run)
    assert await store.close_run(await claimed(store, run), RunMove.REFUSE, "too much", NOW)
    same, _ = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=False)
    assert same.id == first.id
    await late.mark([of(report, first)], NOW)
    following = await late.revise_late(window(first), NOW)
    assert isinstance(following, Run)
    assert (following.revision, following.supersedes) == (3, first.id)
    assert (await the_run(store, run)).state is RunState.FAILED


async def test_reports_that_are_paused_or_deleted_are_not_revised(
    store: ReportStore, late: LateStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    await late.mark([of(report, first)], NOW)
    await store.pause_report(report.id, NOW)
    assert await late.due_windows(NOW, PAUSE_MS, 10) == []
    await store.resume_report(report.id, NOW)
    found = await store.report("default", report.slug)
    assert found is not None
    assert found.state is ReportState.ACTIVE
    assert await late.due_windows(NOW, PAUSE_MS, 10) == [window(first)]
    await store.delete_report(report.id, NOW)
    assert await late.due_windows(NOW, PAUSE_MS, 10) == []
    assert await late.revise_late(window(first), NOW) is None


@pytest.mark.parametrize(
    ("counted", "marked"),
    [(((0, 30), (1, 9)), False), (((0, 29), (1, 9)), True), (((0, 30),), True)],
)
async def test_a_run_that_had_counted_less_than_is_being_looked_at_marks_itself(
    store: ReportStore,
    late: LateStore,
    report: Report,
    log: int,
    counted: tuple[tuple[int, int], ...],
    marked: bool,
) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await late.begin_look(log, {0: 30, 1: 9})
    await counting(store, run, LogEnds(log, counted))
    assert bool(await late.due_windows(NOW, PAUSE_MS, 10)) == marked


async def test_however_looks_and_decisions_meet_no_run_is_left_out(
    store: ReportStore, late: LateStore, report: Report, log: int
) -> None:
    """A look begins while a run is decided that had not counted what is looked at: it is found, or
    has marked itself.
    """
    for hour in range(12):
        run = scheduled(report, hour)
        await store.plan(report, [run], run.to_ms)
        claim = await claimed(store, run, f"h{hour}")
        ends = LogEnds(log, ((0, hour),))
        said = replace(manifest(claim, 0), sequence_first=0, counted=ends)

        async def look(run: Run = run, end: int = hour + 1) -> list[DecidedWindow]:
            await late.begin_look(log, {0: end})
            return await late.decided_windows([report.meter_id], run.from_ms, run.to_ms, 0, 10)

        found, was_decided = await asyncio.gather(look(), store.decide(claim, 7, said, NOW))
        assert was_decided
        marked = await late.due_windows(NOW, PAUSE_MS, 100)
        assert found or window(run) in marked
