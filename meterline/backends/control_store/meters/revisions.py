"""RevisionStore over SQL: the revisions of a meter, as people see and move them."""

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters import revision_rows as revisions
from meterline.backends.control_store.meters import rows
from meterline.backends.control_store.meters import update as updates
from meterline.backends.control_store.store import SqlStore, reads, written_by
from meterline.backends.control_store.tables.meters import meter_revisions
from meterline.meter import Meter, MeterRevision
from meterline.problem import not_found


class SqlRevisionStore(SqlStore):
    """See `meterline.meter.RevisionStore`."""

    propose = written_by(updates.propose)
    request_switch = written_by(updates.request_switch)
    discard = written_by(updates.discard)

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
        there = await _there(connection, namespace, id_or_key)
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
        there = await _there(connection, namespace, id_or_key)
        return await updates.revision_of(connection, there, number)


async def _there(connection: Connection, namespace: str, id_or_key: str) -> Meter:
    there = await rows.found(connection, namespace, id_or_key)
    if there is None:
        raise not_found("meter", id_or_key)
    return there
