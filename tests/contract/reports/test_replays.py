"""What every ReplayStore promises of replays of many deliveries, on SQLite and PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from meterline.access import Action, Kind
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.deliveries.replays import SqlReplayStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.delivery import (
    AttemptOutcome,
    ClaimedDelivery,
    DeliveryMove,
    DeliveryQuery,
    DeliveryState,
    Replay,
    ReplayState,
    ReplayStore,
    SendGrant,
    Worked,
)
from meterline.limits import REPLAYS_RUNNING_MAX
from meterline.problem import Problem, ProblemType
from meterline.report import Report, ReportStore, Run, RunState
from tests.contract.reports.conftest import (
    NOW,
    START,
    decided,
    delivering,
    ended,
    scheduled,
    states,
    the_run,
)

LATER = NOW + 1_000
SUBJECTS = [f"s{number}" for number in range(6)]


@pytest.fixture
def replays(control_database: Database) -> ReplayStore:
    return SqlReplayStore(control_database)


def asked(report: Report, name: str = "01A", per_second: int = 8, **conditions: object) -> Replay:
    query = DeliveryQuery(report_id=report.id, decided_max_ms=LATER)
    changed = replace(query, **conditions)  # type: ignore[arg-type]
    return Replay(name, "default", changed, per_second, LATER)


async def claim(store: ReportStore, report: Report, now_ms: int = NOW) -> list[ClaimedDelivery]:
    """By subject: they are claimed in the order of their ids."""
    claimed_deliveries = await store.claim_deliveries(
        [SendGrant(report.id, 99)], now_ms, now_ms + 60_000
    )
    return sorted(claimed_deliveries, key=lambda it: it.body)


async def sent(store: ReportStore, report: Report, *moves: DeliveryMove) -> Run:
    """A run whose deliveries ended so, by number."""
    run = await delivering(store, report, *SUBJECTS[: len(moves)])
    claimed_deliveries = await claim(store, report)
    ends = [ended(it, move) for it, move in zip(claimed_deliveries, moves, strict=True)]
    await store.record(ends, NOW)
    return run


async def worked_off(replays: ReplayStore, now_ms: int = LATER) -> tuple[Replay, list[int]]:
    """The replay at its end, and when its steps were."""
    instants = []
    for _ in range(99):
        worked = await replays.work(now_ms)
        assert worked.replay is not None
        instants.append(now_ms)
        if worked.replay.state is not ReplayState.RUNNING:
            return worked.replay, instants
        assert worked.due_at_ms is not None
        now_ms = worked.due_at_ms
    raise AssertionError("it does not end")


async def test_all_are_sent_again_at_a_pace_and_their_run_follows(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    moves = [DeliveryMove.CONFIRM, DeliveryMove.GIVE_UP] * 3
    run = await sent(store, report, *moves)
    made = await replays.create_replay(asked(report))
    assert (made.counted, made.due_at_ms, made.state) == (6, LATER, ReplayState.RUNNING)
    assert await replays.create_replay(asked(report)) == made
    assert await states(store, run) == [move_state(it) for it in moves]
    done, instants = await worked_off(replays)
    assert (done.state, done.replayed, done.in_flight, done.refused) == (ReplayState.DONE, 6, 0, 0)
    assert instants == [LATER, LATER + 250, LATER + 500, LATER + 750], "two a step, and the end"
    assert (done.ended_at_ms, done.due_at_ms) == (LATER + 750, None)
    assert await replays.replay("default", "01A") == done
    assert await replays.work(LATER * 2) == Worked(None, None)
    assert await states(store, run) == [DeliveryState.PENDING] * 6
    found = await the_run(store, run)
    assert (found.state, found.delivered, found.failed) == (RunState.DELIVERING, 0, 0)
    claimed_deliveries = await claim(store, report, LATER + 500)
    assert {(it.attempt, it.attempts_before) for it in claimed_deliveries} == {(2, 1)}
    await store.record([ended(it, DeliveryMove.CONFIRM) for it in claimed_deliveries], LATER)
    assert (await the_run(store, run)).state is RunState.SUCCEEDED


def move_state(move: DeliveryMove) -> DeliveryState:
    ends = {
        DeliveryMove.CONFIRM: DeliveryState.DELIVERED,
        DeliveryMove.GIVE_UP: DeliveryState.FAILED,
    }
    return ends[move]


async def test_no_step_is_taken_before_it_is_due(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    await sent(store, report, *[DeliveryMove.CONFIRM] * 6)
    await replays.create_replay(asked(report))
    assert await replays.work(LATER - 1) == Worked(None, LATER)
    first = await replays.work(LATER)
    assert first.replay is not None
    assert (first.replay.replayed, first.due_at_ms) == (2, LATER + 250)
    assert await replays.work(LATER + 249) == Worked(None, LATER + 250)


async def test_many_workers_take_each_delivery_once(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    run = await sent(store, report, *[DeliveryMove.CONFIRM] * 6)
    await replays.create_replay(asked(report, per_second=4))
    for step in range(9):
        now_ms = LATER + 1_000 * step
        await asyncio.gather(*(replays.work(now_ms) for _ in range(4)))
    done = await replays.replay("default", "01A")
    assert done is not None
    assert (done.state, done.replayed, done.in_flight) == (ReplayState.DONE, 6, 0)
    assert await states(store, run) == [DeliveryState.PENDING] * 6


async def test_those_on_their_way_are_left_alone_and_those_deleted_refused(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    run = await delivering(store, report, *SUBJECTS[:4])
    first, second, _ = await store.claim_deliveries([SendGrant(report.id, 3)], NOW, NOW + 60_000)
    ends = [ended(first, DeliveryMove.CONFIRM), ended(second, DeliveryMove.RETRY, NOW + 10**7)]
    await store.record(ends, NOW)
    await replays.create_replay(asked(report, per_second=100))
    done, _ = await worked_off(replays)
    assert (done.counted, done.replayed, done.in_flight, done.refused) == (4, 2, 2, 0)
    assert sorted(await states(store, run)) == ["pending", "pending", "pending", "sending"]
    await replays.create_replay(asked(report, "01B", per_second=100))
    await store.delete_report(report.id, LATER)
    done, _ = await worked_off(replays)
    assert (done.counted, done.replayed, done.in_flight, done.refused) == (4, 0, 0, 4)
    assert await states(store, run) == [DeliveryState.CANCELLED] * 4


async def test_those_whose_dispatcher_died_are_sent_again_in_a_paused_report_too(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    run = await delivering(store, report, "a", "b")
    (dead,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW, LATER)
    (living,) = await store.claim_deliveries([SendGrant(report.id, 1)], NOW, LATER + 1)
    await store.pause_report(report.id, NOW)
    await replays.create_replay(asked(report, per_second=100))
    done, _ = await worked_off(replays)
    assert (done.counted, done.replayed, done.in_flight, done.refused) == (2, 1, 1, 0)
    became = {it.id: it.state for it in await store.deliveries(run.id, 9)}
    assert became[dead.delivery_id] is DeliveryState.PENDING
    assert became[living.delivery_id] is DeliveryState.SENDING
    attempts = await store.attempts([dead.delivery_id, living.delivery_id])
    outcomes = {it.delivery_id: it.outcome for it in attempts}
    assert outcomes == {
        dead.delivery_id: AttemptOutcome.LOST,
        living.delivery_id: AttemptOutcome.SENDING,
    }


async def test_those_whose_bytes_are_gone_are_refused(
    store: ReportStore, replays: ReplayStore, report: Report, control_database: Database
) -> None:
    run = await sent(store, report, *[DeliveryMove.CONFIRM] * 3)
    assert await SqlReportStore(control_database).remove_bytes(NOW, 1) == 1
    await replays.create_replay(asked(report, per_second=100))
    done, _ = await worked_off(replays)
    assert (done.counted, done.replayed, done.in_flight, done.refused) == (3, 0, 0, 3)
    assert await states(store, run) == [DeliveryState.DELIVERED] * 3


async def test_failed_since_asks_for_what_failed_and_has_not_arrived(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    run = await delivering(store, report, *SUBJECTS[:4])
    claimed_deliveries = await claim(store, report)
    for place, it in enumerate(claimed_deliveries[:3]):
        await store.record([ended(it, DeliveryMove.GIVE_UP)], NOW + place)
    await store.record([ended(claimed_deliveries[3], DeliveryMove.CONFIRM)], NOW)
    since = asked(report, per_second=100, failed_since_ms=NOW + 1)
    assert await replays.counts("default", since.query) == {DeliveryState.FAILED: 2}
    await replays.create_replay(since)
    await store.record(
        [ended(claimed_deliveries[1], DeliveryMove.CONFIRM)], LATER
    )  # late, but it arrived
    done, _ = await worked_off(replays)
    assert (done.counted, done.replayed, done.in_flight) == (2, 1, 0)
    state = DeliveryState
    expected = [state.FAILED, state.DELIVERED, state.PENDING, state.DELIVERED]
    assert await states(store, run) == expected


async def test_conditions_are_joined_and_later_runs_are_left_out(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    runs = []
    for hour in range(3):
        run = scheduled(report, hour)
        await store.plan(report, [run], run.to_ms)
        await decided(store, run, "a", "b", holder=f"h{hour}")
        runs.append(run)
    claimed_deliveries = await claim(store, report)
    await store.record([ended(it, DeliveryMove.CONFIRM) for it in claimed_deliveries], NOW)
    everything = {DeliveryState.DELIVERED: 6}
    delivered = DeliveryState.DELIVERED
    for query, expected in [
        (DeliveryQuery(report_id=report.id), everything),
        (DeliveryQuery(report_id="01OTHER"), {}),
        (DeliveryQuery(run_id=runs[1].id), {delivered: 2}),
        (DeliveryQuery(subject="b"), {delivered: 3}),
        (DeliveryQuery(subject="b", from_min_ms=START + 1), {delivered: 2}),
        (DeliveryQuery(from_min_ms=runs[1].from_ms, to_max_ms=runs[1].to_ms), {delivered: 2}),
        (DeliveryQuery(decided_max_ms=NOW), everything),
        (DeliveryQuery(decided_max_ms=NOW - 1), {}),
    ]:
        assert await replays.counts("default", query) == expected, query
        assert await replays.counts("other", query) == {}
    only = asked(report, subject="b", per_second=4)
    await replays.create_replay(only)
    done, _ = await worked_off(replays)
    assert done.replayed == 3
    assert [await states(store, run) for run in runs] == [[delivered, DeliveryState.PENDING]] * 3


async def test_a_cancelled_one_goes_no_further(
    store: ReportStore, replays: ReplayStore, report: Report
) -> None:
    run = await sent(store, report, *[DeliveryMove.CONFIRM] * 4)
    await replays.create_replay(asked(report))
    await replays.work(LATER)
    with pytest.raises(Problem) as caught:
        await replays.cancel_replay("other", "01A", LATER)
    assert caught.value.type is ProblemType.NOT_FOUND
    ended_ = await replays.cancel_replay("default", "01A", LATER + 1)
    assert (ended_.state, ended_.replayed, ended_.ended_at_ms) == (
        ReplayState.CANCELLED,
        2,
        LATER + 1,
    )
    assert await replays.cancel_replay("default", "01A", LATER + 9) == ended_
    assert await replays.work(LATER * 2) == Worked(None, None)
    assert (await states(store, run)).count(DeliveryState.DELIVERED) == 2


async def test_they_are_listed_by_namespace_newest_first(
    replays: ReplayStore, report: Report
) -> None:
    made = [await replays.create_replay(asked(report, f"01{letter}")) for letter in "ABC"]
    assert await replays.replays("default", 2) == made[:0:-1]
    assert await replays.replays("default", 9, after="01B") == made[:1]
    assert await replays.replays("other", 9) == []
    assert await replays.replay("other", "01A") is None


async def test_those_of_a_report_are_listed(replays: ReplayStore, report: Report) -> None:
    made = [await replays.create_replay(asked(report, f"01{letter}")) for letter in "AC"]
    await replays.create_replay(asked(report, "01B", report_id="another"))
    assert await replays.replays("default", 9, report_id=report.id) == made[::-1]
    assert await replays.replays("default", 1, "01C", report_id=report.id) == made[:1]
    assert await replays.replays("other", 9, report_id=report.id) == []


async def test_only_so_many_run_at_once(replays: ReplayStore, report: Report) -> None:
    for number in range(REPLAYS_RUNNING_MAX):
        await replays.create_replay(asked(report, f"01A{number:02}"))
    with pytest.raises(Problem, match="cancel it") as caught:
        await replays.create_replay(asked(report, "01B"))
    assert caught.value.type is ProblemType.CONFLICT
    await replays.cancel_replay("default", "01A00", LATER)
    await replays.create_replay(asked(report, "01B"))


async def test_beginning_and_cancelling_are_changes(
    control_database: Database, replays: ReplayStore, report: Report
) -> None:
    for _ in range(2):
        await replays.create_replay(asked(report), author="key:1")
        await replays.cancel_replay("default", "01A", LATER + 1, author="key:2")
    access = SqlAccessStore(control_database)
    changes = await access.changes("default", 9, kind=Kind.REPLAY)
    assert [(it.action, it.author, it.subject_id, it.name) for it in changes] == [
        (Action.CANCEL, "key:2", "01A", "0 deliveries"),
        (Action.CREATE, "key:1", "01A", "0 deliveries"),
    ]
    assert {it.detail for it in changes} == {f"report {report.id}"}
