"""`SettlementStore` over SQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, select, tuple_, update

from meterline.access import Action, Change, Kind
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.store import SqlStore, reads, row_of, value_of, writes
from meterline.backends.control_store.tables.redrives import redrives
from meterline.event import (
    Place,
    Position,
    RefusalState,
    Settlement,
    begun,
    dismissed,
    position_text,
)
from meterline.limits import CHANGE_DETAIL_CHARS_MAX

_c: Final = redrives.c
_POSITION: Final = (_c.log, _c.partition, _c.record_offset, _c.place)
_ORDER: Final = (_c.append_ms, *_POSITION)
_CHUNK: Final = 500  # positions of one statement: a database takes so many values, not any number


class SqlSettlementStore(SqlStore):
    """See `meterline.event.SettlementStore`."""

    @writes
    async def begin(self, connection: Connection, wanted: Sequence[Settlement]) -> list[Settlement]:
        """See the port."""
        stands = {}
        for one in sorted(wanted, key=lambda one: one.position):  # one order for all
            stands[one.position] = await _put(connection, one)
        return [stands[one.position] for one in wanted]

    @writes
    async def finish(self, connection: Connection, positions: Sequence[Position]) -> None:
        """See the port."""
        for some in _chunks(sorted(positions)):
            await connection.execute(
                update(redrives)
                .where(tuple_(*_POSITION).in_(some), _c.state == RefusalState.REDRIVING.value)
                .values(state=RefusalState.REDRIVEN.value, event=None)
            )

    @writes
    async def dismiss(self, connection: Connection, wanted: Settlement) -> Settlement:
        """See the port."""
        return await _put(connection, wanted)

    @reads
    async def settlements(
        self, connection: Connection, positions: Sequence[Position]
    ) -> Mapping[Position, Settlement]:
        """See the port."""
        found = {}
        for some in _chunks(positions):
            question = select(redrives).where(tuple_(*_POSITION).in_(some))
            for row in await connection.execute(question):
                one = _settlement(row)
                found[one.position] = one
        return found

    @reads
    async def settled(
        self,
        connection: Connection,
        owners: Sequence[str],
        state: RefusalState,
        after: Place | None,
        limit: int,
    ) -> list[Settlement]:
        """See the port."""
        question = select(redrives).where(_c.owner.in_(owners), _c.state == state.value)
        if after is not None:
            question = question.where(tuple_(*_ORDER) < after)
        question = question.order_by(*(column.desc() for column in _ORDER)).limit(limit)
        return [_settlement(row) for row in await connection.execute(question)]


async def _put(connection: Connection, wanted: Settlement) -> Settlement:
    """What stands once something is wanted of a refusal."""
    made = insert(connection, redrives).values(_values(wanted))
    made = made.on_conflict_do_nothing(index_elements=_POSITION)
    if (await connection.execute(made.returning(_c.log))).first() is not None:
        await _record(connection, wanted)
        return wanted
    mine = tuple_(*_POSITION) == wanted.position
    row = (await connection.execute(select(redrives).where(mine).with_for_update())).one()
    there = _settlement(row)
    rule = begun if wanted.state is RefusalState.REDRIVING else dismissed
    stands = rule(there, wanted)
    if stands is wanted:
        await connection.execute(update(redrives).where(mine).values(_values(wanted)))
        await _record(connection, wanted)
    return stands


async def _record(connection: Connection, one: Settlement) -> None:
    redriven = one.state is RefusalState.REDRIVING
    change = Change(
        namespace=one.namespace,
        at_ms=one.at_ms,
        author=one.author,
        action=Action.REDRIVE if redriven else Action.DISMISS,
        kind=Kind.REFUSAL,
        subject_id=position_text(one.position),
        name=f"{one.source} {one.id}" if redriven else one.kind.value,
        detail=one.note[:CHANGE_DETAIL_CHARS_MAX],
    )
    await record_change(connection, change)


def _values(one: Settlement) -> dict[str, Any]:
    log, partition, offset, place = one.position
    return row_of(
        one,
        redrives,
        log=log,
        partition=partition,
        record_offset=offset,
        place=place,
        payload_check=one.check,
        event=one.text,
    )


def _settlement(row: Row[Any]) -> Settlement:
    position = (row.log, row.partition, row.record_offset, row.place)
    return value_of(Settlement, row, position=position, check=row.payload_check, text=row.event)


def _chunks(positions: Sequence[Position]) -> list[Sequence[Position]]:
    return [positions[at : at + _CHUNK] for at in range(0, len(positions), _CHUNK)]
