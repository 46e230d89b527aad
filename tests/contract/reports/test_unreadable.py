"""A report or a run that this build cannot read holds up no other one."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from sqlalchemy import Table, update

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.backends.control_store.reports.definitions import park
from meterline.backends.control_store.tables.reports import report_runs, reports
from meterline.limits import PLAN_FAILED_REST_MS
from meterline.report import (
    LateStore,
    LateWindow,
    Report,
    ReportState,
    ReportStore,
    RunUnreadable,
    Unreadable,
)
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import NOW, PAUSE_MS, START, delivering, of, scheduled, window

END = START + HOUR_MS
BY_OTHERS = {"a filter": {"filter": '{"usage": 5}'}, "dimensions": {"group_by": "5"}}


async def written(
    database: Database, table: Table, id_: str, members: Mapping[str, object]
) -> None:
    await database.write(
        lambda given: given.execute(update(table).where(table.c.id == id_).values(members))
    )


@pytest.fixture
async def others(store: ReportStore, report: Report) -> list[Report]:
    """Before it and behind it in every order."""
    made = [replace(report, id=f"{name}R", slug=name) for name in ("00", "02")]
    for one in made:
        await store.create_report(one, START)
    return made


@pytest.mark.parametrize("members", BY_OTHERS.values(), ids=list(BY_OTHERS))
async def test_plans_of_others_are_given(
    control_database: Database,
    store: ReportStore,
    report: Report,
    others: list[Report],
    members: dict[str, object],
) -> None:
    await written(control_database, reports, report.id, members)
    due = await store.plans(END, 10)
    assert [plan.report for plan in due.found] == others
    ((report_id, namespace, slug, reason),) = due.unreadable
    assert (report_id, namespace, slug) == (report.id, "default", "monthly")
    assert reason


@pytest.mark.parametrize(
    ("table", "members"),
    [*((reports, members) for members in BY_OTHERS.values()), (report_runs, {"trigger": "moon"})],
    ids=[*BY_OTHERS, "a run"],
)
async def test_runs_of_others_are_given(
    control_database: Database,
    store: ReportStore,
    report: Report,
    others: list[Report],
    table: Table,
    members: dict[str, object],
) -> None:
    for one in (report, *others):
        await store.plan(one, [scheduled(one)], END)
    bad_row = report.id if table is reports else scheduled(report).id
    await written(control_database, table, bad_row, members)
    page = await store.undecided(NOW, 10)
    assert [run for run, _ in page.found] == [scheduled(one) for one in others]
    assert [(it.report_id, it.report) for it in page.unreadable] == [(report.id, "monthly")]


async def test_pages_go_on_behind_what_cannot_be_read(
    control_database: Database, store: ReportStore, report: Report, others: list[Report]
) -> None:
    for one in (report, *others):
        await store.plan(one, [scheduled(one)], END)
    await written(control_database, report_runs, scheduled(report).id, {"trigger": "moon"})
    met: list[object] = []
    after: tuple[str, str] | None = None
    for _ in range(4):
        page = await store.undecided(NOW, 1, after)
        met += [run.report_id for run, _ in page.found]
        met += [Unreadable for _ in page.unreadable]
        if (after := page.after) is None:
            break
    assert met == ["00R", Unreadable, "02R"]


LATE = {
    "a report": (reports, {"filter": "5"}),
    "a filter of others": (reports, {"filter": '{"usage": 5}'}),
    "a run": (report_runs, {"trigger": "moon"}),
    "how far it counted": (report_runs, {"counted": "5"}),
}


@pytest.mark.parametrize(("table", "members"), LATE.values(), ids=list(LATE))
async def test_late_windows_of_others_are_due_meanwhile(
    control_database: Database,
    store: ReportStore,
    late: LateStore,
    report: Report,
    others: list[Report],
    table: Table,
    members: dict[str, object],
) -> None:
    runs = [await delivering(store, one, "alice") for one in (report, others[0])]
    bad, good = (window(run) for run in runs)
    await late.mark([of(report, runs[0])], NOW)
    await late.mark([of(others[0], runs[1])], NOW + 1)
    bad_row = report.id if table is reports else runs[0].id
    await written(control_database, table, bad_row, members)
    span = runs[0].from_ms, runs[0].to_ms
    decided = await late.decided_windows([report.meter_id], *span, 0, 10)
    assert {it.report_id for it in decided} == {report.id, others[0].id}
    now_ms = NOW + PAUSE_MS

    async def due(at_ms: int, limit: int) -> list[LateWindow]:
        return await late.due_windows(at_ms, PAUSE_MS, limit)

    assert await due(now_ms, 1) == [bad]
    unreadable = await late.revise_late(bad, now_ms)
    assert isinstance(unreadable, Unreadable)
    assert unreadable.report == "monthly"
    assert await due(now_ms, 1) == [good]
    assert await late.revise_late(good, now_ms)
    assert await due(now_ms + PLAN_FAILED_REST_MS, 10) == [bad], "nothing of it is lost"


async def test_what_cannot_be_read_is_parked_and_deleted_like_others(
    control_database: Database, store: ReportStore, report: Report, others: list[Report]
) -> None:
    await written(control_database, reports, report.id, {"filter": "5"})
    await control_database.write(lambda on: park(on, "default", report.endpoint, "gone", NOW))
    parked = [await store.report("default", it.id) for it in others]
    assert [it.state for it in parked if it is not None] == [ReportState.PARKED] * 2
    await store.delete_report(report.id, NOW)
    assert [it.id for it in await store.reports("default")] == ["00R", "02R"]


async def test_a_run_is_not_made_behind_one_that_cannot_be_read(
    control_database: Database, store: ReportStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    await written(control_database, report_runs, first.id, {"trigger": "moon"})
    with pytest.raises(RunUnreadable, match="moon"):
        await SqlCorrectionStore(control_database).baseline(scheduled(report, revision=2))
