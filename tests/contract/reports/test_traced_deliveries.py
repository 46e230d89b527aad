"""Contract of `DeliveryLineage`: which deliveries were about an instant."""

import msgspec

from meterline.backends.control_store.deliveries.lineage import SqlDeliveryLineage
from meterline.backends.control_store.engine import Database
from meterline.delivery import DeliveryDraft, delivery_id, digest_of
from meterline.report import Report, ReportStore
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import NOW, START, claimed, manifest, scheduled


async def _decided(
    store: ReportStore, report: Report, hour: int, *subjects: str, revision: int = 1
) -> str:
    run = scheduled(report, hour, revision)
    await store.plan(report, [run], run.to_ms)
    claim = await claimed(store, run)
    made = []
    for place, subject in enumerate(subjects):
        entry = {"subject": subject, "valueText": f"{place}.5", "groupBy": {"model": "m"}}
        body = msgspec.json.encode({"type": "report.meter", "usage": [entry]})
        name = delivery_id(report.id, run.from_ms, run.to_ms, subject, revision)
        number = claim.sequence_next + place
        digest = digest_of(body)
        made.append(DeliveryDraft(name, subject, place + 1, number, body, digest, digest))
    await store.stage(claim, made)
    assert await store.decide(claim, 7, manifest(claim, len(subjects)), NOW + hour + revision)
    return run.id


async def test_windows_that_hold_the_instant_the_latest_first(
    control_database: Database, store: ReportStore, report: Report
) -> None:
    run = await _decided(store, report, 0, "a", "b")
    again = await _decided(store, report, 0, "b", revision=2)
    await _decided(store, report, 1, "b")
    await store.plan(report, [scheduled(report, 2)], scheduled(report, 2).to_ms)
    traces = SqlDeliveryLineage(control_database)
    meters = [report.meter_id, "another"]
    found = await traces.deliveries_over("default", meters, "b", START, 9)
    assert [it.delivery.run_id for it in found] == [again, run]
    last = found[-1]
    assert (last.meter_id, last.meter_revision, last.group_by) == (
        report.meter_id,
        7,
        ("model", "kind"),
    )
    assert (last.decided_at_ms, last.complete_until_ms) == (NOW + 1, NOW)
    assert last.usage == (({"model": "m"}, "1.5"),)
    assert last.delivery == await store.delivery("default", last.delivery.id)
    assert len(await traces.deliveries_over("default", meters, "b", START, 1)) == 1
    end = START + HOUR_MS - 1
    assert len(await traces.deliveries_over("default", meters, "b", end, 9)) == 2
    for asked in (
        ("other", meters, "b", START),
        ("default", ["another"], "b", START),
        ("default", meters, "c", START),
        ("default", meters, "b", START - 1),
        ("default", meters, "b", START + 2 * HOUR_MS),
    ):
        assert await traces.deliveries_over(*asked, 9) == []
