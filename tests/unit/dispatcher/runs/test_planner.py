"""The planner's steps: due, complete, made once, whoever dies on the way."""

import asyncio

import pytest

from dispatcher.runs.planner import find_due, make_runs
from meterline.delivery import Delivery, SendGrant
from meterline.meter import Aggregation, MeterDraft
from meterline.number import UNIT
from meterline.ports import Unavailable
from meterline.problem import Problem, ProblemType
from meterline.report import (
    Interval,
    Report,
    ReportChange,
    ReportFilter,
    Run,
    RunState,
    Schedule,
    Trigger,
)
from meterline.report.body import manifest_digest
from meterline.usage import Comparison, Condition, UsageQuery
from meterline.window import HOUR_MS, MINUTE_MS
from tests.portions import drafts, first_statements
from tests.unit.dispatcher.conftest import START_MS, Rig

URL = "https://example.com/hook"
END_MS = START_MS + MINUTE_MS
LATER_MS = END_MS + 2 * MINUTE_MS


@pytest.fixture
async def report(rig: Rig) -> Report:
    rig.usage.cells = {
        ("acme", "a", START_MS): 3 * UNIT,
        ("acme", "b", START_MS + 1): 4 * UNIT,
        ("zeta", "a", END_MS - 1): 5 * UNIT,
        ("late", "a", END_MS): 6 * UNIT,
    }
    return await rig.report(URL)


async def make(rig: Rig, now_ms: int, holder: str = "h") -> int:
    await find_due(rig.reports, now_ms, 1_000)
    return await make_runs(rig.sources, rig.plan_terms, lambda: now_ms, f"{holder}{now_ms}")


async def first_run(rig: Rig, report: Report) -> Run:
    return (await rig.reports.runs(report.id, 100))[-1]


async def deliveries(rig: Rig, run: Run) -> list[Delivery]:
    return await rig.reports.deliveries(run.id, 100)


async def test_a_run_waits_until_its_window_and_grace_are_complete(
    rig: Rig, report: Report
) -> None:
    assert await make(rig, END_MS - 1) == 0
    assert await rig.reports.runs(report.id, 10) == []
    assert await make(rig, END_MS) == 0
    assert (await first_run(rig, report)).state is RunState.WAITING
    await rig.complete(END_MS + MINUTE_MS - 1)
    assert await make(rig, END_MS) == 0
    await rig.complete(END_MS + MINUTE_MS)
    assert await make(rig, END_MS) == 1
    run = await first_run(rig, report)
    assert run.state is RunState.DELIVERING
    assert run.meter_revision == rig.meter.revision
    assert [(d.subject, d.number) for d in await deliveries(rig, run)] == [
        ("acme", 1),
        ("zeta", 2),
    ]
    assert run.manifest is not None
    assert (run.manifest.deliveries, run.manifest.entries) == (2, 3)
    assert (run.manifest.total, run.manifest.filtered_out) == (12 * UNIT, 0)
    assert run.manifest.complete_until_ms == END_MS + MINUTE_MS


async def test_a_report_may_have_a_grace_of_its_own(rig: Rig, report: Report) -> None:
    await rig.reports.update_report(report.id, ReportChange(grace_ms=3 * MINUTE_MS), START_MS + 1)
    await rig.complete(END_MS + 3 * MINUTE_MS - 1)
    assert await make(rig, END_MS) == 0
    await rig.complete(END_MS + 3 * MINUTE_MS)
    assert await make(rig, END_MS) == 1


async def test_one_partition_behind_holds_the_run(rig: Rig, report: Report) -> None:
    await rig.sources.progress.complete(1, rig.meter.revision, {0: LATER_MS})
    assert await make(rig, END_MS) == 0
    assert (await first_run(rig, report)).state is RunState.WAITING


async def test_entries_that_do_not_pass_are_left_out_and_counted(rig: Rig) -> None:
    filter_ = ReportFilter(
        usage=(Condition(Comparison.GT, (3 * UNIT,)),),
        subject=(Condition(Comparison.NE, ("zeta",)),),
    )
    rig.usage.cells = {
        ("acme", "a", START_MS): 3 * UNIT,
        ("acme", "b", START_MS): 4 * UNIT,
        ("zeta", "a", START_MS): 5 * UNIT,
    }
    report = await rig.report(URL, filter_=filter_)
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 1
    run = await first_run(rig, report)
    assert run.manifest is not None
    assert (run.manifest.entries, run.manifest.filtered_out) == (1, 2)
    assert (run.manifest.total, run.manifest.total_filtered_out) == (4 * UNIT, 8 * UNIT)
    assert [d.subject for d in await deliveries(rig, run)] == ["acme"]


async def test_without_usage_a_run_succeeds_with_nothing_to_deliver(rig: Rig) -> None:
    report = await rig.report(URL)
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 1
    run = await first_run(rig, report)
    assert run.state is RunState.SUCCEEDED
    assert run.manifest is not None
    assert (run.manifest.deliveries, run.manifest.sequence_first) == (0, 0)


async def test_many_planners_make_a_run_once(rig: Rig, report: Report) -> None:
    await rig.complete(LATER_MS)
    made = await asyncio.gather(*(make(rig, END_MS, f"h{n}") for n in range(5)))
    assert sum(made) == 1
    (run,) = await rig.reports.runs(report.id, 10)
    assert len(await deliveries(rig, run)) == 2


async def test_a_run_made_again_after_a_crash_has_the_same_ids_and_bytes(
    rig: Rig, report: Report
) -> None:
    until_ms = LATER_MS
    await rig.complete(until_ms)
    await find_due(rig.reports, END_MS, 10)
    ((run, _),) = (await rig.reports.undecided(END_MS, 10)).found
    dead = await rig.reports.claim_run(run.id, "dead", END_MS, END_MS + 1_000)
    assert dead is not None
    query = UsageQuery(rig.meter, START_MS, END_MS, group_by=("subject", "model"))
    said = first_statements(run, await rig.usage.usage(query), report.filter)
    written = drafts(report, rig.meter, run, said, dead.sequence_next, until_ms)
    await rig.reports.stage(dead, written)  # and here it dies
    assert await make(rig, END_MS) == 0  # its lease holds
    assert await make(rig, END_MS + 1_001) == 1
    claimed_deliveries = await rig.reports.claim_deliveries(
        [SendGrant(report.id, 10)], LATER_MS, LATER_MS + 1
    )
    assert len(claimed_deliveries) == 2
    assert [(p.delivery_id, p.body) for p in claimed_deliveries] == [
        (d.id, d.body) for d in written
    ]
    manifest = (await first_run(rig, report)).manifest
    assert manifest is not None
    assert manifest.digest == manifest_digest([(d.id, d.digest) for d in written])


async def test_a_store_that_is_away_gives_the_lease_back(rig: Rig, report: Report) -> None:
    await rig.complete(LATER_MS)
    rig.usage.errors = [Unavailable("usage store: away")]
    with pytest.raises(Unavailable):
        await make(rig, END_MS)
    assert (await first_run(rig, report)).state is RunState.WAITING
    assert await make(rig, END_MS + 1) == 1


async def test_a_run_that_cannot_be_made_now_leaves_the_turn_to_others(
    rig: Rig, report: Report
) -> None:
    draft = MeterDraft(
        "other", "Other", Aggregation.COUNT, "prompt", dimensions=(("model", "$.m"),)
    )
    heavy = rig.meter
    rig.meter = await rig.sources.catalogue.create_meter("default", draft, START_MS)
    light = await rig.report(URL, "light")
    for meter in (heavy, rig.meter):
        rig.meter = meter
        await rig.complete(LATER_MS)
    # The one that comes first is asked first, and its neighbours are not asked the same again.
    away = Unavailable("memory limit exceeded")
    rig.usage.errors = [away]
    assert await make(rig, END_MS) == 1
    assert (await first_run(rig, report)).state is RunState.WAITING
    assert (await first_run(rig, light)).state is RunState.DELIVERING
    rig.usage.errors = [away]
    run = await first_run(rig, report)
    with pytest.raises(Unavailable, match=f"{run.id}.*'minutely'.*memory limit exceeded"):
        await make(rig, END_MS + 1)
    assert await make(rig, END_MS + 2) == 1


async def test_a_question_that_cannot_be_answered_fails_the_run_with_words(
    rig: Rig, report: Report
) -> None:
    await rig.complete(LATER_MS)
    rig.usage.errors = [Problem(ProblemType.BAD_REQUEST, "too many rows")]
    assert await make(rig, END_MS) == 1
    run = await first_run(rig, report)
    assert (run.state, run.reason) == (RunState.FAILED, "too many rows")
    again, new = await rig.reports.request_run(report, START_MS, END_MS, LATER_MS, revise=False)
    assert (again.id, new) == (run.id, False)
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 1
    assert (await first_run(rig, report)).state is RunState.DELIVERING


async def test_a_key_that_the_meter_lost_fails_the_run_with_words(rig: Rig, report: Report) -> None:
    changed = MeterDraft("tokens", "Tokens", Aggregation.SUM, "prompt", "$.tokens")
    catalogue = rig.sources.catalogue
    await catalogue.put_settings_meters("default", [changed], LATER_MS)
    (waiting,) = await catalogue.filling()
    assert await catalogue.switch_filled(waiting, LATER_MS) is not None
    rig.meter = (await rig.sources.catalogue.meters("default"))[0]
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 1
    run = await first_run(rig, report)
    assert run.state is RunState.FAILED
    assert "no longer has the dimension 'model'" in run.reason


async def test_missed_windows_run_in_order_and_are_asked_about_one_at_a_time(
    rig: Rig, report: Report
) -> None:
    now_ms = START_MS + 5 * MINUTE_MS
    await rig.complete(now_ms + 2 * MINUTE_MS)
    for _ in range(5):
        assert await make(rig, now_ms) == 1
        now_ms += 1
    runs = await rig.reports.runs(report.id, 10)
    assert all(run.manifest is not None for run in runs)
    asked = [query.from_ms for query in rig.usage.asked]
    assert asked == [START_MS + n * MINUTE_MS for n in range(5)]
    numbers = [d.sequence for run in runs[::-1] for d in await deliveries(rig, run)]
    assert numbers == [1, 2, 3]


async def test_reports_on_one_meter_and_window_share_a_question(rig: Rig, report: Report) -> None:
    others = [await rig.report(URL, f"r{n}") for n in range(3)]
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 4
    assert len(rig.usage.asked) == 1
    for one in (report, *others):
        assert len(await deliveries(rig, await first_run(rig, one))) == 2


async def test_a_run_by_hand_waits_for_what_was_sent_before_it_was_asked_for(
    rig: Rig, report: Report
) -> None:
    long_past = START_MS - 100 * MINUTE_MS
    rig.usage.cells["old", "a", long_past] = UNIT
    run, _ = await rig.reports.request_run(
        report, long_past, long_past + MINUTE_MS, END_MS - 10, revise=False
    )
    await rig.complete(END_MS - 11)
    assert await make(rig, END_MS - 1) == 0
    await rig.complete(END_MS - 10)
    assert await make(rig, END_MS - 1) == 1
    made = await rig.reports.run(report.id, run.id)
    assert made is not None
    assert (made.state, made.trigger) == (RunState.DELIVERING, Trigger.MANUAL)
    assert [d.subject for d in await deliveries(rig, made)] == ["old"]


async def revised(rig: Rig, report: Report, now_ms: int) -> Run:
    run, new = await rig.reports.request_run(report, START_MS, END_MS, now_ms, revise=True)
    assert new
    await rig.complete(now_ms + MINUTE_MS)
    assert await make_runs(rig.sources, rig.plan_terms, lambda: now_ms, f"rev{now_ms}") == 1
    made = await rig.reports.run(report.id, run.id)
    assert made is not None
    return made


async def test_a_revision_delivers_what_differs_and_names_what_it_replaces(
    rig: Rig, report: Report
) -> None:
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 1
    first = {d.subject: d for d in await deliveries(rig, await first_run(rig, report))}
    rig.usage.cells["acme", "b", START_MS + 1] += UNIT
    rig.usage.cells["new", "a", START_MS] = UNIT
    second = await revised(rig, report, LATER_MS)
    told = {d.subject: d for d in await deliveries(rig, second)}
    assert {name: d.supersedes for name, d in told.items()} == {
        "acme": first["acme"].id,
        "new": None,
    }
    assert all(d.revision == 2 for d in told.values())
    assert [d.sequence for d in told.values()] == [3, 4]
    del rig.usage.cells["new", "a", START_MS]
    third = await revised(rig, report, LATER_MS + 1)
    (gone,) = await deliveries(rig, third)
    assert (gone.subject, gone.supersedes, gone.revision) == ("new", told["new"].id, 3)
    fourth = await revised(rig, report, LATER_MS + 2)
    assert fourth.state is RunState.SKIPPED
    assert "the previous revision" in fourth.reason


async def test_a_report_that_is_changed_while_its_run_is_made_is_made_as_changed(
    rig: Rig, report: Report
) -> None:
    only_zeta = ReportFilter(subject=(Condition(Comparison.EQ, ("zeta",)),))

    async def change() -> None:
        await rig.reports.update_report(
            report.id, ReportChange(filter=only_zeta, group_by=()), END_MS
        )

    rig.usage.meanwhile = change
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 0
    assert (await first_run(rig, report)).state is RunState.WAITING
    assert await make(rig, END_MS + 1) == 1
    run = await first_run(rig, report)
    assert [d.subject for d in await deliveries(rig, run)] == ["zeta"]
    # the last: what the filter leaves out, in figures
    assert [query.dimensions for query in rig.usage.asked] == [("model",), (), ()]


async def test_a_change_of_the_schedule_leaves_no_gap_and_no_overlap(
    rig: Rig, report: Report
) -> None:
    now_ms = START_MS + 90 * MINUTE_MS
    await find_due(rig.reports, now_ms, 1_000)
    hourly = ReportChange(schedule=Schedule(Interval.HOUR, START_MS))
    changed = await rig.reports.update_report(report.id, hourly, now_ms)
    assert changed.takeover is not None
    end_ms = START_MS + 5 * HOUR_MS
    await find_due(rig.reports, end_ms, 1_000)
    runs = (await rig.reports.runs(report.id, 1_000))[::-1]
    edges = [START_MS, *(run.to_ms for run in runs)]
    assert [run.from_ms for run in runs] == edges[:-1]
    assert edges[-1] == end_ms
    assert len(runs) == 120 + 3
