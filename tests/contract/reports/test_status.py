"""Where reports stand: ReportStatusStore, on both databases."""

import pytest

from meterline.backends.control_store.deliveries.report_status import SqlReportStatusStore
from meterline.backends.control_store.engine import Database
from meterline.delivery import AttemptOutcome, DeliveryMove, EndpointSignal, SendGrant, Standing
from meterline.report import LastError, Owed, Report, ReportStatus, ReportStatusStore, ReportStore
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import NOW, START, decided, ended, scheduled, the_run
from tests.contract.reports.test_endpoints import observed


@pytest.fixture
def statuses(control_database: Database) -> ReportStatusStore:
    return SqlReportStatusStore(control_database)


async def test_a_new_report_owes_nothing(statuses: ReportStatusStore, report: Report) -> None:
    assert await statuses.statuses([]) == {}
    found = await statuses.statuses([report])
    assert found == {report.id: ReportStatus((START, START + HOUR_MS))}


async def test_runs_errors_and_what_is_owed_are_told(
    store: ReportStore, statuses: ReportStatusStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report, runs, runs[-1].to_ms)
    await decided(store, runs[0], "a", "b")
    one, other = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, NOW + 1_000)
    again = ended(other, DeliveryMove.RETRY, NOW + 5_000)
    await store.record([ended(one, DeliveryMove.CONFIRM), again], NOW)
    (status,) = (await statuses.statuses([report])).values()
    assert status.last_run == await the_run(store, runs[0])
    assert status.next_window == (runs[1].from_ms, runs[1].to_ms)
    assert (status.owed, status.owed_since_ms) == (1, NOW)
    assert status.last_error == LastError(
        other.delivery_id, NOW, AttemptOutcome.REFUSED, 500, "said"
    )
    await decided(store, runs[1], "a", "b", "c")
    await decided(store, runs[2])
    (status,) = (await statuses.statuses([report])).values()
    assert status.last_run == await the_run(store, runs[2])
    assert status.next_window == (runs[2].to_ms, runs[2].to_ms + HOUR_MS)
    assert status.owed == 4


async def test_windows_that_are_passed_over_are_not_to_come(
    store: ReportStore, statuses: ReportStatusStore, report: Report
) -> None:
    await store.pause_report(report.id, NOW)
    await store.resume_report(report.id, START + 5 * HOUR_MS, owed=Owed.NONE)
    (again,) = await store.reports("default")
    (status,) = (await statuses.statuses([again])).values()
    assert status.next_window == (START + 5 * HOUR_MS, START + 6 * HOUR_MS)


async def test_what_is_tried_again_and_how_its_endpoint_fares_are_told(
    store: ReportStore, statuses: ReportStatusStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report, runs, runs[-1].to_ms)
    for run in runs:
        await decided(store, run, "a", "b", "c")
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 4)], NOW, NOW + 1_000)
    well, *sick = claimed_deliveries
    ends = [observed(well, EndpointSignal.TAKEN, NOW + 10)]
    ends += [observed(it, EndpointSignal.FAULT, NOW + 20 + place) for place, it in enumerate(sick)]
    await store.record(ends, NOW + 30)
    (status,) = (await statuses.statuses([report])).values()
    assert (status.outstanding.retrying, status.outstanding.standing) == (3, Standing.WELL)
    assert status.outstanding.health.faults == 3
    of_runs = [await statuses.outstanding(report, run.id) for run in runs]
    assert sum(it.retrying for it in of_runs) == 3
    assert of_runs[0].retrying == sum(it.run_id == runs[0].id for it in sick)
    words = status.outstanding.message()
    assert "retried without delaying others (answered 503). The receiver accepts" in words
