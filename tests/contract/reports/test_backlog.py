"""What the installation has still to report: BacklogStore, on both databases."""

from dataclasses import replace

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.reports.backlog import SqlBacklogStore
from meterline.delivery import DeliveryMove, SendGrant
from meterline.report import Backlog, BacklogStore, Report, ReportStore
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import NOW, START, decided, ended, scheduled
from tests.contract.reports.test_endpoints import out


@pytest.fixture
def backlog(control_database: Database) -> BacklogStore:
    return SqlBacklogStore(control_database)


async def test_an_empty_installation_owes_nothing(backlog: BacklogStore, report: Report) -> None:
    assert report.id
    assert await backlog.backlog(NOW, NOW) == Backlog(0, 0, 0, None, 0)


async def test_runs_are_due_when_their_window_ended_and_late_after_that(
    backlog: BacklogStore, store: ReportStore, report: Report
) -> None:
    runs = [replace(scheduled(report, hour), asked_at_ms=START) for hour in range(3)]
    await store.plan(report, runs, runs[-1].to_ms)
    second_ends = START + 2 * HOUR_MS
    assert await backlog.backlog(second_ends, START) == Backlog(2, 0, 0, None, 0)
    assert await backlog.backlog(second_ends, second_ends - 1) == Backlog(2, 1, 0, None, 0)
    assert await backlog.backlog(second_ends + 9, second_ends) == Backlog(2, 2, 0, None, 0)


async def test_a_run_that_was_just_asked_for_is_not_late_however_old_its_window(
    backlog: BacklogStore, store: ReportStore, report: Report
) -> None:
    run = replace(scheduled(report), asked_at_ms=START + 9 * HOUR_MS)
    await store.plan(report, [run], run.to_ms)
    assert await backlog.backlog(START + 9 * HOUR_MS, START + 8 * HOUR_MS) == Backlog(
        1, 0, 0, None, 0
    )


async def test_what_is_owed_and_since_when(
    backlog: BacklogStore, store: ReportStore, report: Report
) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, "a", "b", "c")
    assert await backlog.backlog(NOW + 5, NOW) == Backlog(0, 0, 3, NOW, 0)
    claimed = await store.claim_deliveries([SendGrant(report.id, 3)], NOW, NOW + 1_000)
    moves = (DeliveryMove.CONFIRM, DeliveryMove.GIVE_UP, DeliveryMove.RETRY)
    ends = [ended(one, move, NOW + 9) for one, move in zip(claimed, moves, strict=True)]
    await store.record(ends, NOW)
    assert await backlog.backlog(NOW + 5, NOW) == Backlog(0, 0, 1, NOW, 0)


async def test_endpoints_that_are_down_are_counted(
    backlog: BacklogStore, store: ReportStore, report: Report
) -> None:
    await out(store, report, "a", "b", "c", "d")
    assert (await backlog.backlog(NOW, NOW)).endpoints_out == 1
