"""ProgressStore over SQL: small rows, merged by the greatest: repetition and order never matter."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert, put
from meterline.backends.control_store.progress import differences, filling, fills
from meterline.backends.control_store.progress.dropped_revisions import mind_catalogue
from meterline.backends.control_store.progress.erasures import is_erased_from
from meterline.backends.control_store.progress.partitions import catch_ups, growth
from meterline.backends.control_store.progress.seal_sums import append_ms_before, summed_end
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_one,
    read_by,
    reads,
    writes,
    written_by,
)
from meterline.backends.control_store.tables.erasures import erasures
from meterline.backends.control_store.tables.meters import (
    completeness,
    fill_bounds,
    flushed,
    logs,
    meter_revisions,
    meters,
    seals,
)
from meterline.ports import Unsuitable
from meterline.problem import Problem, conflict
from meterline.usage import ErasureState, Lacking, Seal, SliceId

REGISTER_TRIES_MAX: Final = 20  # a race for one number is lost at most once per rival


def _complete_until() -> Select[int, Any, int, Any]:
    """How many partitions have a claim, the least of the claims, whether one has a slice that is
    not filled in, and how many partitions there are; of `log`, for so many `partitions` at least,
    and a `revision`.
    """
    log, partitions, revision = (
        bindparam(name, type_=BigInteger) for name in ("log", "partitions", "revision")
    )
    # of this moment as well: a log may have grown since the one who asks looked
    of_log = select(func.max(logs.c.partitions)).where(logs.c.number == log)
    registered = func.coalesce(of_log.scalar_subquery(), 0)
    claims = (
        select(completeness.c.partition, func.max(completeness.c.until_ms).label("until_ms"))
        .where(
            completeness.c.log == log,
            or_(completeness.c.partition < partitions, completeness.c.partition < registered),
            completeness.c.catalogue >= revision,
        )
        .group_by(completeness.c.partition)
        .subquery()
    )
    first = filling.unfilled(log, claims.c.partition, revision).with_only_columns(seals.c.slice)
    # One statement, so that claims and backfill list are of one moment. The first slice of each
    # partition is asked for by itself: no plan reads all seals for it.
    return select(
        func.count().label("partitions"),
        func.min(claims.c.until_ms).label("until_ms"),
        func.count(first.limit(1).scalar_subquery()).label("filling"),
        registered.label("registered"),
    ).select_from(claims)


# Every query of usage asks this: to put it together takes longer than to answer it.
_COMPLETE_UNTIL: Final = _complete_until()


class SqlProgressStore(SqlStore):
    """See `ports.ProgressStore`."""

    record_difference = written_by(differences.record)
    differences_between = read_by(differences.between)
    differing_slices = read_by(differences.count)
    mark_mended = written_by(differences.mark_mended)

    async def register_log(self, log_id: str, partitions: int) -> int:
        """See the port."""

        async def act(connection: Connection) -> int | None:
            known = select(logs.c.number, logs.c.partitions).where(logs.c.id == log_id)
            row = (await connection.execute(known)).one_or_none()
            if row is None:
                following = select(
                    func.coalesce(func.max(logs.c.number), 0) + 1,
                    literal(log_id),
                    literal(partitions),
                )
                # a where makes ON CONFLICT after INSERT FROM SELECT readable for SQLite's parser
                statement = insert(connection, logs).from_select(
                    ["number", "id", "partitions"], following.where(literal(value=True))
                )
                await connection.execute(statement.on_conflict_do_nothing())
                row = (await connection.execute(known)).one_or_none()
            if row is None:  # another log took the number
                return None
            if row.partitions != partitions and not await _is_growing(
                connection, row.number, partitions
            ):
                raise _other_partitions(log_id, row.partitions, partitions)
            return int(row.number)

        for _ in range(REGISTER_TRIES_MAX):
            number = await self.database.write(act)
            if number is not None:
                return number
        raise AssertionError("every try lost its number to another new log")

    @reads
    async def log_number(self, connection: Connection, log_id: str) -> int:
        """The number of a log that is registered. Raises `Unsuitable` with words for another."""
        question = select(logs.c.number).where(logs.c.id == log_id)
        number = (await connection.execute(question)).scalar_one_or_none()
        if number is None:
            raise Unsuitable(f"log {log_id} was never counted here: run `meterline migrate` first")
        return int(number)

    layout = read_by(growth.layout)
    begin_growth = written_by(growth.begin)
    pass_mark = written_by(growth.pass_mark)
    marks = read_by(growth.marks)

    @reads
    async def log_firsts(self, connection: Connection, number: int) -> tuple[int, ...]:
        """By partition, the offset that the first record of a topic counts as; empty where offsets
        are the topic's own.
        """
        question = select(logs.c.firsts).where(logs.c.number == number)
        firsts = (await connection.execute(question)).scalar_one_or_none()
        return () if firsts is None else tuple(msgspec.json.decode(firsts, type=list[int]))

    @writes
    async def seal(self, connection: Connection, seal: Seal) -> None:
        """See the port."""
        await filling.lock(connection, seal.log, shared=True)
        if seal.slice < await summed_end(connection, seal.log, seal.partition):
            return
        await mind_catalogue(connection, seal)
        there = select(seals.c.slice).where(
            seals.c.log == seal.log,
            seals.c.partition == seal.partition,
            seals.c.slice == seal.slice,
        )
        if (await connection.execute(there)).first() is None:
            await filling.lower(connection, seal)
        elif await is_erased_from(connection, SliceId(*seal[:3])):
            return  # what a late worker counts of an erased subject is not read: it is filled in
        row = dict(zip(seals.c.keys(), seal, strict=True))  # `Seal` has the order of the columns
        await put(connection, seals, [row], by="catalogue")

    @reads
    async def last_seal(self, connection: Connection, log: int, partition: int) -> Seal | None:
        """See the port."""
        question = (
            select(seals)
            .where(seals.c.log == log, seals.c.partition == partition)
            .order_by(seals.c.slice.desc())
            .limit(1)
        )
        return await fetch_one(connection, question, Seal._make)

    append_ms_before = read_by(append_ms_before)

    @reads
    async def unfilled(
        self, connection: Connection, log: int, partition: int, revision: int, limit: int
    ) -> list[Seal]:
        """See the port."""
        question = filling.unfilled(log, partition, revision).where(~_is_being_erased(revision))
        rows = await connection.execute(question.order_by(seals.c.slice).limit(limit))
        return [Seal._make(row) for row in rows]

    @reads
    async def unsettled(
        self, connection: Connection, log: int, partition: int, revisions: Sequence[int]
    ) -> list[int]:
        """See the port."""
        # In one row: with 10,000 meters a row for each of them takes several times as long.
        listed = func.aggregate_strings(cast(fill_bounds.c.revision, Text), ",")
        question = select(func.coalesce(listed, "")).where(
            fill_bounds.c.log == log,
            fill_bounds.c.partition == partition,
            fill_bounds.c.filled_end == filling.ALL,
        )
        settled = set((await connection.execute(question)).scalar_one().split(","))
        return [revision for revision in revisions if str(revision) not in settled]

    @writes
    async def settle(
        self, connection: Connection, log: int, partition: int, revisions: Sequence[int]
    ) -> None:
        """See the port."""
        await filling.lock(connection, log)
        for revision in revisions:
            await filling.advance(connection, log, partition, revision)

    @reads
    async def lacking(
        self,
        connection: Connection,
        log: int,
        partition: int,
        revisions: Sequence[int],
        limit: int,
    ) -> list[Lacking]:
        """See the port."""
        return await fills.lacking(connection, log, partition, revisions, limit)

    @writes
    async def begin_filling(
        self,
        connection: Connection,
        log: int,
        partition: int,
        revisions: Sequence[int],
        now_ms: int,
    ) -> None:
        """See the port."""
        await fills.begin(connection, log, partition, revisions, now_ms)

    @writes
    async def mark_filled(
        self,
        connection: Connection,
        log: int,
        partition: int,
        slices: Sequence[int],
        revisions: Sequence[int],
        now_ms: int = 0,
    ) -> None:
        """See the port."""
        await filling.lock(connection, log)
        await fills.mark(connection, log, partition, slices, revisions, now_ms)

    fillings = read_by(fills.fillings)
    tell_catch_ups = written_by(catch_ups.tell)
    catch_ups = read_by(catch_ups.all_of)

    @writes
    async def complete(
        self, connection: Connection, log: int, catalogue: int, until_ms: Mapping[int, int]
    ) -> None:
        """See the port."""
        await _put_reached(connection, completeness.c.until_ms, log, catalogue, until_ms)

    @reads
    async def complete_until(
        self, connection: Connection, log: int, partitions: int, revision: int
    ) -> int | None:
        """See the port."""
        asked = {"log": log, "partitions": partitions, "revision": revision}
        row = (await connection.execute(_COMPLETE_UNTIL, asked)).one()
        if row.filling or row.partitions < max(partitions, row.registered):
            return None
        return int(row.until_ms)

    @reads
    async def completions(self, connection: Connection, log: int, catalogue: int) -> dict[int, int]:
        """See the port."""
        return await _reached(connection, completeness.c.until_ms, log, catalogue)

    @writes
    async def flushed(
        self, connection: Connection, log: int, catalogue: int, offset_ends: Mapping[int, int]
    ) -> None:
        """See the port."""
        await _put_reached(connection, flushed.c.offset_end, log, catalogue, offset_ends)

    @reads
    async def flushed_ends(
        self, connection: Connection, log: int, catalogue: int
    ) -> dict[int, int]:
        """See the port."""
        return await _reached(connection, flushed.c.offset_end, log, catalogue)


async def _put_reached(
    connection: Connection, column: Column[int], log: int, catalogue: int, ends: Mapping[int, int]
) -> None:
    """How far each partition is, counted with a catalogue: the furthest stays. What older
    catalogues had counted, and no more than this, says nothing any longer.
    """
    rows = [
        {"log": log, "partition": partition, "catalogue": catalogue, column.name: end}
        for partition, end in sorted(ends.items())
    ]
    if not rows:
        return
    await put(connection, column.table, rows, by=column.name)
    those = column.table.c
    surpassed = [and_(those.partition == n, column <= end) for n, end in sorted(ends.items())]
    await connection.execute(
        delete(column.table).where(those.log == log, those.catalogue < catalogue, or_(*surpassed))
    )


async def _reached(
    connection: Connection, column: Column[int], log: int, catalogue: int
) -> dict[int, int]:
    """By partition, how far it is, counted with this catalogue or a later one."""
    those = column.table.c
    question = (
        select(those.partition, func.max(column).label("end"))
        .where(those.log == log, those.catalogue >= catalogue)
        .group_by(those.partition)
    )
    return {row.partition: row.end for row in await connection.execute(question)}


def _is_being_erased(revision: int) -> ColumnElement[bool]:
    """Whether events of its meter are being erased: it is filled from what is left of them."""
    return exists().where(
        meter_revisions.c.revision == revision,
        meters.c.id == meter_revisions.c.meter_id,
        erasures.c.namespace == meters.c.namespace,
        erasures.c.state == ErasureState.COPYING.value,
    )


async def _is_growing(connection: Connection, number: int, partitions: int) -> bool:
    """Whether a log has yet to get the partitions that it is about to have."""
    found = await growth.layout(connection, number)
    return bool(found.growths) and found.growths[-1].before == partitions


def _other_partitions(log_id: str, registered: int, now: int) -> Problem:
    hint = f" To let it have {now}, run `meterline migrate --partitions {now}`."
    return conflict(
        f"Log {log_id!r} was registered with {registered} partitions and has {now} now. The number "
        "decides where an event counts, so it changes only as a whole: give the log its "
        f"{registered} partitions back, or make a new log.{hint if now > registered else ''}"
    )
