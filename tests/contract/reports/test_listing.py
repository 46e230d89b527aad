"""What every ReportStore promises of lists, and of the walls between namespaces."""

from dataclasses import replace

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.delivery import (
    Delivery,
    DeliveryMove,
    DeliveryPlace,
    DeliveryQuery,
    DeliveryState,
    SendGrant,
)
from meterline.meter import Aggregation, MeterDraft
from meterline.report import Report, ReportStore
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import (
    NOW,
    START,
    claimed,
    delivering,
    drafts,
    ended,
    manifest,
    scheduled,
)

EVERY = DeliveryQuery()


def place(delivery: Delivery) -> DeliveryPlace:
    return DeliveryPlace(delivery.created_at_ms, delivery.run_id, delivery.number)


@pytest.fixture
async def abroad(control_database: Database, store: ReportStore, report: Report) -> Report:
    """A report of another namespace."""
    groups = (("kind", "$.kind"), ("model", "$.model"))
    draft = MeterDraft("tokens", "Tokens", Aggregation.SUM, "prompt", "$.tokens", dimensions=groups)
    meter = await SqlCatalogueStore(control_database).create_meter("other", draft, NOW)
    made = replace(report, id="01A", namespace="other", meter_id=meter.id)
    await store.create_report(made, START)
    return made


async def run_at(
    store: ReportStore, report: Report, hour: int, decided_at_ms: int, *subjects: str
) -> str:
    run = replace(scheduled(report, hour), namespace=report.namespace)
    await store.plan(report, [run], run.to_ms)
    claim = await claimed(store, run)
    await store.stage(claim, drafts(claim, *subjects))
    assert await store.decide(claim, 7, manifest(claim, len(subjects)), decided_at_ms)
    return run.id


async def test_deliveries_come_by_run_newest_first_and_by_number_within(
    store: ReportStore, report: Report
) -> None:
    old = await run_at(store, report, 0, NOW, "a", "b", "c")
    new = await run_at(store, report, 1, NOW + 1, "a", "b")
    twins = sorted([await run_at(store, report, hour, NOW + 2, "a") for hour in (2, 3)])[::-1]
    found = await store.listed_deliveries("default", EVERY, 100)
    expected = [(run, 1) for run in twins] + [(new, 1), (new, 2), (old, 1), (old, 2), (old, 3)]
    assert [(it.run_id, it.number) for it in found] == expected
    for size in (1, 2, 3):
        pages: list[Delivery] = []
        while page := await store.listed_deliveries(
            "default", EVERY, size, place(pages[-1]) if pages else None
        ):
            assert len(page) <= size
            pages += page
        assert pages == found
    assert {(it.report_id, it.report_slug) for it in found} == {("01R", "monthly")}
    assert (found[-1].from_ms, found[-1].to_ms) == (START, START + HOUR_MS)


async def test_each_condition_narrows_the_list(store: ReportStore, report: Report) -> None:
    first = await run_at(store, report, 0, NOW, "a", "b")
    second = await run_at(store, report, 1, NOW + 1, "a", "c")
    claimed, *_ = await store.claim_deliveries([SendGrant(report.id, 1)], NOW + 1, NOW + 9)
    await store.record([ended(claimed, DeliveryMove.GIVE_UP)], NOW)

    async def found(query: DeliveryQuery) -> list[tuple[str, str]]:
        listed = await store.listed_deliveries("default", query, 100)
        return [(it.run_id, it.subject) for it in listed]

    of_first, of_second = [(first, "a"), (first, "b")], [(second, "a"), (second, "c")]
    assert await found(DeliveryQuery(report_id=report.id)) == of_second + of_first
    assert await found(DeliveryQuery(report_id="none")) == []
    assert await found(DeliveryQuery(run_id=first)) == of_first
    assert await found(DeliveryQuery(subject="a")) == [(second, "a"), (first, "a")]
    assert await found(DeliveryQuery(run_id=second, subject="b")) == []
    failed, pending = (DeliveryState.FAILED,), (DeliveryState.PENDING,)
    assert await found(DeliveryQuery(states=failed)) == [(claimed.run_id, "a")]
    assert len(await found(DeliveryQuery(states=pending))) == 3
    assert len(await found(DeliveryQuery(states=failed + pending))) == 4
    assert await found(DeliveryQuery(from_min_ms=START + 1)) == of_second
    assert await found(DeliveryQuery(to_max_ms=START + HOUR_MS)) == of_first
    both = DeliveryQuery(from_min_ms=START, to_max_ms=START + 2 * HOUR_MS - 1)
    assert await found(both) == of_first


async def test_nothing_of_an_undecided_run_is_listed(store: ReportStore, report: Report) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    claim = await claimed(store, run)
    staged = drafts(claim, "a")
    await store.stage(claim, staged)
    assert await store.listed_deliveries("default", EVERY, 10) == []
    assert await store.delivery("default", staged[0].id) is None
    assert await store.delivery_body("default", staged[0].id) is None


async def test_a_delivery_is_shown_with_its_exact_bytes(store: ReportStore, report: Report) -> None:
    run = await delivering(store, report, "a", "b")
    one, _ = await store.deliveries(run.id, 10)
    assert await store.delivery("default", one.id) == one
    assert await store.delivery_body("default", one.id) == f"a of {run.id}".encode()
    await store.delete_report(report.id, NOW)  # what was, is still told
    gone = await store.delivery("default", one.id)
    assert gone is not None
    assert gone.state is DeliveryState.CANCELLED
    assert await store.delivery_body("default", one.id) is not None
    assert len(await store.listed_deliveries("default", EVERY, 10)) == 2


async def test_namespaces_are_walled(store: ReportStore, report: Report, abroad: Report) -> None:
    ours = await run_at(store, report, 0, NOW, "a")
    theirs = await run_at(store, abroad, 0, NOW, "a")
    assert ours != theirs
    (listed,) = await store.listed_deliveries("other", EVERY, 10)
    assert listed.run_id == theirs
    for query in (
        DeliveryQuery(report_id=report.id),
        DeliveryQuery(run_id=ours),
    ):
        assert await store.listed_deliveries("other", query, 10) == []
    (delivery,) = await store.deliveries(ours, 10)
    assert await store.delivery("other", delivery.id) is None
    assert await store.delivery_body("other", delivery.id) is None
    assert await store.run(abroad.id, ours) is None
    assert await store.report("other", report.id) is None
    assert [it.id for it in await store.reports("other")] == ["01A"]


async def test_reports_come_in_pages_by_creation(store: ReportStore, report: Report) -> None:
    made = [report]
    for number in range(4):
        at_ms = NOW + number // 2
        made.append(
            replace(
                report,
                id=f"0{number}S",
                slug=f"s{number}",
                created_at_ms=at_ms,
                updated_at_ms=at_ms,
            )
        )
        await store.create_report(made[-1], START)
    expected = sorted(made, key=lambda it: (it.created_at_ms, it.id))
    assert await store.reports("default") == expected
    pages: list[Report] = []
    while page := await store.reports(
        "default", 2, (pages[-1].created_at_ms, pages[-1].id) if pages else None
    ):
        pages += page
    assert pages == expected
