"""Deliveries that could not be made: they have failed with words, and no others wait for them."""

from dataclasses import replace

import pytest

from meterline.backends.control_store.deliveries.replays import SqlReplayStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.delivery import (
    DeliveryDraft,
    DeliveryMove,
    DeliveryQuery,
    DeliveryState,
    Replay,
    ReplayState,
    SendGrant,
    delivery_id,
    digest_of,
)
from meterline.problem import Problem, ProblemType
from meterline.report import Booked, Claim, Owed, Report, ReportStore, Run, RunState
from tests.contract.reports.conftest import (
    LEASE,
    NOW,
    claimed,
    drafts,
    ended,
    manifest,
    scheduled,
    states,
    the_run,
)

WORDS = "The body for subject 'big' would have 9,000,000 bytes."


def failing(draft: DeliveryDraft) -> DeliveryDraft:
    digest = digest_of(WORDS.encode())
    return replace(draft, body=b"", digest=digest, usage_digest=digest, failure=WORDS)


async def decided(store: ReportStore, run: Run, *subjects: str) -> Claim:
    """A run whose subject `big` could not be made."""
    claim = await claimed(store, run, f"h{run.revision}")
    made = [failing(it) if it.subject == "big" else it for it in drafts(claim, *subjects)]
    assert await store.stage(claim, made)
    assert await store.decide(claim, 7, manifest(claim, len(made)), NOW)
    return claim


@pytest.fixture
async def run(store: ReportStore, report: Report) -> Run:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, "a", "big", "c")
    return run


def name_of(run: Run, subject: str) -> str:
    return delivery_id(run.report_id, run.from_ms, run.to_ms, subject, run.revision)


async def test_the_others_arrive_and_the_run_is_partly_failed(
    store: ReportStore, report: Report, run: Run
) -> None:
    shown = await the_run(store, run)
    assert (shown.state, shown.delivered, shown.failed) == (RunState.DELIVERING, 0, 1)
    assert shown.reason == f"1 of 3 deliveries could not be made. The first: {WORDS}"
    failed = DeliveryState.FAILED
    assert await states(store, run) == [DeliveryState.PENDING, failed, DeliveryState.PENDING]
    big = await store.delivery("default", name_of(run, "big"))
    assert big is not None
    assert (big.failure, big.attempts, big.ended_at_ms) == (WORDS, 0, NOW)
    assert (big.number, big.sequence, big.next_attempt_at_ms) == (2, 2, None)
    assert await store.delivery_body("default", big.id) is None
    claimed_deliveries = await store.claim_deliveries([SendGrant(report.id, 10)], NOW, LEASE)
    assert [it.delivery_id for it in claimed_deliveries] == [name_of(run, "a"), name_of(run, "c")]
    await store.record([ended(it, DeliveryMove.CONFIRM) for it in claimed_deliveries], NOW)
    after = await the_run(store, run)
    assert (after.state, after.delivered, after.failed) == (RunState.PARTLY_FAILED, 2, 1)
    assert after.reason == shown.reason
    assert await store.claim_deliveries([SendGrant(report.id, 10)], NOW + 10**9, LEASE) == []


async def test_a_run_of_nothing_else_has_failed(store: ReportStore, report: Report) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, "big")
    shown = await the_run(store, run)
    assert (shown.state, shown.failed, shown.ended_at_ms) == (RunState.FAILED, 1, NOW)
    assert shown.reason.endswith(WORDS)
    again, new = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=False)
    assert (again.id, new) == (run.id, False)  # it has said something
    revision, new = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=True)
    assert (revision.revision, new) == (2, True)


async def test_it_is_not_sent_again_by_any_means(
    store: ReportStore, report: Report, run: Run, control_database: Database
) -> None:
    with pytest.raises(Problem, match=r"It has no body. The body for subject 'big'") as caught:
        await store.replay("default", name_of(run, "big"), NOW)
    assert caught.value.type is ProblemType.CONFLICT
    replays = SqlReplayStore(control_database)
    failed = DeliveryQuery(states=(DeliveryState.FAILED,), decided_max_ms=NOW)
    await replays.create_replay(Replay("01P", "default", failed, 1_000, NOW))
    done = (await replays.work(NOW)).replay
    assert done is not None
    assert (done.state, done.replayed, done.refused) == (ReplayState.DONE, 0, 1)
    await store.pause_report(report.id, NOW)
    await store.resume_report(report.id, NOW, owed=Owed.ALL)
    assert (await states(store, run))[1] is DeliveryState.FAILED
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(report.id, 10)], NOW + 10**9, LEASE
    )
    assert name_of(run, "big") not in {it.delivery_id for it in claimed_deliveries}


async def test_a_receiver_holds_what_could_be_made(
    store: ReportStore, report: Report, control_database: Database
) -> None:
    """By revision: made, too large, made again. What never arrives replaces nothing."""
    first = scheduled(report)
    await store.plan(report, [first], first.to_ms)
    claim = await claimed(store, first, "h0")
    await store.stage(claim, drafts(claim, "big", "z"))
    await store.decide(claim, 7, manifest(claim, 2), NOW)
    made = name_of(first, "big")
    second, _ = await store.request_run(report, first.from_ms, first.to_ms, NOW, revise=True)
    assert (await store.booked(second))["big"].delivery_id == made
    await decided(store, second, "big")
    third, _ = await store.request_run(report, first.from_ms, first.to_ms, NOW, revise=True)
    held = await store.booked(third)
    assert held["big"].delivery_id == made
    assert held["big"].usage_digest != (await store.booked(second))["big"].usage_digest
    assert set(await store.booked(third, "a", "big")) == {"big"}
    assert set(await store.booked(third, "big", None)) == {"z"}
    assert await store.booked(third, "z", None) == {}

    claim = await claimed(store, third, "h9")
    (draft,) = drafts(claim, "big")
    await store.stage(claim, [replace(draft, supersedes=made)])
    await store.decide(claim, 7, manifest(claim, 1), NOW)
    window = (first.from_ms, first.to_ms)
    pulled, _ = await SqlReportStore(control_database).pulled(report.id, window, 10, 10**6)
    of_big = [it for it in pulled if it.delivery.subject == "big"]
    last = name_of(third, "big")
    assert [it.superseded_by for it in of_big] == [last, last, None]
    assert [it.body is None for it in of_big] == [False, True, False]
    assert of_big[1].reason == WORDS


async def test_a_subject_that_was_never_made_is_booked_without_a_delivery(
    store: ReportStore, report: Report, run: Run
) -> None:
    revision, _ = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=True)
    held = await store.booked(revision)
    assert held["big"] == Booked(None, held["big"].usage_digest)
    assert held["a"].delivery_id == name_of(run, "a")


async def test_subjects_are_booked_by_code_points(store: ReportStore, report: Report) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    subjects = ("A", "Z", "a", "b", "é", "ü", "\ue000", "😀")
    claim = await claimed(store, run)
    await store.stage(claim, drafts(claim, *subjects))
    await store.decide(claim, 7, manifest(claim, len(subjects)), NOW)
    revision, _ = await store.request_run(report, run.from_ms, run.to_ms, NOW, revise=True)
    for place, after in enumerate(subjects):
        for end, until in enumerate(subjects[place:], place):
            held = set(await store.booked(revision, after, until))
            assert held == set(subjects[place + 1 : end + 1])


async def test_its_words_are_what_an_audit_finds_under_its_digest(
    run: Run, control_database: Database
) -> None:
    bodies = await SqlEvidence(control_database).bodies(run.id, 0, 10)
    assert [digest_of(it.body or b"") == it.digest for it in bodies] == [True, True, True]
    assert bodies[1].body == WORDS.encode()
