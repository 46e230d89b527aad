"""ReplayStore over SQL: a step, its place and its counts are one transaction."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Row, func, select, update

from meterline.access import COMMAND, Action, Change, Kind
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries.results import in_hand, reopen
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.reports.listing import BY_PLACE, asked_for, behind
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_int,
    fetch_one,
    read_by,
    reads,
    row_of,
    value_of,
    writes,
)
from meterline.backends.control_store.tables.reports import (
    replays,
    report_deliveries,
    report_runs,
    reports,
)
from meterline.delivery import (
    DeliveryPlace,
    DeliveryQuery,
    DeliveryState,
    Replay,
    ReplayState,
    Worked,
    due_after,
    portion,
    replayable,
    summary_of,
)
from meterline.limits import CHANGE_DETAIL_CHARS_MAX, REPLAYS_RUNNING_MAX
from meterline.problem import conflict, not_found

_c: Final = replays.c
_deliveries: Final = report_deliveries.c
_runs: Final = report_runs.c


async def _counts(
    connection: Connection, namespace: str, query: DeliveryQuery
) -> dict[DeliveryState, int]:
    """How many deliveries a query asks for, by state."""
    question = (
        select(_deliveries.state, func.count())
        .join(report_runs, _runs.id == _deliveries.run_id)
        .where(*asked_for(namespace, query))
        .group_by(_deliveries.state)
    )
    found = await connection.execute(question)
    return {DeliveryState(state): int(count) for state, count in found}


class SqlReplayStore(SqlStore):
    """See `meterline.delivery.ReplayStore`."""

    counts = read_by(_counts)

    @writes
    async def create_replay(
        self, connection: Connection, replay: Replay, *, author: str = COMMAND
    ) -> Replay:
        """See the port."""
        there = await _found(connection, replay.namespace, replay.id)
        if there is not None:
            return there
        await _check_room(connection, replay.namespace)
        counts = await _counts(connection, replay.namespace, replay.query)
        made = replace(replay, counted=sum(counts.values()), due_at_ms=replay.created_at_ms)
        await connection.execute(insert(connection, replays).values(_values(made)))
        await _tell(connection, made, Action.CREATE, made.created_at_ms, author)
        return made

    @reads
    async def replay(self, connection: Connection, namespace: str, replay_id: str) -> Replay | None:
        """See the port."""
        return await _found(connection, namespace, replay_id)

    @reads
    async def replays(
        self,
        connection: Connection,
        namespace: str,
        limit: int,
        after: str | None = None,
        *,
        report_id: str | None = None,
    ) -> list[Replay]:
        """See the port."""
        question = select(replays).where(_c.namespace == namespace)
        if report_id is not None:
            question = question.where(_c.report_id == report_id)
        if after is not None:
            question = question.where(_c.id < after)
        question = question.order_by(_c.id.desc()).limit(limit)
        return [_replay(row) for row in await connection.execute(question)]

    @writes
    async def cancel_replay(
        self,
        connection: Connection,
        namespace: str,
        replay_id: str,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Replay:
        """See the port."""
        there = await _found(connection, namespace, replay_id, lock=True)
        if there is None:
            raise not_found("replay", replay_id)
        if there.state is not ReplayState.RUNNING:
            return there
        ended = replace(there, state=ReplayState.CANCELLED, ended_at_ms=now_ms, due_at_ms=None)
        await _write(connection, ended)
        await _tell(connection, ended, Action.CANCEL, now_ms, author)
        return ended

    async def work(self, now_ms: int) -> Worked:
        """See the port."""
        soonest = await self.database.read(_soonest)
        if soonest is None or soonest > now_ms:
            return Worked(None, soonest)

        async def act(connection: Connection) -> Worked:
            # One that another worker has in hand is passed over: its pace is kept by that one.
            question = (
                select(replays)
                .where(_c.due_at_ms <= now_ms)
                .order_by(_c.due_at_ms, _c.id)
                .limit(1)
                .with_for_update(skip_locked=True)
            )
            row = (await connection.execute(question)).one_or_none()
            if row is None:
                return Worked(None, await _soonest(connection))
            after = await _step(connection, _replay(row), now_ms)
            await _write(connection, after)
            return Worked(after, await _soonest(connection))

        return await self.database.write(act)


async def _step(connection: Connection, replay: Replay, now_ms: int) -> Replay:
    """Take a portion; the replay as it is after it."""
    limit = portion(replay.per_second)
    found = await _following(connection, replay, limit)
    # In the order in which others lock: reports, then deliveries, then runs.
    deleted = await _deleted(connection, {row.report_id for row in found})
    states = await _locked(connection, [row.id for row in found], now_ms)
    byteless = await _byteless(connection, {row.run_id for row in found})
    refused = {
        row.id
        for row in found
        if row.report_id in deleted or row.run_id in byteless or row.failure is not None
    }
    wanted = replayable(replay.query)
    reopened = {
        row.id: (row.run_id, states[row.id])
        for row in found
        if row.id not in refused and states.get(row.id) in wanted
    }
    if reopened:
        await reopen(connection, reopened, now_ms)
    replay = replace(
        replay,
        replayed=replay.replayed + len(reopened),
        refused=replay.refused + len(refused),
        in_flight=replay.in_flight + len(found) - len(reopened) - len(refused),
    )
    if len(found) < limit:
        return replace(replay, state=ReplayState.DONE, ended_at_ms=now_ms, due_at_ms=None)
    place = value_of(DeliveryPlace, found[-1])
    due_at_ms = due_after(replay.per_second, len(found), now_ms)
    return replace(replay, after=place, due_at_ms=due_at_ms)


async def _following(connection: Connection, replay: Replay, limit: int) -> Sequence[Any]:
    """The next deliveries that it is asked for."""
    conditions = asked_for(replay.namespace, replay.query)
    if replay.after is not None:
        conditions += behind(replay.after)
    question = (
        select(
            _deliveries.id,
            _deliveries.run_id,
            _deliveries.report_id,
            _deliveries.number,
            _deliveries.failure,
            _runs.decided_at_ms,
        )
        .join(report_runs, _runs.id == _deliveries.run_id)
        .where(*conditions)
        .order_by(*BY_PLACE)
        .limit(limit)
    )
    return (await connection.execute(question)).all()


async def _deleted(connection: Connection, ids: Collection[str]) -> set[str]:
    """Which of these reports are deleted; the others stay until the transaction ends."""
    question = (
        select(reports.c.id, reports.c.deleted_at_ms)
        .where(reports.c.id.in_(ids))
        .order_by(reports.c.id)
        .with_for_update()
    )
    rows = await connection.execute(question)
    return {row.id for row in rows if row.deleted_at_ms is not None}


async def _locked(
    connection: Connection, ids: Sequence[str], now_ms: int
) -> dict[str, DeliveryState]:
    """The states of deliveries that nobody is sending; all stay until the transaction ends."""
    question = (
        select(_deliveries.id, _deliveries.state, _deliveries.due_at_ms)
        .where(_deliveries.id.in_(ids))
        .order_by(_deliveries.id)  # the order in which attempts are recorded
        .with_for_update()
    )
    found = await connection.execute(question)
    states = [(row.id, DeliveryState(row.state), row.due_at_ms) for row in found]
    return {name: state for name, state, due in states if not in_hand(state, due, now_ms)}


async def _byteless(connection: Connection, ids: Collection[str]) -> set[str]:
    """Which of these runs have lost their bytes, or are losing them; those of the others stay."""
    question = (
        select(_runs.id, _runs.bytes_removed_to)
        .where(_runs.id.in_(ids))
        .order_by(_runs.id)
        .with_for_update()
    )
    rows = await connection.execute(question)
    return {row.id for row in rows if row.bytes_removed_to is not None}


async def _check_room(connection: Connection, namespace: str) -> None:
    question = select(func.count()).where(
        _c.namespace == namespace, _c.state == ReplayState.RUNNING.value
    )
    running = await fetch_int(connection, question)
    if running >= REPLAYS_RUNNING_MAX:
        raise conflict(f"{running} replays are running: wait for one of them, or cancel it.")


async def _found(
    connection: Connection, namespace: str, replay_id: str, *, lock: bool = False
) -> Replay | None:
    question = select(replays).where(_c.namespace == namespace, _c.id == replay_id)
    if lock:
        question = question.with_for_update()
    return await fetch_one(connection, question, _replay)


async def _soonest(connection: Connection) -> int | None:
    question = select(func.min(_c.due_at_ms)).where(_c.due_at_ms.is_not(None))
    found = (await connection.execute(question)).scalar_one()
    return None if found is None else int(found)


async def _write(connection: Connection, replay: Replay) -> None:
    await connection.execute(update(replays).where(_c.id == replay.id).values(_values(replay)))


async def _tell(
    connection: Connection, replay: Replay, action: Action, now_ms: int, author: str
) -> None:
    summary = summary_of(replay.query)[:CHANGE_DETAIL_CHARS_MAX]
    name = "1 delivery" if replay.counted == 1 else f"{replay.counted} deliveries"
    change = Change(replay.namespace, now_ms, author, action, Kind.REPLAY, replay.id, name, summary)
    await record_change(connection, change)


def _values(replay: Replay) -> dict[str, Any]:
    place = replay.after
    return row_of(
        replay,
        replays,
        **row_of(replay.query, replays),
        after_decided_at_ms=None if place is None else place.decided_at_ms,
        after_run_id=None if place is None else place.run_id,
        after_number=None if place is None else place.number,
    )


def _replay(row: Row[Any]) -> Replay:
    place = None
    if row.after_run_id is not None:
        place = DeliveryPlace(row.after_decided_at_ms, row.after_run_id, row.after_number)
    return value_of(Replay, row, query=value_of(DeliveryQuery, row), after=place)
