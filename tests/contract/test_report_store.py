"""What every ReportStore promises (meterline/report_ports.py), on SQLite and PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from meterline.backends.sql.catalogue import SqlCatalogueStore
from meterline.backends.sql.engine import Database
from meterline.backends.sql.reports import SqlReportStore
from meterline.meter import Aggregation, MeterDraft
from meterline.problem import Problem, ProblemType
from meterline.report import Interval, Report, ReportState, Schedule
from meterline.report_filter import parse_filter
from meterline.report_ports import AttemptEnd, Claim, Parcel, ReportStore
from meterline.run import (
    Attempt,
    AttemptOutcome,
    DeliveryDraft,
    DeliveryMove,
    DeliveryState,
    Manifest,
    Run,
    RunMove,
    RunState,
    Trigger,
    delivery_id,
    digest_of,
    run_id,
)
from meterline.window import HOUR_MS

NOW = 1_770_000_000_000
START = NOW - NOW % HOUR_MS
LEASE = NOW + 60_000
SECRET = b"sealed"


@pytest.fixture
def store(control_database: Database) -> ReportStore:
    return SqlReportStore(control_database)


@pytest.fixture
async def report(control_database: Database, store: ReportStore) -> Report:
    draft = MeterDraft("tokens", "Tokens", Aggregation.SUM, "prompt", "$.tokens")
    meter = await SqlCatalogueStore(control_database).create_meter("default", draft, NOW)
    filter_, faults = parse_filter({"usage": {"$gt": 5}, "subject": {"$nin": ["a", "ü"]}})
    assert not faults
    made = Report(
        id="01R",
        namespace="default",
        slug="monthly",
        meter_id=meter.id,
        schedule=Schedule(Interval.HOUR, START),
        group_by=("model", "kind"),
        endpoint="https://example.com/hook",
        signing_secret_sealed=SECRET,
        created_at_ms=NOW,
        filter=filter_,
        user_info_sealed=b"\x00user",
    )
    await store.create_report(made, START)
    return made


def scheduled(report: Report, hour: int = 0, revision: int = 1) -> Run:
    from_ms = START + hour * HOUR_MS
    to_ms = from_ms + HOUR_MS
    name = run_id(report.id, from_ms, to_ms, revision)
    return Run(name, report.id, "default", from_ms, to_ms, revision, Trigger.SCHEDULE, NOW)


def drafts(claim: Claim, *subjects: str) -> list[DeliveryDraft]:
    run = claim.run
    made = []
    for place, subject in enumerate(subjects):
        body = f"{subject} of {run.id}".encode()
        name = delivery_id(run.report_id, run.from_ms, run.to_ms, subject, run.revision)
        made.append(
            DeliveryDraft(
                name,
                subject,
                place + 1,
                claim.sequence_next + place,
                body,
                digest_of(body),
                digest_of(subject.encode()),
            )
        )
    return made


def manifest(claim: Claim, deliveries: int) -> Manifest:
    return Manifest(deliveries, deliveries, 2, 10**40, -7, NOW, "d1", claim.sequence_next)


async def claimed(store: ReportStore, run: Run, holder: str = "h1", now_ms: int = NOW) -> Claim:
    claim = await store.claim_run(run.id, holder, now_ms, now_ms + 60_000)
    assert claim is not None
    return claim


async def decided(store: ReportStore, run: Run, *subjects: str, holder: str = "h1") -> Claim:
    claim = await claimed(store, run, holder)
    await store.stage(claim, drafts(claim, *subjects))
    assert await store.decide(claim, 7, manifest(claim, len(subjects)), NOW)
    return claim


async def delivering(store: ReportStore, report: Report, *subjects: str) -> Run:
    run = scheduled(report)
    await store.plan(report.id, [run], run.to_ms)
    await decided(store, run, *subjects)
    return run


def ended(parcel: Parcel, move: DeliveryMove, next_ms: int | None = None) -> AttemptEnd:
    outcome = AttemptOutcome.DELIVERED if move is DeliveryMove.CONFIRM else AttemptOutcome.REFUSED
    status = 204 if move is DeliveryMove.CONFIRM else 500
    attempt = Attempt(
        parcel.delivery_id, parcel.attempt, NOW, outcome, 12, status, "said", b"\xffbody", next_ms
    )
    return AttemptEnd(attempt, move)


async def the_run(store: ReportStore, run: Run) -> Run:
    found = await store.run(run.report_id, run.id)
    assert found is not None
    return found


async def states(store: ReportStore, run: Run) -> list[DeliveryState]:
    return [delivery.state for delivery in await store.deliveries(run.id, 100)]


async def test_a_report_is_found_as_it_was_made_by_id_and_slug(
    store: ReportStore, report: Report
) -> None:
    assert await store.report("default", "monthly") == report
    assert await store.report("default", "01r") == report
    assert await store.report("other", "monthly") is None
    assert await store.reports("default") == [report]
    assert await store.reports_of_meter(report.meter_id) == [report]
    assert await store.reports_of_meter("another") == []


async def test_an_id_wins_over_a_slug(store: ReportStore, report: Report) -> None:
    namesake = replace(report, id="02R", slug="01R")
    await store.create_report(namesake, START)
    assert await store.report("default", "01R") == report


async def test_creating_again_is_once_and_another_of_the_slug_is_a_conflict(
    store: ReportStore, report: Report
) -> None:
    await store.create_report(report, START)
    assert len(await store.reports("default")) == 1
    with pytest.raises(Problem) as caught:
        await store.create_report(replace(report, id="02R"), START)
    assert caught.value.type is ProblemType.CONFLICT
    await store.delete_report(report.id, NOW)
    await store.create_report(replace(report, id="02R"), START)


async def test_a_report_of_a_meter_that_is_gone_is_refused(
    store: ReportStore, report: Report
) -> None:
    with pytest.raises(Problem) as caught:
        await store.create_report(replace(report, id="02R", slug="x", meter_id="none"), START)
    assert caught.value.type is ProblemType.NOT_FOUND


async def test_plans_are_those_whose_window_has_ended(store: ReportStore, report: Report) -> None:
    end = START + HOUR_MS
    assert await store.plans(end - 1, 10) == []
    (plan,) = await store.plans(end, 10)
    assert (plan.report, plan.planned_until_ms) == (report, START)
    run = scheduled(report)
    for _ in range(2):
        await store.plan(report.id, [run], run.to_ms)
    assert await store.plans(end, 10) == []
    assert await store.runs(report.id, 10) == [run]
    await store.plan(report.id, [run], START)  # an older plan never moves it back
    assert await store.plans(end, 10) == []


async def test_a_run_by_hand_is_made_once_and_found_again(
    store: ReportStore, report: Report
) -> None:
    run, new = await store.ask_run(report, START, START + 60_000, NOW, revise=False)
    assert new
    assert (run.state, run.trigger, run.revision) == (RunState.WAITING, Trigger.MANUAL, 1)
    for revise in (False, True):  # a revision of what is not decided would say the same
        again = await store.ask_run(report, START, START + 60_000, NOW + 5, revise=revise)
        assert again == (run, False)
    both = await asyncio.gather(
        *(store.ask_run(report, START, START + 120_000, NOW, revise=False) for _ in range(4))
    )
    assert sorted(new for _, new in both) == [False, False, False, True]


async def test_a_revision_follows_a_decided_run(store: ReportStore, report: Report) -> None:
    first = await delivering(store, report, "a", "b")
    window = (first.from_ms, first.to_ms)
    same, new = await store.ask_run(report, *window, NOW, revise=False)
    assert (same.id, new) == (first.id, False)
    second, new = await store.ask_run(report, *window, NOW, revise=True)
    assert (second.revision, second.supersedes, new) == (2, first.id, True)
    held = await store.booked(second)
    assert {subject: it.usage_digest for subject, it in held.items()} == {
        "a": digest_of(b"a"),
        "b": digest_of(b"b"),
    }
    claim = await claimed(store, second)
    assert await store.close_run(claim, RunMove.UNCHANGED, "the same", NOW)
    found, new = await store.ask_run(report, *window, NOW, revise=False)
    assert (found.id, new) == (first.id, False)
    third, new = await store.ask_run(report, *window, NOW, revise=True)
    assert (third.revision, third.supersedes, new) == (3, first.id, True)


async def test_skipped_and_refused_runs_can_be_asked_for_after_all(
    store: ReportStore, report: Report
) -> None:
    skipped = replace(scheduled(report), state=RunState.SKIPPED, ended_at_ms=NOW, reason="bound")
    refused = scheduled(report, 1)
    await store.plan(report.id, [skipped, refused], refused.to_ms)
    claim = await claimed(store, refused)
    assert await store.close_run(claim, RunMove.REFUSE, "too much", NOW)
    assert (await the_run(store, refused)).state is RunState.FAILED
    for run in (skipped, refused):
        found, new = await store.ask_run(report, run.from_ms, run.to_ms, NOW + 9, revise=False)
        assert (found.id, found.state, found.asked_at_ms, new) == (
            run.id,
            RunState.WAITING,
            NOW + 9,
            False,
        )
        assert found == await the_run(store, run)


async def test_undecided_gives_the_oldest_of_each_trigger_with_a_free_lease(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report.id, runs, runs[-1].to_ms)
    by_hand, _ = await store.ask_run(report, START, START + 60_000, NOW, revise=False)
    assert [run.id for run, _ in await store.undecided(NOW, 10)] == [by_hand.id, runs[0].id]
    assert len(await store.undecided(NOW, 1)) == 1
    await store.await_run(runs[0].id)
    assert (await the_run(store, runs[0])).state is RunState.WAITING
    await claimed(store, runs[0])
    assert [run.id for run, _ in await store.undecided(NOW, 10)] == [by_hand.id]
    after = await store.undecided(NOW + 60_000, 10)
    assert [run.id for run, _ in after] == [by_hand.id, runs[0].id]


async def test_one_report_has_one_lease_at_a_time(store: ReportStore, report: Report) -> None:
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report.id, runs, runs[-1].to_ms)
    claims = await asyncio.gather(
        *(store.claim_run(run.id, f"{run.id}{n}", NOW, LEASE) for run in runs for n in range(3))
    )
    assert len([claim for claim in claims if claim is not None]) == 1
    (holder,) = [claim for claim in claims if claim is not None]
    await store.release_run(holder.run.id, holder.holder)
    assert (await the_run(store, holder.run)).state is RunState.WAITING
    assert await store.claim_run(runs[1].id, "again", NOW, LEASE) is not None


async def test_the_second_holder_wins_and_the_first_changes_nothing(
    store: ReportStore, report: Report
) -> None:
    run = scheduled(report)
    await store.plan(report.id, [run], run.to_ms)
    first = await claimed(store, run, "first")
    await store.stage(first, drafts(first, "a", "b", "c"))
    second = await claimed(store, run, "second", NOW + 60_001)
    for _ in range(2):
        await store.stage(second, drafts(second, "a", "b"))
    assert not await store.decide(first, 7, manifest(first, 3), NOW)
    assert not await store.close_run(first, RunMove.REFUSE, "", NOW)
    await store.release_run(run.id, "first")
    assert await store.deliveries(run.id, 10) == []
    for _ in range(2):  # its answer may have been lost: the winner may ask again
        assert await store.decide(second, 7, manifest(second, 2), NOW)
    assert not await store.decide(first, 7, manifest(first, 3), NOW)
    found = await the_run(store, run)
    assert found.manifest == manifest(second, 2)
    assert (found.state, found.meter_revision, found.decided_at_ms) == (
        RunState.DELIVERING,
        7,
        NOW,
    )
    listed = await store.deliveries(run.id, 10)
    assert [(d.subject, d.number, d.sequence) for d in listed] == [("a", 1, 1), ("b", 2, 2)]
    assert [d.number for d in await store.deliveries(run.id, 10, after=1)] == [2]


async def test_sequences_are_gapless_over_the_runs_of_a_report(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(3)]
    await store.plan(report.id, runs, runs[-1].to_ms)
    await decided(store, runs[0], "a", "b")
    await decided(store, runs[1])
    assert (await the_run(store, runs[1])).state is RunState.SUCCEEDED
    await decided(store, runs[2], "a")
    numbers = [d.sequence for run in runs for d in await store.deliveries(run.id, 10)]
    assert numbers == [1, 2, 3]


async def test_a_number_taken_by_another_run_loses_the_decision(
    store: ReportStore, report: Report
) -> None:
    runs = [scheduled(report, hour) for hour in range(2)]
    await store.plan(report.id, runs, runs[-1].to_ms)
    slow = await claimed(store, runs[0], "slow", NOW - 100_000)
    await store.stage(slow, drafts(slow, "a"))
    await decided(store, runs[1], "a", holder="fast")
    assert not await store.decide(slow, 7, manifest(slow, 1), NOW)
    await decided(store, runs[0], "a", holder="slow again")
    assert [d.sequence for d in await store.deliveries(runs[0].id, 10)] == [2]


async def test_deliveries_are_claimed_once_with_exact_bytes(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b", "c")
    (due,) = await store.due(NOW)
    assert (due.report_id, due.endpoint) == (report.id, report.endpoint)
    assert await store.due(NOW - 1) == []
    claims = await asyncio.gather(
        *(store.claim_deliveries(report.id, NOW, LEASE, 2) for _ in range(4))
    )
    parcels = sorted((p for claim in claims for p in claim), key=lambda p: p.body)
    assert [p.body for p in parcels] == [f"{s} of {run.id}".encode() for s in "abc"]
    first = parcels[0]
    assert (first.attempt, first.signing_secret_sealed, first.user_info_sealed) == (
        1,
        SECRET,
        b"\x00user",
    )
    assert await store.due(NOW) == []
    assert await states(store, run) == [DeliveryState.SENDING] * 3


async def test_the_last_delivery_ends_the_run(store: ReportStore, report: Report) -> None:
    run = await delivering(store, report, "a", "b")
    first, second = await store.claim_deliveries(report.id, NOW, LEASE, 9)
    await store.record([ended(first, DeliveryMove.CONFIRM)], NOW + 1)
    assert (await the_run(store, run)).state is RunState.DELIVERING
    for _ in range(2):  # repeating changes nothing
        await store.record([ended(second, DeliveryMove.CONFIRM)], NOW + 2)
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.ended_at_ms) == (RunState.SUCCEEDED, 2, NOW + 2)
    attempts = await store.attempts([first.delivery_id, second.delivery_id])
    assert {(a.status, a.duration_ms, a.answer) for a in attempts} == {(204, 12, b"\xffbody")}
    assert len(attempts) == 2


async def test_a_retry_is_due_at_its_instant_and_not_before(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (parcel,) = await store.claim_deliveries(report.id, NOW, LEASE, 9)
    await store.record([ended(parcel, DeliveryMove.RETRY, NOW + 5_000)], NOW)
    (delivery,) = await store.deliveries(run.id, 9)
    assert (delivery.state, delivery.next_attempt_at_ms) == (
        DeliveryState.RETRYING,
        NOW + 5_000,
    )
    assert await store.claim_deliveries(report.id, NOW + 4_999, LEASE, 9) == []
    (parcel,) = await store.claim_deliveries(report.id, NOW + 5_000, LEASE, 9)
    assert parcel.attempt == 2
    await store.record([ended(parcel, DeliveryMove.GIVE_UP)], NOW)
    found = await the_run(store, run)
    assert (found.state, found.failed) == (RunState.FAILED, 1)
    assert await store.due(NOW * 2) == []


async def test_a_dead_couriers_delivery_is_due_again_and_its_attempt_lost(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a")
    (dead,) = await store.claim_deliveries(report.id, NOW, LEASE, 9)
    assert await store.claim_deliveries(report.id, LEASE - 1, LEASE, 9) == []
    (living,) = await store.claim_deliveries(report.id, LEASE, LEASE + 60_000, 9)
    assert (living.attempt, living.body) == (2, dead.body)
    lost, open_ = await store.attempts([dead.delivery_id])
    assert (lost.outcome, open_.outcome) == (AttemptOutcome.LOST, AttemptOutcome.SENDING)
    # what the one thought dead says late counts only if it is a success
    await store.record([ended(dead, DeliveryMove.GIVE_UP)], LEASE)
    assert await states(store, run) == [DeliveryState.SENDING]
    await store.record([ended(dead, DeliveryMove.CONFIRM)], LEASE)
    assert await states(store, run) == [DeliveryState.DELIVERED]
    await store.record([ended(living, DeliveryMove.GIVE_UP)], LEASE)
    assert await states(store, run) == [DeliveryState.DELIVERED]
    assert (await the_run(store, run)).state is RunState.SUCCEEDED


async def test_delivered_wins_over_an_earlier_failure(store: ReportStore, report: Report) -> None:
    run = await delivering(store, report, "a", "b")
    parcels = await store.claim_deliveries(report.id, NOW, LEASE, 9)
    await store.record([ended(parcel, DeliveryMove.GIVE_UP) for parcel in parcels], NOW)
    assert (await the_run(store, run)).state is RunState.FAILED
    await store.record([ended(parcels[0], DeliveryMove.CONFIRM)], NOW)
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.PARTLY_FAILED, 1, 1)
    await store.record([ended(parcels[1], DeliveryMove.CONFIRM)], NOW)
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.SUCCEEDED, 2, 0)


async def test_deleting_skips_what_is_undecided_and_cancels_what_is_open(
    store: ReportStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b", "c")
    later = scheduled(report, 1)
    await store.plan(report.id, [later], later.to_ms)
    claim = await claimed(store, later, "h2")
    done, flying = await store.claim_deliveries(report.id, NOW, LEASE, 2)
    await store.record([ended(done, DeliveryMove.CONFIRM)], NOW)
    for _ in range(2):
        await store.delete_report(report.id, NOW + 1)
    assert await store.report("default", "monthly") is None
    assert await store.reports("default") == []
    assert (await the_run(store, later)).state is RunState.SKIPPED
    assert not await store.decide(claim, 7, manifest(claim, 0), NOW)
    assert sorted(await states(store, run)) == ["cancelled", "cancelled", "delivered"]
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.PARTLY_FAILED, 1, 2)
    assert await store.due(NOW * 2) == []
    assert await store.claim_deliveries(report.id, NOW * 2, NOW * 3, 9) == []
    await store.record([ended(flying, DeliveryMove.CONFIRM)], NOW)
    assert sorted(await states(store, run)) == ["cancelled", "delivered", "delivered"]
    assert (await the_run(store, run)).failed == 1
    assert await store.plans(NOW * 2, 10) == []
    with pytest.raises(Problem):
        await store.ask_run(report, START, START + 60_000, NOW, revise=False)


async def test_a_parked_endpoint_keeps_what_is_owed_and_resumes(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a")
    await store.park_endpoint("other", report.endpoint, "gone")
    assert len(await store.due(NOW)) == 1
    await store.park_endpoint("default", report.endpoint, "gone")
    found = await store.report("default", report.id)
    assert found is not None
    assert (found.state, found.state_reason) == (ReportState.PARKED, "gone")
    assert await store.due(NOW) == []
    assert await store.claim_deliveries(report.id, NOW, LEASE, 9) == []
    assert len(await store.plans(START + 9 * HOUR_MS, 10)) == 1
    await store.resume_report(report.id)
    assert await store.report("default", report.id) == report
    assert len(await store.claim_deliveries(report.id, NOW, LEASE, 9)) == 1


async def test_runs_are_listed_newest_first_in_pages(store: ReportStore, report: Report) -> None:
    runs = [scheduled(report, hour) for hour in range(5)]
    await store.plan(report.id, runs, runs[-1].to_ms)
    page = await store.runs(report.id, 2)
    rest = await store.runs(report.id, 9, before=page[-1])
    assert page + rest == runs[::-1]
    assert await store.run("other", runs[0].id) is None
