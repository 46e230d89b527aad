"""RevisionStore over SQL: the revisions of a meter, as people see and move them."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from meterline.access import COMMAND
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters import revision_rows as revisions
from meterline.backends.control_store.meters import rows
from meterline.backends.control_store.meters import update as updates
from meterline.backends.control_store.meters.update import Asked
from meterline.backends.control_store.store import SqlStore, reads, writes
from meterline.backends.control_store.tables.meters import meter_revisions
from meterline.meter import Meter, MeterChange, MeterRevision, changed, faults_of
from meterline.problem import invalid, not_found

_T = TypeVar("_T")


class SqlRevisionStore(SqlStore):
    """See `meter_revision_ports.RevisionStore`."""

    @reads
    async def waiting(self, connection: Connection, namespace: str) -> dict[str, MeterRevision]:
        """See the port."""
        found = await connection.execute(revisions.all_waiting(namespace))
        return {row.id: revisions.revision_of(row) for row in found}

    @reads
    async def listed(
        self, connection: Connection, namespace: str, id_or_key: str, limit: int, before: int | None
    ) -> list[MeterRevision]:
        """See the port."""
        there = await rows.found(connection, namespace, id_or_key)
        if there is None:
            raise not_found("meter", id_or_key)
        question = revisions.of_meter(there).limit(limit)
        if before is not None:
            question = question.where(meter_revisions.c.revision < before)
        found = await connection.execute(question)
        return [revisions.revision_of(row) for row in found]

    @reads
    async def revision(
        self, connection: Connection, namespace: str, id_or_key: str, number: int
    ) -> MeterRevision:
        """See the port."""
        there = await rows.found(connection, namespace, id_or_key)
        if there is None:
            raise not_found("meter", id_or_key)
        return await updates.revision_of(connection, there, number)

    async def propose(
        self,
        namespace: str,
        id_or_key: str,
        change: MeterChange,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> MeterRevision:
        """See the port."""

        async def act(connection: Connection, there: Meter) -> MeterRevision:
            if faults := faults_of(changed(there, change)):
                raise invalid(*faults)
            return await updates.propose(connection, there, change, Asked(author, now_ms))

        return await self._in_turn(namespace, id_or_key, act)

    async def ask_switch(
        self,
        namespace: str,
        id_or_key: str,
        number: int,
        effective_from_ms: int | None,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> MeterRevision:
        """See the port."""

        async def act(connection: Connection, there: Meter) -> MeterRevision:
            asked = Asked(author, now_ms)
            return await updates.ask_switch(connection, there, number, effective_from_ms, asked)

        return await self._in_turn(namespace, id_or_key, act)

    async def discard(
        self, namespace: str, id_or_key: str, number: int, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """See the port."""

        async def act(connection: Connection, there: Meter) -> None:
            await updates.discard(connection, there, number, Asked(author, now_ms))

        await self._in_turn(namespace, id_or_key, act)

    @writes
    async def _in_turn(
        self,
        connection: Connection,
        namespace: str,
        id_or_key: str,
        act: Callable[[Connection, Meter], Awaitable[_T]],
    ) -> _T:
        await rows.take_turn(connection)
        return await act(connection, await updates.found(connection, namespace, id_or_key))
