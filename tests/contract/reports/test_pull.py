"""What every PullStore promises: deliveries by window with their bytes, whatever became of them."""

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.delivery import (
    DeliveryDraft,
    DeliveryMove,
    DeliveryState,
    Pulled,
    PullStore,
    SendGrant,
    delivery_id,
    digest_of,
)
from meterline.report import Report, ReportStore, Run
from meterline.window import HOUR_MS
from tests.contract.reports.conftest import NOW, START, claimed, decided, ended, manifest, scheduled

EVERYTHING = (None, None)
MANY_BYTES = 10**6


@pytest.fixture
def pulls(control_database: Database) -> PullStore:
    return SqlReportStore(control_database)


async def made(store: ReportStore, report: Report, hour: int, *subjects: str) -> Run:
    run = scheduled(report, hour)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, *subjects, holder=f"h{hour}")
    return run


async def revised(store: ReportStore, report: Report, run: Run, subject: str) -> str:
    """The id of a delivery that replaces the one of a subject of a run."""
    asked, _ = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=True)
    claim = await claimed(store, asked, "r")
    name = delivery_id(report.id, run.from_ms, run.to_ms, subject, asked.revision)
    before = delivery_id(report.id, run.from_ms, run.to_ms, subject, 1)
    body = b"revised"
    digest = digest_of(body)
    draft = DeliveryDraft(name, subject, 1, claim.sequence_next, body, digest, digest, before)
    await store.stage(claim, [draft])
    assert await store.decide(claim, 7, manifest(claim, 1), NOW)
    return name


def told(found: tuple[list[Pulled], bool]) -> list[tuple[int, str]]:
    return [((it.delivery.from_ms - START) // HOUR_MS, it.delivery.subject) for it in found[0]]


async def test_they_come_by_window_with_their_bytes_whatever_their_order_of_decision(
    store: ReportStore, pulls: PullStore, report: Report
) -> None:
    late = await made(store, report, 2, "a", "b")
    early = await made(store, report, 0, "b", "c")
    found = await pulls.pulled(report.id, EVERYTHING, 9, MANY_BYTES)
    assert told(found) == [(0, "b"), (0, "c"), (2, "a"), (2, "b")]
    assert found[1] is False
    bodies = [f"{s} of {run.id}".encode() for run, s in [(early, "b"), (early, "c"), (late, "a")]]
    assert [it.body for it in found[0]][:3] == bodies
    listed = await store.deliveries(early.id, 9)
    assert [it.delivery for it in found[0]][:2] == listed
    assert await pulls.pulled("01OTHER", EVERYTHING, 9, MANY_BYTES) == ([], False)


async def test_windows_bound_it(store: ReportStore, pulls: PullStore, report: Report) -> None:
    for hour in range(3):
        await made(store, report, hour, "a")

    async def hours(from_hour: float | None, to_hour: float | None) -> list[int]:
        window = tuple(
            None if hour is None else START + round(hour * HOUR_MS) for hour in (from_hour, to_hour)
        )
        found = await pulls.pulled(report.id, (window[0], window[1]), 9, MANY_BYTES)
        return [hour for hour, _ in told(found)]

    assert await hours(None, None) == [0, 1, 2]
    assert await hours(1, None) == [1, 2]
    assert await hours(0.5, 2) == [1]
    assert await hours(None, 2.5) == [0, 1]
    assert await hours(1, 1) == []


async def test_pages_follow_each_other_by_count_and_by_bytes(
    store: ReportStore, pulls: PullStore, report: Report
) -> None:
    for hour in range(3):
        await made(store, report, hour, "a", "b", "c")
    whole, _ = await pulls.pulled(report.id, EVERYTHING, 99, MANY_BYTES)
    assert len(whole) == 9
    size = len(whole[0].body or b"")
    for limit, bytes_max, pages in ((4, MANY_BYTES, 3), (9, 2 * size, 5), (9, 1, 9), (9, 9**9, 1)):
        read: list[Pulled] = []
        count, more = 0, True
        while more:
            after = read[-1].place if read else None
            found, more = await pulls.pulled(report.id, EVERYTHING, limit, bytes_max, after)
            read += found
            count += 1
        assert (read, count) == (whole, pages)


async def test_one_that_another_replaces_says_which(
    store: ReportStore, pulls: PullStore, report: Report
) -> None:
    run = await made(store, report, 0, "a", "b")
    newer = await revised(store, report, run, "a")
    found, _ = await pulls.pulled(report.id, EVERYTHING, 9, MANY_BYTES)
    assert [(it.delivery.subject, it.delivery.revision) for it in found] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]
    assert [it.superseded_by for it in found] == [newer, None, None]
    assert found[2].body == b"revised"
    assert found[2].delivery.supersedes == found[0].delivery.id


async def test_state_and_the_last_reason_are_told(
    store: ReportStore, pulls: PullStore, report: Report
) -> None:
    await made(store, report, 0, "a", "b")
    first, _ = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, NOW + 60_000)
    await store.record([ended(first, DeliveryMove.GIVE_UP)], NOW)
    found, _ = await pulls.pulled(report.id, EVERYTHING, 9, MANY_BYTES)
    assert [(it.delivery.state, it.delivery.attempts, it.reason) for it in found] == [
        (DeliveryState.FAILED, 1, "said"),
        (DeliveryState.SENDING, 1, ""),
    ]
