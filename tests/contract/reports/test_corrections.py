"""What every CorrectionStore promises, and what a decision makes of corrections."""

from dataclasses import replace

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.report import (
    Baseline,
    Cause,
    Claim,
    Correction,
    CorrectionStore,
    KeptCorrection,
    LogEnds,
    Manifest,
    Report,
    ReportChange,
    ReportStore,
    Revisions,
    Run,
    RunMove,
    RunState,
)
from meterline.report.correction import digest_over
from tests.contract.reports.conftest import (
    NOW,
    claimed,
    decided,
    delivering,
    drafts,
    manifest,
    scheduled,
    the_run,
)

GROUPS = (("kind", "ü"), ("model", 'a"\0b'))
SAID = [
    Correction("alice", GROUPS, 10**40, -(10**19), Cause.LATE_USAGE, "dlv_x", b"\xffd"),
    Correction("alice", (), None, 5, Cause.LATE_USAGE, "dlv_x", b"\xffd"),
    Correction("bob", (), 7, None, Cause.FILTER, "dlv_y", b""),
    Correction("carol", (), None, 0, Cause.FIRST_SEEN),
]


@pytest.fixture
def kept(control_database: Database) -> CorrectionStore:
    return SqlCorrectionStore(control_database)


async def revised(store: ReportStore, run: Run) -> Claim:
    asked, new = await store.request_run(
        (await reported(store)), run.from_ms, run.to_ms, NOW, revise=True
    )
    assert new
    return await claimed(store, asked)


async def reported(store: ReportStore) -> Report:
    found = await store.report("default", "monthly")
    assert found is not None
    return found


def recorded(claim: Claim, *said: Correction) -> Manifest:
    """The manifest of a revision that sends nothing."""
    made = replace(manifest(claim, 0), entries=3, sequence_first=0)
    return replace(made, corrections=len(said), corrections_digest=digest_over(said))


async def test_corrections_are_seen_once_their_holder_decided_the_run(
    store: ReportStore, kept: CorrectionStore, report: Report
) -> None:
    claim = await revised(store, await delivering(store, report, "alice", "bob"))
    run = claim.run
    slow = replace(claim, holder="never had it")
    await kept.stage_corrections(slow, SAID, 1)
    for _ in range(2):
        await kept.stage_corrections(claim, SAID[:3], 1)
        await kept.stage_corrections(claim, SAID[3:], 4)
    await kept.stage_corrections(claim, [], 5)
    assert await kept.corrections(run.id, 10) == []
    said = recorded(claim, *SAID)
    assert await store.decide(claim, 7, said, NOW)
    found = await the_run(store, run)
    assert (found.state, found.ended_at_ms, found.manifest) == (RunState.RECORDED, NOW, said)
    assert await kept.corrections(run.id, 10) == [
        KeptCorrection(place + 1, one) for place, one in enumerate(SAID)
    ]
    page = await kept.corrections(run.id, 2, after=1)
    assert [one.number for one in page] == [2, 3]
    assert await kept.corrections("run_other", 10) == []


async def test_a_holder_that_lost_its_lease_writes_no_corrections(
    store: ReportStore, kept: CorrectionStore, report: Report
) -> None:
    first = await revised(store, await delivering(store, report, "alice"))
    await kept.stage_corrections(first, SAID, 1)
    second = await claimed(store, first.run, "second", NOW + 60_001)
    await kept.stage_corrections(first, SAID, 1)
    await kept.stage_corrections(second, SAID[:1], 1)
    assert await store.decide(second, 7, recorded(second, SAID[0]), NOW)
    await kept.stage_corrections(first, SAID, 1)
    await store.stage(first, drafts(first, "alice"))
    found = await kept.corrections(first.run.id, 10)
    assert [one.correction for one in found] == SAID[:1]


async def test_what_was_staged_goes_with_the_lease_and_with_the_run(
    store: ReportStore, kept: CorrectionStore, report: Report
) -> None:
    claim = await revised(store, await delivering(store, report, "alice"))
    await kept.stage_corrections(claim, SAID, 1)
    await store.release_run(claim.run.id, claim.holder)
    again = await claimed(store, claim.run, "again")
    await kept.stage_corrections(again, SAID[1:], 1)
    assert await store.close_run(again, RunMove.UNCHANGED, "the same", NOW)
    assert await kept.corrections(claim.run.id, 10) == []


async def test_nobody_decides_a_run_whose_corrections_were_dropped(
    store: ReportStore, kept: CorrectionStore, report: Report
) -> None:
    """A claim may take effect once more after its holder gave the lease back."""
    claim = await revised(store, await delivering(store, report, "alice"))
    await kept.stage_corrections(claim, SAID, 1)
    await store.release_run(claim.run.id, claim.holder)
    assert (await claimed(store, claim.run)).holder == claim.holder
    assert not await store.decide(claim, 7, recorded(claim, *SAID), NOW)
    await kept.stage_corrections(claim, SAID[:3], 1)
    assert not await store.decide(claim, 7, recorded(claim, *SAID), NOW)
    assert (await the_run(store, claim.run)).state is RunState.MATERIALIZING
    await kept.stage_corrections(claim, SAID[3:], 4)
    assert await store.decide(claim, 7, recorded(claim, *SAID), NOW)
    assert [one.correction for one in await kept.corrections(claim.run.id, 10)] == SAID


async def test_a_revision_that_sends_shows_what_it_corrects(
    store: ReportStore, kept: CorrectionStore, report: Report
) -> None:
    claim = await revised(store, await delivering(store, report, "alice"))
    await store.stage(claim, drafts(claim, "alice"))
    await kept.stage_corrections(claim, SAID[:2], 1)
    said = replace(manifest(claim, 1), corrections=2, corrections_digest=digest_over(SAID[:2]))
    assert await store.decide(claim, 7, said, NOW)
    assert (await the_run(store, claim.run)).state is RunState.DELIVERING
    assert [one.correction for one in await kept.corrections(claim.run.id, 9)] == SAID[:2]
    (sent,) = await store.deliveries(claim.run.id, 9)
    body = drafts(claim, "alice")[0].body
    assert await kept.sent_bodies([sent.id, "dlv_other"]) == {sent.id: body}
    assert await kept.sent_bodies([]) == {}


async def test_a_revision_follows_the_newest_run_that_says_something(
    store: ReportStore, kept: CorrectionStore, report: Report
) -> None:
    first = await delivering(store, report, "alice")
    assert await kept.baseline(first) is None
    counted = LogEnds(3, ((0, 5), (1, 2**40)))
    unchanged = await revised(store, first)
    was = Baseline(first.id, 7, report.group_by, report.filter, None)
    assert await kept.baseline(unchanged.run) == was
    assert await store.close_run(unchanged, RunMove.UNCHANGED, "the same", NOW, counted)
    # the figures of the first one hold good further down the log
    before = (await the_run(store, first)).manifest
    assert before is not None
    assert before.counted == counted
    asked_otherwise = ReportChange(group_by=(), revisions=Revisions.SEND)
    changed = await store.update_report(report.id, asked_otherwise, NOW)
    assert changed.revisions is Revisions.SEND
    assert await reported(store) == changed
    second = await revised(store, first)
    assert second.run.supersedes == first.id
    assert await kept.baseline(second.run) == was
    await kept.stage_corrections(second, SAID, 1)
    assert await store.decide(second, 8, recorded(second, *SAID), NOW)
    third = await revised(store, first)
    assert await kept.baseline(third.run) == Baseline(
        second.run.id, 8, (), report.filter, digest_over(SAID)
    )
    # what was sent is what the receiver holds: recorded alone changes nothing of that
    booked = await store.booked(third.run)
    (delivery,) = await store.deliveries(first.id, 9)
    assert {name: it.delivery_id for name, it in booked.items()} == {"alice": delivery.id}
    await store.release_run(third.run.id, third.holder)
    await decided(store, third.run, "alice", holder="sends")
    fourth = await revised(store, first)
    after = await kept.baseline(fourth.run)
    assert after is not None
    assert (after.run_id, after.corrections_digest) == (third.run.id, None)


async def test_a_first_run_has_no_corrections(store: ReportStore, report: Report) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run)
    found = (await the_run(store, run)).manifest
    assert found is not None
    assert (found.corrections, found.corrections_digest, found.counted) == (0, None, None)
