"""The bytes of deliveries end; what is still owed keeps them, and digests stay."""

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.delivery import DeliveryBytes, DeliveryMove, SendGrant
from meterline.problem import Problem, ProblemType
from meterline.report import Report, ReportStore, Run
from tests.contract.reports.conftest import NOW, decided, ended, scheduled


@pytest.fixture
def kept(control_database: Database) -> DeliveryBytes:
    return SqlReportStore(control_database)


async def delivered(store: ReportStore, report: Report, hour: int, count: int) -> Run:
    run = scheduled(report, hour)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, *(f"s{number}" for number in range(count)))
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(report.id, count)], NOW, NOW + 1_000
    )
    await store.record([ended(one, DeliveryMove.CONFIRM) for one in claimed_deliveries], NOW)
    return run


async def bodies(store: ReportStore, run: Run) -> list[bool]:
    found = await store.deliveries(run.id, 100)
    return [await store.delivery_body("default", one.id) is not None for one in found]


async def test_old_bytes_go_in_small_steps_and_digests_stay(
    store: ReportStore, kept: DeliveryBytes, report: Report, control_database: Database
) -> None:
    run = await delivered(store, report, 0, 5)
    assert await kept.remove_bytes(NOW - 1, 2) == 0  # decided later
    assert await bodies(store, run) == [True] * 5
    assert await kept.remove_bytes(NOW, 2) == 2
    assert await bodies(store, run) == [False] * 2 + [True] * 3
    evidence = SqlEvidence(control_database)
    # an audit misses nothing that was removed on purpose
    assert [one.number for one in await evidence.bodies(run.id, 0, 10)] == [3, 4, 5]
    assert await kept.remove_bytes(NOW, 100) == 3
    assert await kept.remove_bytes(NOW, 100) == 0
    assert await bodies(store, run) == [False] * 5
    assert [one.digest for one in await store.deliveries(run.id, 9)] == [
        one.digest for one in await store.deliveries(run.id, 9) if len(one.digest) == 32
    ]
    assert await evidence.bodies(run.id, 0, 10) == []


async def test_what_is_without_bytes_is_not_replayed(
    store: ReportStore, kept: DeliveryBytes, report: Report
) -> None:
    run = await delivered(store, report, 0, 3)
    one, *_, last = await store.deliveries(run.id, 9)
    assert await kept.remove_bytes(NOW, 1) == 1
    for delivery in (one, last):  # those that are about to go are as good as gone
        with pytest.raises(Problem, match="was removed") as caught:
            await store.replay("default", delivery.id, NOW)
        assert caught.value.type is ProblemType.CONFLICT


async def test_what_is_owed_keeps_its_bytes(
    store: ReportStore, kept: DeliveryBytes, report: Report
) -> None:
    old = await delivered(store, report, 0, 2)
    (one, _) = await store.deliveries(old.id, 9)
    await store.replay("default", one.id, NOW)
    waiting = scheduled(report, 1)
    await store.plan(report, [waiting], waiting.to_ms)
    await decided(store, waiting, "a")
    empty = scheduled(report, 2)
    await store.plan(report, [empty], empty.to_ms)
    await decided(store, empty)
    assert await kept.remove_bytes(NOW, 100) == 0
    assert await bodies(store, old) == [True] * 2
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, NOW + 1_000)
    (claimed,) = (it for it in claimed_deliveries if it.delivery_id == one.id)
    await store.record([ended(claimed, DeliveryMove.CONFIRM)], NOW)
    assert await kept.remove_bytes(NOW, 100) == 2
    assert await bodies(store, waiting) == [True]
