"""What every ReportStore promises of changes of reports, and that each is told with its author."""

import asyncio
from dataclasses import replace

import pytest

from meterline.access import Action, Change, Kind, members_of
from meterline.backends.control_store.access.changes import read_changes
from meterline.backends.control_store.engine import Database
from meterline.delivery import SealedHeaders, SendGrant
from meterline.limits import SECRET_SHOWN_ONCE_MS
from meterline.problem import Problem, ProblemType
from meterline.report import (
    Interval,
    Report,
    ReportChange,
    ReportState,
    ReportStore,
    Run,
    RunMove,
    RunState,
    Schedule,
    Takeover,
)
from meterline.report.filter import EVERYTHING
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS
from tests.contract.reports.conftest import (
    NOW,
    START,
    claimed,
    delivering,
    drafts,
    manifest,
    scheduled,
    the_run,
)

MIDNIGHT = START - START % DAY_MS + DAY_MS
DAILY = Schedule(Interval.DAY, MIDNIGHT - 7 * DAY_MS)


@pytest.fixture
async def told(control_database: Database) -> "Told":
    return Told(control_database)


class Told:
    """The record of changes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, namespace: str = "default") -> list[tuple[str, str, str]]:
        """Author, action and detail of the changes of reports, the first one first."""
        found = await self._database.read(
            lambda connection: read_changes(connection, namespace, 100, kind=Kind.REPORT)
        )
        assert {(it.subject_id, it.name) for it in found} <= {("01R", "monthly")}
        return [(it.author, it.action.value, it.detail) for it in reversed(found)]

    async def newest(self) -> Change:
        """The last change of a report."""
        (found,) = await self._database.read(
            lambda connection: read_changes(connection, "default", 1, kind=Kind.REPORT)
        )
        return found


async def test_every_change_is_told_once_with_its_author(
    store: ReportStore, report: Report, told: Told
) -> None:
    change = ReportChange(filter=EVERYTHING, endpoint="https://other.example/")
    run = await delivering(store, report, "a")
    await store.create_report(report, START, author="key:0")
    later = NOW
    for author in ("key:1", "key:2"):  # the second time nothing is left to do
        later += 1
        await store.update_report(report.id, change, later, author=author)
        await store.pause_report(report.id, later + 2, author=author)
        await store.rotate_secret(report.id, b"new", 1_000, later + 4, author=author)
        window = (START, START + MINUTE_MS)
        await store.request_run(report, *window, later + 6, revise=False, author=author)
        (delivery,) = await store.deliveries(run.id, 10)
        await store.replay("default", delivery.id, later + 8, author=author)
    await store.resume_report(report.id, NOW + 20, author="key:1")
    await store.resume_report(report.id, NOW + 21, author="key:2")
    (claimed,) = await store.claim_deliveries([SendGrant(report.id, 9)], NOW + 21, NOW + 99)
    with pytest.raises(Problem):  # it is on its way
        await store.replay("default", claimed.delivery_id, NOW + 22)
    for endpoint in ("https://other.example/", "https://other.example/"):
        await store.park_endpoint("default", endpoint, "gone " * 99, NOW + 23)
    await store.delete_report(report.id, NOW + 24, author="key:3")
    await store.delete_report(report.id, NOW + 25, author="key:4")
    first, *rest = await told()
    assert first == ("command", "create", "")
    assert [(author, action) for author, action, _ in rest] == [
        ("key:1", "update"),
        ("key:1", "pause"),
        ("key:1", "rotate"),
        ("key:1", "run"),
        ("key:1", "resume"),
        ("dispatcher", "park"),
        ("key:3", "delete"),
    ]
    details = {action: detail for _, action, detail in rest}
    assert details["update"] == "filter, endpoint, credentials"
    assert details["run"] == "2026-02-02T02:00:00Z to 2026-02-02T02:01:00Z"
    assert details["rotate"].endswith("signs until 2026-02-02T02:40:01.005Z")
    assert details["park"].startswith("gone gone")
    assert await told("other") == []


async def test_what_is_refused_is_not_told(store: ReportStore, report: Report, told: Told) -> None:
    before = await told()
    refused = ReportChange(schedule=Schedule(Interval.HOUR, START + MINUTE_MS), filter=EVERYTHING)
    with pytest.raises(Problem) as caught:
        await store.update_report(report.id, refused, NOW)
    assert caught.value.faults[0].field == "schedule"
    for gone in (
        store.update_report("none", ReportChange(), NOW),
        store.rotate_secret("none", b"", 0, NOW),
        store.replay("default", "none", NOW),
    ):
        with pytest.raises(Problem) as caught:
            await gone
        assert caught.value.type is ProblemType.NOT_FOUND
    await store.pause_report("none", NOW)
    await store.resume_report(report.id, NOW)
    assert await told() == before
    assert await store.report("default", report.id) == report


async def test_a_report_is_found_as_it_was_changed(store: ReportStore, report: Report) -> None:
    change = ReportChange(group_by=(), filter=EVERYTHING)
    after = await store.update_report(report.id, change, NOW + 5)
    assert after == replace(
        report, group_by=(), filter=EVERYTHING, updated_at_ms=NOW + 5, takeover=None
    )
    again = await store.update_report(report.id, change, NOW + 9)
    assert await store.report("default", "monthly") == again == after
    # a clock that went back still gives the next definition a name of its own
    last = await store.update_report(report.id, ReportChange(group_by=("model",)), NOW - 9)
    assert last.updated_at_ms == NOW + 6


async def test_a_change_on_trial_is_told_and_changes_nothing(
    store: ReportStore, report: Report, told: Told
) -> None:
    before, change = await told(), ReportChange(group_by=(), schedule=DAILY)
    trial = await store.update_report(report.id, change, NOW + 5, dry_run=True)
    assert await store.report("default", report.id) == report
    assert await told() == before
    assert await store.update_report(report.id, change, NOW + 5) == trial
    refused = ReportChange(schedule=Schedule(Interval.HOUR, START + MINUTE_MS))
    with pytest.raises(Problem):
        await store.update_report(report.id, refused, NOW + 6, dry_run=True)


async def test_a_grace_is_kept_and_given_back(store: ReportStore, report: Report) -> None:
    assert report.grace_ms is None
    after = await store.update_report(report.id, ReportChange(grace_ms=90_000), NOW + 5)
    assert await store.report("default", report.id) == after
    assert after.grace_ms == 90_000
    same = await store.update_report(report.id, ReportChange(group_by=()), NOW + 6)
    assert same.grace_ms == 90_000
    back = await store.update_report(report.id, ReportChange(drops_grace=True), NOW + 7)
    assert (await store.report("default", report.id)) == back
    assert back.grace_ms is None


async def test_credentials_stay_with_their_endpoint(store: ReportStore, report: Report) -> None:
    async def after(change: ReportChange) -> tuple[str, bytes | None]:
        made = await store.update_report(report.id, change, NOW)
        return made.endpoint, made.user_info_sealed

    same = ReportChange(endpoint=report.endpoint)
    assert await after(same) == (report.endpoint, report.user_info_sealed)
    assert await after(replace(same, user_info_sealed=b"me")) == (report.endpoint, b"me")
    assert await after(replace(same, drops_user_info=True)) == (report.endpoint, None)
    other = ReportChange(endpoint="https://other.example/", user_info_sealed=b"me")
    assert await after(other) == ("https://other.example/", b"me")
    assert await after(same) == (report.endpoint, None)  # never to another host


async def test_a_new_schedule_takes_over_at_a_border_of_both(
    store: ReportStore, report: Report
) -> None:
    changed = await store.update_report(report.id, ReportChange(schedule=DAILY), NOW)
    assert (changed.schedule, changed.takeover) == (report.schedule, Takeover(DAILY, MIDNIGHT))
    assert await store.report("default", report.id) == changed
    (plan,) = (await store.plans(MIDNIGHT, 10)).found
    assert plan.planned_until_ms == START
    await store.plan(report, [scheduled(report)], START + HOUR_MS)  # as it was before: nothing
    assert await store.runs(report.id, 10) == []
    await store.plan(changed, [scheduled(report)], MIDNIGHT - HOUR_MS)
    assert (await store.plans(MIDNIGHT - 1, 10)).found == []
    (plan,) = (await store.plans(MIDNIGHT, 10)).found
    assert (plan.report, plan.planned_until_ms) == (changed, MIDNIGHT - HOUR_MS)
    await store.plan(changed, [], MIDNIGHT)
    assert (await store.plans(MIDNIGHT + DAY_MS - 1, 10)).found == []
    (plan,) = (await store.plans(MIDNIGHT + DAY_MS, 10)).found
    assert (plan.report.schedule, plan.report.takeover) == (DAILY, None)
    assert plan.planned_until_ms == MIDNIGHT
    await store.plan(changed, [], MIDNIGHT - HOUR_MS)  # never back
    assert (await store.plans(MIDNIGHT + DAY_MS - 1, 10)).found == []


async def test_a_schedule_that_fits_takes_over_at_once_or_not_after_all(
    store: ReportStore, report: Report
) -> None:
    minutely = Schedule(Interval.MINUTE, 0)
    changed = await store.update_report(report.id, ReportChange(schedule=minutely), NOW)
    assert (changed.schedule, changed.takeover) == (minutely, None)
    (plan,) = (await store.plans(START + MINUTE_MS, 10)).found
    assert plan.planned_until_ms == START
    changed = await store.update_report(report.id, ReportChange(schedule=DAILY), NOW)
    assert changed.takeover is not None
    back = await store.update_report(report.id, ReportChange(schedule=minutely), NOW)
    assert (back.schedule, back.takeover) == (minutely, None)


async def test_a_change_while_a_run_is_made_has_it_made_anew(
    store: ReportStore, report: Report
) -> None:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    stale = await claimed(store, run, "stale")
    await store.stage(stale, drafts(stale, "a", "b"))
    changed = await store.update_report(report.id, ReportChange(filter=EVERYTHING), NOW)
    assert not await store.decide(stale, 7, manifest(stale, 2), NOW)
    await store.release_run(run.id, "stale")
    fresh = await claimed(store, run, "fresh")
    assert fresh.report == changed
    await store.stage(fresh, drafts(fresh, "a"))
    assert await store.decide(fresh, 7, manifest(fresh, 1), NOW)
    assert [it.subject for it in await store.deliveries(run.id, 10)] == ["a"]
    # decided runs are never touched
    await store.update_report(report.id, ReportChange(group_by=()), NOW)
    assert (await the_run(store, run)).manifest == manifest(fresh, 1)


async def test_a_paused_report_finds_no_runs_and_sends_nothing_until_it_is_resumed(
    store: ReportStore, report: Report
) -> None:
    await delivering(store, report, "a")
    later = scheduled(report, 1)
    await store.plan(report, [later], later.to_ms)
    by_hand, _ = await store.request_run(report, START, START + MINUTE_MS, NOW, revise=False)
    assert len((await store.undecided(NOW, 10)).found) == 2
    await store.pause_report(report.id, NOW)
    assert (await store.undecided(NOW, 10)).found == []
    paused = await store.report("default", report.id)
    assert paused is not None
    assert paused.state is ReportState.PAUSED
    assert (await store.plans(START + 9 * HOUR_MS, 10)).found == []
    assert await store.due(NOW) == []
    assert await store.claim_deliveries([SendGrant(report.id, 9)], NOW, NOW + 1) == []
    await store.park_endpoint("default", report.endpoint, "gone", NOW)
    assert await store.report("default", report.id) == paused
    await store.resume_report(report.id, NOW)
    assert len((await store.plans(START + 9 * HOUR_MS, 10)).found) == 1
    assert {run.id for run, _ in (await store.undecided(NOW, 10)).found} == {later.id, by_hand.id}
    assert len(await store.claim_deliveries([SendGrant(report.id, 9)], NOW, NOW + 1)) == 1


async def test_parked_reports_can_be_paused_and_forget_why(
    store: ReportStore, report: Report
) -> None:
    await store.park_endpoint("default", report.endpoint, "gone", NOW)
    await store.pause_report(report.id, NOW)
    paused = await store.report("default", report.id)
    assert paused is not None
    assert (paused.state, paused.state_reason) == (ReportState.PAUSED, "")


async def test_changes_at_once_take_turns(store: ReportStore, report: Report) -> None:
    made = await asyncio.gather(
        store.update_report(report.id, ReportChange(group_by=()), NOW),
        store.update_report(report.id, ReportChange(filter=EVERYTHING), NOW),
        store.update_report(report.id, ReportChange(endpoint="https://b.example/"), NOW),
    )
    assert len({it.updated_at_ms for it in made}) == 3
    found = await store.report("default", report.id)
    assert found is not None
    assert (found.group_by, found.filter, found.endpoint) == ((), EVERYTHING, "https://b.example/")


async def test_asking_for_a_skipped_run_is_told(
    store: ReportStore, report: Report, told: Told
) -> None:
    skipped = replace(scheduled(report), state=RunState.SKIPPED, ended_at_ms=NOW)
    await store.plan(report, [skipped], skipped.to_ms)

    async def ask(author: str, *, revise: bool = False) -> Run:
        window = (skipped.from_ms, skipped.to_ms)
        run, _ = await store.request_run(report, *window, NOW + 1, revise=revise, author=author)
        return run

    await ask("key:1")
    await ask("key:2")
    claim = await claimed(store, skipped)
    assert await store.close_run(claim, RunMove.REFUSE, "too much", NOW)
    await ask("key:3")
    claim = await claimed(store, skipped, "h2")
    await store.stage(claim, drafts(claim, "a"))
    assert await store.decide(claim, 7, manifest(claim, 1), NOW)
    await ask("key:4")
    assert (await ask("key:5", revise=True)).revision == 2
    assert [author for author, action, _ in await told() if action == Action.RUN] == [
        "key:1",
        "key:3",
        "key:5",
    ]


async def test_an_update_tells_what_was_and_what_is_and_no_secret(
    store: ReportStore, report: Report, told: Told
) -> None:
    headers = SealedHeaders(("X-Key",), b"sealed")
    change = ReportChange(
        endpoint="https://other.example/", headers=headers, grace_ms=90_000, filter=EVERYTHING
    )
    await store.update_report(report.id, change, NOW)
    last = await told.newest()
    found = {one.member: (one.before, one.after) for one in members_of(last.members)}
    assert found.pop("filter")[1] == {}
    assert found == {
        "endpoint.url": (report.endpoint, "https://other.example/"),
        "endpoint.user_info": (True, False),
        "endpoint.headers": ([], ["X-Key"]),
        "grace_seconds": (None, 90),
    }
    assert "sealed" not in last.members


async def test_showing_a_secret_is_told_once_a_minute_and_author(
    store: ReportStore, report: Report, told: Told
) -> None:
    for at_ms, author in (
        (0, "key:1"),
        (1, "key:1"),
        (2, "key:2"),
        (SECRET_SHOWN_ONCE_MS, "key:1"),
    ):
        await store.tell_secret_shown(report, NOW + at_ms, author=author)
    assert [it for it in await told() if it[1] == "show"] == [
        (author, "show", "signing secret") for author in ("key:1", "key:2", "key:1")
    ]
