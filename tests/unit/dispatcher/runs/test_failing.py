"""A report whose windows cannot be recorded keeps no other one from its runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dispatcher.runs.failing import Failing
from dispatcher.runs.planner import find_due, make_runs
from meterline.limits import PLAN_FAILED_REST_MS, PLAN_REPORTS_MAX
from meterline.ports import Unavailable
from meterline.report import (
    Baseline,
    CorrectionStore,
    DuePlans,
    Report,
    ReportStore,
    Run,
    RunUnreadable,
    Unreadable,
)
from meterline.window import MINUTE_MS
from tests.unit.dispatcher.conftest import START_MS, Rig
from tests.unit.dispatcher.runs.test_planner import END_MS, URL


class Refusing:
    """A store that cannot record runs of some reports."""

    def __init__(self, reports: ReportStore, refused: dict[str, Exception]) -> None:
        self._reports = reports
        self.refused = refused
        self.tried: list[str] = []
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reports, name)

    async def plans(self, window_end_max_ms: int, limit: int) -> DuePlans:
        self.asked.append(limit)
        return await self._reports.plans(window_end_max_ms, limit)

    async def plan(self, report: Report, runs: Sequence[Run], planned_until_ms: int) -> None:
        self.tried.append(report.slug)
        if report.slug in self.refused:
            raise self.refused[report.slug]
        await self._reports.plan(report, runs, planned_until_ms)


async def made(rig: Rig, *slugs: str) -> list[Report]:
    return [await rig.report(URL, slug) for slug in slugs]


async def found(rig: Rig, reports: Sequence[Report]) -> list[str]:
    """The reports that have runs."""
    return [one.slug for one in reports if await rig.reports.runs(one.id, 10)]


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("a bad row"), "report_failed"), (Unavailable("locked"), "report_unavailable")],
)
async def test_a_report_that_fails_keeps_no_other_from_its_runs(
    rig: Rig, error: Exception, told: str
) -> None:
    reports = await made(rig, "first", "second", "third")
    store, failing = Refusing(rig.reports, {"first": error}), Failing()
    refusing = cast("ReportStore", store)
    with capture_logs() as lines:
        assert await find_due(refusing, END_MS, 10, failing) == 2
    assert await found(rig, reports) == ["second", "third"]
    assert [(line["action"], line["report"]) for line in lines] == [(told, "first")]
    with capture_logs() as lines:
        assert await find_due(refusing, END_MS + 1_000, 10, failing) == 0
    assert not lines, "it rests: it is told once"
    assert store.tried == ["first", "second", "third"]
    assert store.asked == [PLAN_REPORTS_MAX, PLAN_REPORTS_MAX + 1], "it takes no place of others"
    store.refused = {}
    assert await find_due(refusing, END_MS + PLAN_FAILED_REST_MS, 10, failing) == 1
    assert failing.count == 0
    assert await found(rig, reports) == ["first", "second", "third"]


async def test_a_report_that_rests_is_tried_at_once_by_a_clock_that_was_set_back(rig: Rig) -> None:
    reports = await made(rig, "first")
    store, failing = Refusing(rig.reports, {"first": ValueError("a bad row")}), Failing()
    refusing = cast("ReportStore", store)
    assert await find_due(refusing, END_MS + 1_000, 10, failing) == 0
    store.refused = {}
    assert await find_due(refusing, END_MS, 10, failing) == 1
    assert await found(rig, reports) == ["first"]


async def test_a_store_that_is_away_is_not_asked_for_each_report(rig: Rig) -> None:
    reports = await made(rig, "first", "second", "third")
    away = Unavailable("no connection")
    store = Refusing(rig.reports, {report.slug: away for report in reports})
    with pytest.raises(Unavailable, match="no connection"):
        await find_due(cast("ReportStore", store), END_MS, 10, Failing())
    assert store.tried == ["first", "second"]


async def test_a_report_that_cannot_be_read_is_told_once_and_takes_no_place(rig: Rig) -> None:
    reports = await made(rig, "first", "second")
    failing, asked = Failing(), list[int]()

    class Reading(Refusing):
        async def plans(self, window_end_max_ms: int, limit: int) -> DuePlans:
            asked.append(limit)
            due = await self._reports.plans(window_end_max_ms, limit)
            return DuePlans(due.found, [Unreadable("bad", "default", "third", "a word")])

    store = cast("ReportStore", Reading(rig.reports, {}))
    with capture_logs() as lines:
        assert await find_due(store, END_MS, 10, failing) == 2
        assert await find_due(store, END_MS + 1_000, 10, failing) == 0
    assert await found(rig, reports) == ["first", "second"]
    told = [(it["action"], it["namespace"], it["report"], it["reason"]) for it in lines]
    assert told == [("report_unreadable", "default", "third", "a word")]
    assert asked == [PLAN_REPORTS_MAX, PLAN_REPORTS_MAX + 1]
    with capture_logs() as lines:
        await find_due(store, END_MS + PLAN_FAILED_REST_MS, 10, failing)
    assert len(lines) == 1, "it is told again after a rest"


async def test_a_run_behind_one_that_cannot_be_read_keeps_no_other_from_its_turn(rig: Rig) -> None:
    reports = await made(rig, "first", "second")
    await find_due(rig.reports, END_MS, 10)
    await rig.complete(END_MS + 2 * MINUTE_MS)
    assert await make_runs(rig.sources, rig.plan_terms, lambda: END_MS, "h") == 2
    for one in reports:
        await rig.reports.request_run(one, START_MS, END_MS, END_MS, revise=True)
    corrections = rig.sources.corrections

    class Behind:
        def __getattr__(self, name: str) -> Any:
            return getattr(corrections, name)

        async def baseline(self, run: Run) -> Baseline | None:
            if run.report_id == reports[0].id:
                raise RunUnreadable("a word")
            return await corrections.baseline(run)

    sources = replace(rig.sources, corrections=cast("CorrectionStore", Behind()))
    with capture_logs() as lines:
        assert await make_runs(sources, rig.plan_terms, lambda: END_MS, "h2") == 1
    assert [(it["action"], it["report"], it["reason"]) for it in lines] == [
        ("report_unreadable", "first", "a word")
    ]
