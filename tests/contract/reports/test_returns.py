"""What every ReportStore promises of claims: what they hold, and that they can be undone."""

from meterline import limits
from meterline.delivery import AttemptOutcome, DeliveryMove, DeliveryState, SendGrant
from meterline.report import Report, ReportStore
from tests.contract.reports.conftest import LEASE, NOW, delivering, ended, states
from tests.contract.reports.test_endpoints import out

PENDING, RETRYING, SENDING = (
    DeliveryState.PENDING,
    DeliveryState.RETRYING,
    DeliveryState.SENDING,
)


async def test_what_is_given_back_is_as_if_it_had_never_been_claimed(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b", "c")
    (first,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW, LEASE)
    await store.record([ended(first, DeliveryMove.RETRY, NOW + 500)], NOW)
    before = await store.deliveries(run.id, 9), await store.due(NOW + 600)
    attempts = await store.attempts([it.id for it in before[0]])
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 3)], NOW + 600, LEASE)
    assert await states(store, run) == [SENDING] * 3
    assert {it.attempt for it in claimed_deliveries} == {1, 2}
    await store.give_back(claimed_deliveries, NOW + 700)
    assert await states(store, run) == [RETRYING, PENDING, PENDING]
    assert (await store.deliveries(run.id, 9), await store.due(NOW + 600)) == before
    assert await store.attempts([it.id for it in before[0]]) == attempts
    await store.give_back(claimed_deliveries, NOW + 700)  # again: there is nothing to undo
    assert await store.deliveries(run.id, 9) == before[0]
    again = await store.claim_deliveries([SendGrant(report.id, 3)], NOW + 600, LEASE)
    assert again == claimed_deliveries


async def test_what_is_no_longer_ones_own_is_not_given_back(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b")
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, NOW + 100)
    (taken,) = await store.claim_deliveries(
        [SendGrant(report.id, 1)], NOW + 100, LEASE
    )  # the lease is over
    await store.delete_report(report.id, NOW + 110)  # what is under way is cancelled
    await store.give_back(claimed_deliveries, NOW + 120)
    assert await states(store, run) == [DeliveryState.CANCELLED] * 2
    found = {
        (it.delivery_id, it.number): (it.outcome, it.reason[:8])
        for it in await store.attempts([it.delivery_id for it in claimed_deliveries])
    }
    (other,) = [it for it in claimed_deliveries if it.delivery_id != taken.delivery_id]
    assert found[taken.delivery_id, 1][0] is AttemptOutcome.LOST
    assert found[taken.delivery_id, 2][0] is AttemptOutcome.SENDING
    assert found[other.delivery_id, 1] == (AttemptOutcome.UNREACHED, "not sent")


async def test_a_probe_that_is_given_back_is_due_at_once(
    store: ReportStore, report: Report
) -> None:
    at_ms = await out(store, report, "a", "b", "c", "d")
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(report.id, 1, probe=True)], at_ms, at_ms + 60_000
    )
    assert (
        await store.claim_deliveries([SendGrant(report.id, 1, probe=True)], at_ms + 1, LEASE) == []
    )
    await store.give_back(claimed_deliveries, at_ms + 2)
    assert (
        len(await store.claim_deliveries([SendGrant(report.id, 1, probe=True)], at_ms + 2, LEASE))
        == 1
    )


async def test_half_of_a_claim_is_of_retries_that_have_waited_for_long(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, *"abcdefgh")
    tried = await store.claim_deliveries([SendGrant(report.id, 3)], NOW, LEASE)
    await store.record([ended(it, DeliveryMove.RETRY, NOW) for it in tried], NOW)

    async def claim(now_ms: int, limit: int) -> list[bool]:
        claimed_deliveries = await store.claim_deliveries(
            [SendGrant(report.id, limit)], now_ms, now_ms + 60_000
        )
        await store.give_back(claimed_deliveries, now_ms)
        return sorted(it.attempt == 1 for it in claimed_deliveries)

    assert await claim(NOW + 1, 4) == [True] * 4
    aged_ms = NOW + limits.RETRY_WAIT_MS
    assert await claim(aged_ms, 4) == [False, False, True, True]
    even_ms = aged_ms + aged_ms // 1_000 % 2 * 1_000
    assert await claim(even_ms, 1) == [True], "claims of one are shared by the second"
    assert await claim(even_ms + 1_000, 1) == [False]
    assert await claim(aged_ms, 9) == [False] * 3 + [True] * 5
    assert (await states(store, run)).count(RETRYING) == 3


async def test_one_claim_holds_no_more_bytes_than_its_bound(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, *"abc", body=b"x" * (limits.CLAIM_BYTES_MAX // 2))
    assert len(await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)) == 2
    assert len(await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)) == 1
