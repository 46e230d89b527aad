"""What every ReportStore promises of claims of several reports at once."""

from dataclasses import replace

import pytest

from meterline import limits
from meterline.delivery import AttemptOutcome, DeliveryMove, DeliveryState, SendGrant
from meterline.report import Report, ReportChange, ReportStore, Run, RunState
from tests.contract.reports.conftest import LEASE, NOW, START, delivering, ended, states, the_run
from tests.contract.reports.test_endpoints import out


@pytest.fixture
async def other(store: ReportStore, report: Report) -> Report:
    made = replace(
        report,
        id="01S",
        slug="daily",
        endpoint="https://example.org/",
        signing_secret_sealed=b"own",
    )
    await store.create_report(made, START)
    return made


async def test_each_report_gets_what_is_granted_to_it_with_its_own_secrets(
    store: ReportStore, report: Report, other: Report
) -> None:
    run, of_other = (
        await delivering(store, report, "a", "b", "c"),
        await delivering(store, other, "d", "e", "f"),
    )
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(other.id, 1), SendGrant("01X", 5), SendGrant(report.id, 2)], NOW, LEASE
    )
    assert [
        (it.report_id, it.endpoint, it.signing_secrets_sealed) for it in claimed_deliveries
    ] == [
        (other.id, other.endpoint, (b"own",)),
        (report.id, report.endpoint, (b"sealed",)),
        (report.id, report.endpoint, (b"sealed",)),
    ]
    bodies = [it.body.split()[0] for it in claimed_deliveries]
    assert bodies[0] in (b"d", b"e", b"f")
    assert set(bodies[1:]) < {b"a", b"b", b"c"}
    assert (await states(store, run)).count(DeliveryState.SENDING) == 2
    assert (await states(store, of_other)).count(DeliveryState.SENDING) == 1
    attempts = await store.attempts([it.delivery_id for it in claimed_deliveries])
    assert {(it.number, it.outcome) for it in attempts} == {(1, AttemptOutcome.SENDING)}


async def test_recorded_together_each_run_counts_and_ends_by_itself(
    store: ReportStore, report: Report, other: Report
) -> None:
    async def of(run: Run) -> tuple[RunState, int, int]:
        found = await the_run(store, run)
        return found.state, found.delivered, found.failed

    run, of_other = (
        await delivering(store, report, "a", "b"),
        await delivering(store, other, "d", "e"),
    )
    both = [SendGrant(report.id, 9), SendGrant(other.id, 9)]
    a, d, b, e = await store.claim_deliveries(both, NOW, LEASE)  # in turns
    done, failed = DeliveryMove.CONFIRM, DeliveryMove.GIVE_UP
    await store.record([ended(a, done), ended(b, failed), ended(d, done)], NOW)
    assert await of(run) == (RunState.PARTLY_FAILED, 1, 1)
    assert await of(of_other) == (RunState.DELIVERING, 1, 0)
    assert (await the_run(store, of_other)).ended_at_ms is None
    await store.replay("default", b.delivery_id, NOW)
    assert await of(run) == (RunState.DELIVERING, 1, 0)
    (again,) = await store.claim_deliveries([SendGrant(report.id, 9)], NOW, LEASE)
    await store.record([ended(again, done), ended(e, done)], NOW + 5)
    assert await of(run) == (RunState.SUCCEEDED, 2, 0)
    assert await of(of_other) == (RunState.SUCCEEDED, 2, 0)
    assert (await the_run(store, of_other)).ended_at_ms == NOW + 5


async def test_a_probe_that_is_refused_keeps_nothing_from_the_others(
    store: ReportStore, report: Report, other: Report
) -> None:
    at_ms = await out(store, report, "a", "b", "c", "d")
    await delivering(store, other, "e")
    probe, plain = SendGrant(report.id, 1, probe=True), SendGrant(other.id, 1)
    early = await store.claim_deliveries([probe, plain], at_ms - 1, LEASE)
    assert [(it.report_id, it.probe) for it in early] == [(other.id, False)]
    (taken,) = await store.claim_deliveries([plain, probe], at_ms, LEASE)
    assert (taken.report_id, taken.probe) == (report.id, True)


async def test_a_report_with_large_bodies_keeps_nothing_from_the_others(
    store: ReportStore, report: Report, other: Report
) -> None:
    body = b"x" * (limits.CLAIM_BYTES_MAX // 4)
    for one in (report, other):
        await delivering(store, one, *"abcd", body=body)

    async def claim_all(count: int) -> list[str]:
        both = [SendGrant(report.id, count), SendGrant(other.id, 9)]
        return [it.report_id for it in await store.claim_deliveries(both, NOW, LEASE)]

    assert await claim_all(9) == [report.id, other.id, report.id, other.id]
    assert await claim_all(1) == [report.id, other.id, other.id]
    assert await claim_all(9) == [report.id]


async def test_many_are_claimed_and_given_back_at_once(store: ReportStore, report: Report) -> None:
    most = limits.DELIVERIES_AHEAD_MAX + limits.DELIVERIES_IN_FLIGHT_MAX
    await delivering(store, report, *(f"s{number}" for number in range(2 * most)))
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 2 * most)], NOW, LEASE)
    assert len(claimed_deliveries) == 2 * most
    await store.give_back(claimed_deliveries, NOW + 1)
    assert (
        await store.claim_deliveries([SendGrant(report.id, 2 * most)], NOW, LEASE)
        == claimed_deliveries
    )


async def test_deliveries_of_a_run_are_claimed_in_the_order_of_their_ids_which_are_hashes(
    store: ReportStore, report: Report
) -> None:
    """Whichever subjects a receiver fails for, they are spread over the run."""
    subjects = [f"customer {number:03}" for number in range(100)]
    await delivering(store, report, *subjects)
    claimed: list[str] = []
    for _ in range(10):
        claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 10)], NOW, LEASE)
        claimed += [it.delivery_id for it in claimed_deliveries]
    assert len(set(claimed)) == 100
    assert claimed == sorted(claimed)
    numbers = {it.id: it.number for it in await store.deliveries((await _run(store, report)), 100)}
    of_first_half = sum(numbers[name] <= 50 for name in claimed[:50])
    assert 10 < of_first_half < 40, "not in the order of the subjects"


async def _run(store: ReportStore, report: Report) -> str:
    (run,) = await store.runs(report.id, 9)
    return run.id


async def test_as_many_retries_as_are_granted_go_before_first_tries(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, *"abcdef")
    tried = await store.claim_deliveries([SendGrant(report.id, 3)], NOW, LEASE)
    await store.record([ended(it, DeliveryMove.RETRY, NOW - 5) for it in tried], NOW)
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(report.id, 4, retries=2)], NOW, LEASE
    )
    assert [it.attempt for it in claimed_deliveries] == [2, 2, 1, 1]
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(report.id, 9, retries=2)], NOW, LEASE
    )
    assert sorted(it.attempt for it in claimed_deliveries) == [1, 2], "what is left"


async def test_an_attempt_keeps_the_url_that_it_went_to(store: ReportStore, report: Report) -> None:
    await delivering(store, report, "a")
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW, LEASE)
    await store.record([ended(claimed, DeliveryMove.RETRY, NOW + 5)], NOW)
    moved = ReportChange(endpoint="https://moved.example.com/")
    await store.update_report(report.id, moved, NOW + 1)
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW + 9, LEASE)
    attempts = await store.attempts([claimed.delivery_id])
    assert [it.endpoint for it in attempts] == [report.endpoint, "https://moved.example.com/"]
