"""Events are kept until late usage was looked for in them, where there are reports."""

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.reports.late import SqlLateStore
from meterline.report import Report, ReportStore
from meterline.usage import EVENTS, REJECTS, Notice, Period, Reach, Seal


async def test_old_events_wait_for_the_search_for_late_usage(
    control_database: Database, report: Report
) -> None:
    assert report.meter_id
    late = SqlLateStore(control_database)
    progress, ledger = SqlProgressStore(control_database), SqlRetention(control_database)
    await progress.register_log("one", 1)
    version = await SqlCatalogueStore(control_database).catalogue_version()
    await progress.seal(Seal(1, 0, 0, 20, 7, version, 3))
    week, reach = Period(EVENTS, "20260105", 0, 10), Reach({0: 20}, 0)
    said = await ledger.give_notice(week, reach, 1, 100)
    assert isinstance(said, str)
    assert "late usage was not looked for" in said
    refusals = await ledger.give_notice(week._replace(table=REJECTS), reach, 1, 100)
    assert isinstance(refusals, Notice), "late usage is not in them"
    await late.end_look(1, {0: 19})
    assert isinstance(await ledger.give_notice(week, reach, 1, 100), str)
    await late.end_look(1, {0: 20})
    assert isinstance(await ledger.give_notice(week, reach, 1, 100), Notice)


async def test_without_reports_nothing_waits_for_it(
    control_database: Database, store: ReportStore, report: Report
) -> None:
    ledger = SqlRetention(control_database)
    await store.delete_report(report.id, 5)
    week = Period(EVENTS, "20260105", 0, 10)
    assert isinstance(await ledger.give_notice(week, Reach({0: 20}, 0), 1, 100), Notice)
