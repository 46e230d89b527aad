"""`ErasureLedger` and `ErasureStore` over SQL: the records of erasures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from sqlalchemy import Row, Select, false, func, insert, or_, select, update
from sqlalchemy.sql import ColumnElement
from ulid import ULID

from meterline.access import COMMAND, Action, Change, Kind
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters.rows import folded, take_turn
from meterline.backends.control_store.progress import filling
from meterline.backends.control_store.progress.blocks import publish
from meterline.backends.control_store.progress.erased import (
    erase_description,
    erase_redrives,
    erase_rows,
    names_in_filters,
)
from meterline.backends.control_store.progress.partitions import growth
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_int,
    fetch_one,
    json_text,
    reads,
    writes,
)
from meterline.backends.control_store.tables.blocks import blocks
from meterline.backends.control_store.tables.erasures import erasures
from meterline.backends.control_store.tables.meters import meter_revisions, meters, seals
from meterline.backends.control_store.tables.redrives import redrives
from meterline.limits import ERASURES_OPEN_MAX
from meterline.ports import Unavailable
from meterline.problem import conflict
from meterline.usage import (
    BlockState,
    Erasure,
    ErasureState,
    Renewal,
    SliceId,
    pseudonym_of,
)

_rows = erasures.c
_OPEN: Final = _rows.state != ErasureState.DONE.value
_ENDS: Final = msgspec.json.Decoder(dict[int, int])


class SqlErasureStore(SqlStore):
    """See `meterline.usage.ErasureLedger` and `ErasureStore`."""

    @writes
    async def ask(
        self,
        connection: Connection,
        namespace: str,
        subject: str,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Erasure:
        """See the port."""
        await take_turn(connection)  # of several requests at once the first one stands
        there = await _open_of(connection, namespace, subject)
        if there and there[-1].state is ErasureState.ASKED:
            return there[-1]
        if there and there[-1].state is not ErasureState.SETTLED:
            raise conflict(
                "This subject is being erased: ask again once that erasure is `settled`."
            )
        if named := await names_in_filters(connection, namespace, subject):
            raise conflict(
                f"The filter of the report {named[0]} names this subject: change or delete the"
                " report first."
            )
        open_ = (
            select(func.count()).select_from(erasures).where(_rows.namespace == namespace, _OPEN)
        )
        if await fetch_int(connection, open_) >= ERASURES_OPEN_MAX:
            raise conflict(
                f"{ERASURES_OPEN_MAX:,} subjects are being erased: ask again once some are done."
            )
        id_ = str(ULID.from_timestamp(now_ms / 1_000))
        firsts = there[-1].ends if there else {}
        asked = Erasure(
            id_, namespace, subject, pseudonym_of(id_), ErasureState.ASKED, now_ms, firsts=firsts
        )
        await connection.execute(insert(erasures).values(_row(asked)))
        await erase_description(connection, namespace, subject)
        change = Change(namespace, now_ms, author, Action.ERASE, Kind.SUBJECT, id_, asked.pseudonym)
        await record_change(connection, change)
        return asked

    @reads
    async def erasure(self, connection: Connection, namespace: str, id_: str) -> Erasure | None:
        """See the port."""
        question = select(erasures).where(_rows.namespace == namespace, _rows.id == id_.upper())
        return await fetch_one(connection, question, _erasure)

    @reads
    async def erasures(
        self, connection: Connection, namespace: str, limit: int, after: str | None = None
    ) -> list[Erasure]:
        """See the port."""
        question = select(erasures).where(_rows.namespace == namespace)
        if after is not None:
            question = question.where(_rows.id < after)
        rows = await connection.execute(question.order_by(_rows.id.desc()).limit(limit))
        return [_erasure(row) for row in rows]

    @reads
    async def unfinished(self, connection: Connection) -> list[Erasure]:
        """See the port."""
        rows = await connection.execute(select(erasures).where(_OPEN).order_by(_rows.id))
        found = [_erasure(row) for row in rows]
        revisions = {
            namespace: await _revisions(connection, namespace)
            for namespace in {one.namespace for one in found}
        }
        return [replace(one, revisions=revisions[one.namespace]) for one in found]

    @reads
    async def versions(
        self, connection: Connection, namespace: str | None = None
    ) -> tuple[tuple[str, str], ...]:
        """See the port."""
        question = select(_rows.id, _rows.state).where(_OPEN).order_by(_rows.id)
        if namespace is not None:
            question = question.where(_rows.namespace == namespace)
        return tuple((row.id, row.state) for row in await connection.execute(question))

    @writes
    async def set_borders(
        self,
        connection: Connection,
        erasure_id: str,
        log: int,
        ends: Mapping[int, int],
        log_until_ms: int,
    ) -> None:
        """See the port."""
        if len(ends) < await growth.partitions_of(connection, log):
            raise Unavailable("the log got more partitions: where they end is to be asked, too")
        await connection.execute(
            update(erasures)
            .where(_rows.id == erasure_id, _rows.log == 0)
            .values(log=log, ends=_text(ends), log_until_ms=log_until_ms)
        )

    @writes
    async def begin_copying(
        self, connection: Connection, erasure_id: str, now_ms: int
    ) -> str | None:
        """See the port."""
        await take_turn(connection)  # a revision of a meter comes before this, or after it
        erasure = await _locked(connection, erasure_id)
        if erasure is None or erasure.state is not ErasureState.ASKED:
            return None
        await filling.lock(connection, erasure.log)  # of blocks none is published meanwhile
        ends = await _slice_ends(connection, erasure)
        need = await _needed(connection, erasure, ends)
        if need is not None:
            return need
        await _give_up_blocks(connection, now_ms)
        await _move(connection, erasure, ErasureState.COPYING, ends=_text(ends))
        return None

    @reads
    async def unfilled(self, connection: Connection, erasure: Erasure) -> Sequence[int]:
        """See the port. A slice behind the border keeps its rows: it does not matter here."""
        asked = await connection.execute(_lacking(erasure, erasure.ends))
        return [row.revision for row in asked]

    @writes
    async def erase_refusals(
        self, connection: Connection, positions: Sequence[tuple[int, int, int, int]]
    ) -> None:
        """See the port."""
        await erase_redrives(connection, positions)

    @writes
    async def switch(
        self,
        connection: Connection,
        erasure_id: str,
        renewals: Sequence[Renewal],
        now_ms: int,
    ) -> None:
        """See the port."""
        erasure = await _locked(connection, erasure_id)
        if erasure is None or erasure.state is not ErasureState.COPYING:
            return
        await filling.lock(connection, erasure.log)
        for one in renewals:
            if not await publish(connection, one.block, one.rows, one.sources, now_ms):
                raise Unavailable("its blocks were withdrawn meanwhile")
        await erase_rows(connection, erasure, now_ms)
        await _give_up_blocks(connection, now_ms)
        await _move(connection, erasure, ErasureState.SWITCHED)

    @writes
    async def settle(self, connection: Connection, erasure_id: str, now_ms: int) -> None:
        """See the port."""
        erasure = await _locked(connection, erasure_id)
        if erasure is not None and erasure.state is ErasureState.SWITCHED:
            await _give_up_blocks(connection, now_ms)
            await _move(connection, erasure, ErasureState.SETTLED, settled_at_ms=now_ms)

    @writes
    async def finish(self, connection: Connection, erasure_id: str, now_ms: int) -> None:
        """See the port."""
        erasure = await _locked(connection, erasure_id)
        if erasure is not None and erasure.state is ErasureState.SETTLED:
            await _move(connection, erasure, ErasureState.DONE, done_at_ms=now_ms, subject=None)

    async def compact(self) -> None:
        """See the port. PostgreSQL does it by itself, in its own time."""
        await self.database.compact()

    @reads
    async def redriven(
        self, connection: Connection, namespace: str
    ) -> list[tuple[tuple[int, int, int, int], str, str]]:
        """See the port."""
        it = redrives.c
        question = select(it.log, it.partition, it.record_offset, it.place, it.source, it.id).where(
            (it.owner == namespace) | (it.namespace == namespace)
        )
        return [
            ((row.log, row.partition, row.record_offset, row.place), row.source, row.id)
            for row in await connection.execute(question)
        ]


async def begin_again(connection: Connection) -> None:
    """The usage store was lost and is counted anew: what was not done is erased again."""
    await connection.execute(
        update(erasures).where(_OPEN).values(state=ErasureState.ASKED.value, settled_at_ms=None)
    )


async def _slice_ends(connection: Connection, erasure: Erasure) -> dict[int, int]:
    """By partition, where the slice ends that had the end of the log in it; without those that are
    not sealed yet. A partition without a record has nothing that must be.
    """
    layout = await growth.layout(connection, erasure.log)
    found = {it: end for it, end in erasure.ends.items() if end <= layout.first(it)}
    for partition, end in erasure.ends.items():
        first = select(func.min(seals.c.offset_end)).where(
            seals.c.log == erasure.log,
            seals.c.partition == partition,
            seals.c.offset_end >= end,
        )
        sealed: int | None = (await connection.execute(first)).scalar_one()
        if sealed is not None:
            found.setdefault(partition, sealed)
    return found


async def _needed(connection: Connection, erasure: Erasure, ends: Mapping[int, int]) -> str | None:
    """Why an erasure must wait."""
    if not erasure.log or ends.keys() != erasure.ends.keys():
        return "not all that was recorded before the request is counted and sealed yet"
    everywhere = dict.fromkeys(erasure.ends, filling.ALL)
    row = (await connection.execute(_lacking(erasure, everywhere).limit(1))).one_or_none()
    return None if row is None else f"the meter {row.key} is being filled"


def _lacking(erasure: Erasure, ends: Mapping[int, int]) -> Select[Any]:
    """The live revisions of its namespace that some slice before these ends is not counted for."""
    live = folded.where(meters.c.namespace == erasure.namespace).subquery("live")
    unfilled = (
        filling.unfilled(erasure.log, partition, live.c.revision)
        .where(seals.c.slice < end)
        .exists()
        for partition, end in ends.items()
    )
    return select(live.c.key, live.c.revision).where(or_(false(), *unfilled))


async def begun_in(connection: Connection) -> list[Erasure]:
    """Those that rows were changed by, and that are not done; the oldest first."""
    begun = select(erasures).where(_OPEN, _rows.state != ErasureState.ASKED.value)
    return [_erasure(row) for row in await connection.execute(begun.order_by(_rows.id))]


async def is_erased_from(connection: Connection, slice_id: SliceId) -> bool:
    """Whether rows of a slice are copied or deleted, or were, by an erasure that is not done."""
    return _has_begun_with(await begun_in(connection), slice_id)


async def was_erased_from(connection: Connection, slice_id: SliceId) -> bool:
    """The same, or by one that is done."""
    begun = select(erasures).where(_rows.state != ErasureState.ASKED.value)
    return _has_begun_with([_erasure(row) for row in await connection.execute(begun)], slice_id)


def _has_begun_with(there: Sequence[Erasure], slice_id: SliceId) -> bool:
    return any(
        one.log > slice_id.log
        or (one.log == slice_id.log and slice_id.slice < one.ends.get(slice_id.partition, 0))
        for one in there
    )


async def _give_up_blocks(connection: Connection, now_ms: int) -> None:
    """Blocks in the making: what they are made from is on its way."""
    making = update(blocks).where(blocks.c.state == BlockState.MAKING.value)
    await connection.execute(making.values(state=BlockState.GONE.value, changed_at_ms=now_ms))


async def _locked(connection: Connection, erasure_id: str) -> Erasure | None:
    question = select(erasures).where(_rows.id == erasure_id).with_for_update()
    return await fetch_one(connection, question, _erasure)


async def _open_of(connection: Connection, namespace: str, subject: str) -> list[Erasure]:
    mine: tuple[ColumnElement[bool], ...] = (
        _rows.namespace == namespace,
        _rows.subject == subject,
        _OPEN,
    )
    rows = await connection.execute(select(erasures).where(*mine).order_by(_rows.id))
    return [_erasure(row) for row in rows]


async def _revisions(connection: Connection, namespace: str) -> tuple[int, ...]:
    question = (
        select(meter_revisions.c.revision)
        .join(meters, meters.c.id == meter_revisions.c.meter_id)
        .where(meters.c.namespace == namespace)
        .order_by(meter_revisions.c.revision)
    )
    return tuple((await connection.execute(question)).scalars())


async def _move(
    connection: Connection, erasure: Erasure, state: ErasureState, **values: object
) -> None:
    change = update(erasures).where(_rows.id == erasure.id)
    await connection.execute(change.values(state=state.value, **values))


def _row(erasure: Erasure) -> dict[str, Any]:
    return {
        "id": erasure.id,
        "namespace": erasure.namespace,
        "subject": erasure.subject,
        "pseudonym": erasure.pseudonym,
        "state": erasure.state.value,
        "asked_at_ms": erasure.asked_at_ms,
        "log": erasure.log,
        "firsts": _text(erasure.firsts),
        "ends": _text(erasure.ends),
    }


def _text(ends: Mapping[int, int]) -> str:
    return json_text({str(partition): end for partition, end in ends.items()})


def _erasure(row: Row[Any]) -> Erasure:
    return Erasure(
        row.id,
        row.namespace,
        row.subject,
        row.pseudonym,
        ErasureState(row.state),
        row.asked_at_ms,
        row.log,
        _ENDS.decode(row.firsts),
        _ENDS.decode(row.ends),
        row.log_until_ms,
        row.settled_at_ms,
        row.done_at_ms,
    )
