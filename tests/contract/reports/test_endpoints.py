"""What every ReportStore promises of endpoints: outages, probes, a patience that ends."""

import asyncio

from msgspec.structs import replace

from meterline import limits
from meterline.delivery import (
    AttemptEnd,
    ClaimedDelivery,
    DeliveryMove,
    EndpointObservation,
    EndpointSignal,
    Health,
    HealthTerms,
    SendGrant,
)
from meterline.report import Report, ReportState, ReportStore
from tests.contract.reports.conftest import LEASE, NOW, delivering, ended

TERMS = HealthTerms(
    outages=2, probe_pause_ms=5_000, patience_ms=1_000_000, silence_ms=2_000_000, places_max=8
)


def observed(
    claimed: ClaimedDelivery, sign: EndpointSignal, at_ms: int, *, retry_ms: int | None = None
) -> AttemptEnd:
    """The end of an attempt that tells something of its endpoint."""
    move = DeliveryMove.CONFIRM if sign is EndpointSignal.TAKEN else DeliveryMove.RETRY
    said = EndpointObservation(
        claimed.namespace,
        claimed.endpoint,
        sign,
        at_ms - 10,
        at_ms,
        "answered 503",
        first=claimed.attempt == 1,
        probe=claimed.probe,
    )
    return replace(ended(claimed, move, at_ms if retry_ms is None else retry_ms), observed=said)


async def health(store: ReportStore, now_ms: int) -> Health:
    (due,) = await store.due(now_ms)
    return due.health


async def test_what_is_due_tells_where_to_whether_first_and_how_the_endpoint_fares(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a", "b")
    (due,) = await store.due(NOW)
    assert (due.address, due.due_at_ms, due.first) == (("default", report.endpoint), NOW, True)
    assert due.health == Health()
    first, second = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)
    ends = [
        observed(first, EndpointSignal.OUT, NOW + 20),
        observed(second, EndpointSignal.ANSWERED, NOW + 30),
    ]
    await store.record(ends, NOW + 40, TERMS)
    (due,) = await store.due(NOW + 40)
    assert (due.due_at_ms, due.first) == (NOW + 20, False)
    assert due.health == Health(
        failing_since_ms=NOW + 20, last_failure_at_ms=NOW + 30, reason="answered 503"
    )


async def test_first_tries_are_claimed_before_retries(store: ReportStore, report: Report) -> None:
    await delivering(store, report, "a", "b", "c")
    (first,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW, LEASE)
    await store.record([ended(first, DeliveryMove.RETRY, NOW - 5)], NOW)
    claimed = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    assert first.delivery_id not in {it.delivery_id for it in claimed}
    (again,) = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    assert (again.delivery_id, again.attempt) == (first.delivery_id, 2)


async def test_patience_counts_from_the_last_replay(store: ReportStore, report: Report) -> None:
    await delivering(store, report, "a")
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW + 5, LEASE)
    assert claimed.patient_since_ms == NOW
    await store.record([ended(claimed, DeliveryMove.GIVE_UP)], NOW + 5)
    await store.replay("default", claimed.delivery_id, NOW + 77)
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW + 99, LEASE)
    assert claimed.patient_since_ms == NOW + 77


async def out(store: ReportStore, report: Report, *subjects: str) -> int:
    """Put the report's endpoint out; the instant of its next probe."""
    await delivering(store, report, *subjects)
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    ends = [observed(it, EndpointSignal.OUT, NOW + 20) for it in claimed_deliveries]
    await store.record(ends, NOW + 20, TERMS)
    found = await health(store, NOW + 20)
    assert found.out
    assert found.probe_at_ms is not None
    return found.probe_at_ms


async def test_whoever_records_hears_which_endpoint_went_down_and_which_is_up(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a", "b")
    first, second = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    one = await store.record([observed(first, EndpointSignal.OUT, NOW + 10)], NOW + 10, TERMS)
    assert one == []  # one failure is chance
    (down,) = await store.record([observed(second, EndpointSignal.OUT, NOW + 20)], NOW + 20, TERMS)
    assert (down.namespace, down.endpoint) == ("default", report.endpoint)
    assert (down.down, down.since_ms, down.reason) == (True, NOW + 10, "answered 503")
    found = await health(store, NOW + 20)
    assert found.probe_at_ms is not None
    grant = [SendGrant(report.id, 1, probe=True)]
    (probe,) = await store.claim_deliveries(grant, found.probe_at_ms, found.probe_at_ms + 60_000)
    taken = replace(
        observed(probe, EndpointSignal.TAKEN, found.probe_at_ms + 5), move=DeliveryMove.CONFIRM
    )
    (up,) = await store.record([taken], found.probe_at_ms + 5, TERMS)
    assert (up.down, up.since_ms, up.reason) == (False, NOW + 10, "answered 503")
    assert await store.record([taken], found.probe_at_ms + 6, TERMS) == []


async def test_of_all_dispatchers_one_has_the_probe(store: ReportStore, report: Report) -> None:
    at_ms = await out(store, report, "a", "b", "c", "d")
    assert at_ms == NOW + 20 + 5_000

    async def probed(now_ms: int) -> list[ClaimedDelivery]:
        lease_ms = now_ms + 60_000
        return await store.claim_deliveries([SendGrant(report.id, 1, probe=True)], now_ms, lease_ms)

    assert await probed(at_ms - 1) == []
    claims = await asyncio.gather(*(probed(at_ms) for _ in range(4)))
    (claimed,) = [it for claim in claims for it in claim]
    # while it is under way, and until its dispatcher's lease ends, there is no other
    assert await probed(at_ms + 59_999) == []
    assert len(await probed(at_ms + 60_000)) == 1
    late = replace(
        observed(claimed, EndpointSignal.TAKEN, at_ms + 60_010), move=DeliveryMove.CONFIRM
    )
    await store.record([late], at_ms + 60_010, TERMS)
    found = await health(store, at_ms + 60_010)
    assert (found.out, found.places, found.failing_since_ms) == (False, 2, None)
    # where nothing is out there is nothing to probe
    assert await probed(at_ms + 60_010) == []


async def test_those_under_way_when_the_first_failed_are_due_when_it_is_back(
    store: ReportStore, report: Report
) -> None:
    """They began before the outage was noticed, and failed by it."""
    await delivering(store, report, "a", "b", "c")
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    later_ms = NOW + 300_000
    ends = [
        observed(it, EndpointSignal.OUT, NOW + 12, retry_ms=later_ms) for it in claimed_deliveries
    ]
    assert {end.attempt.started_at_ms for end in ends} == {NOW}
    await store.record(ends, NOW + 12, TERMS)
    at_ms = NOW + 12 + TERMS.probe_pause_ms
    (probe,) = await store.claim_deliveries([SendGrant(report.id, 1, probe=True)], at_ms, later_ms)
    await store.record([observed(probe, EndpointSignal.TAKEN, at_ms + 10)], at_ms + 10, TERMS)
    again = await store.claim_deliveries([SendGrant(report.id, 9)], at_ms + 10, later_ms)
    assert {it.delivery_id for it in again} == {it.delivery_id for it in claimed_deliveries}


async def test_a_probe_is_a_first_try_however_long_retries_have_waited(
    store: ReportStore, report: Report
) -> None:
    at_ms = await out(store, report, "a", "b", "c", "d")
    later_ms = at_ms + 10 * limits.RETRY_WAIT_MS
    for instant in (later_ms, later_ms + limits.RETRY_WAIT_MS + 1_000):
        probe = SendGrant(report.id, 1, probe=True)
        (claimed,) = await store.claim_deliveries([probe], instant, instant + 1_000)
        assert (claimed.attempt, claimed.probe) == (1, True)
        await store.record(
            [observed(claimed, EndpointSignal.OUT, instant, retry_ms=LEASE)], instant, TERMS
        )


async def test_where_claims_are_of_one_retries_that_waited_have_half_of_them(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a", "b", "c", "d")
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 2)], NOW, LEASE)
    await store.record([ended(it, DeliveryMove.RETRY, NOW + 20) for it in claimed_deliveries], NOW)
    attempts = []
    for second in range(4):
        instant = NOW + 2 * limits.RETRY_WAIT_MS + 1_000 * second
        (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], instant, LEASE * 2)
        attempts.append(claimed.attempt)
    assert sorted(attempts) == [1, 1, 2, 2]


async def test_those_behind_a_probe_use_up_no_attempt(store: ReportStore, report: Report) -> None:
    at_ms = await out(store, report, "a", "b", "c")
    (claimed,) = await store.claim_deliveries(
        [SendGrant(report.id, 1, probe=True)], at_ms, at_ms + 1
    )
    assert claimed.attempt == 1  # the one that was never tried
    await store.record([observed(claimed, EndpointSignal.OUT, at_ms + 20)], at_ms + 20, TERMS)
    found = await health(store, at_ms + 20)
    assert (found.probe_at_ms, found.probes) == (at_ms + 20 + 5_000, 1)
    run = claimed.run_id
    assert [it.attempts for it in await store.deliveries(run, 9)] == [1, 1, 1]


async def test_an_endpoint_that_took_nothing_for_the_whole_patience_is_parked_with_words(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    for at_ms in (NOW, NOW + 500_000, NOW + 999_999, NOW + 1_000_000):
        found = await store.report("default", report.id)
        assert found is not None
        assert found.state is ReportState.ACTIVE
        (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], at_ms, at_ms + 1)
        await store.record([observed(claimed, EndpointSignal.ANSWERED, at_ms)], at_ms, TERMS)
    found = await store.report("default", report.id)
    assert found is not None
    assert found.state is ReportState.PARKED
    assert "accepted nothing since 2026-02-02T02:40:00Z" in found.state_reason
    assert "last error: answered 503" in found.state_reason
    assert await store.due(NOW * 2) == []
    (delivery,) = await store.deliveries(run.id, 9)
    assert delivery.state == "retrying", "what is owed is kept"
    # resumed, it has all patience before it
    later_ms = NOW + 1_500_000
    await store.resume_report(report.id, later_ms)
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], later_ms, later_ms + 1)
    await store.record([observed(claimed, EndpointSignal.ANSWERED, later_ms)], later_ms, TERMS)
    assert (await health(store, later_ms)).failing_since_ms == later_ms


async def test_a_resumed_report_is_probed_at_once(store: ReportStore, report: Report) -> None:
    await out(store, report, "a", "b", "c")
    await store.pause_report(report.id, NOW + 30)
    await store.resume_report(report.id, NOW + 40)
    found = await health(store, NOW + 40)
    assert (found.probe_at_ms, found.failing_since_ms) == (NOW + 40, None)
    assert (
        len(await store.claim_deliveries([SendGrant(report.id, 1, probe=True)], NOW + 40, LEASE))
        == 1
    )


async def test_a_success_is_kept(store: ReportStore, report: Report) -> None:
    await delivering(store, report, "a", "b")
    first, _ = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, NOW + 1)
    for _ in range(2):  # repeating changes nothing
        await store.record([observed(first, EndpointSignal.TAKEN, NOW + 50)], NOW + 50, TERMS)
    assert await health(store, NOW + 60) == Health(last_success_at_ms=NOW + 50)
