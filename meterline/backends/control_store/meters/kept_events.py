"""Which events a new revision of a meter can still count. Functions over a connection of one
transaction.
"""

from sqlalchemy import select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables.retention import retention_notices
from meterline.problem import Fault, invalid
from meterline.usage import Notice, counted_from, dropped_of, whole_from
from meterline.window import MINUTE_MS, rfc3339


async def notices(connection: Connection) -> list[Notice]:
    """Of what the usage store does not keep, by table and period."""
    order = (retention_notices.c.table_name, retention_notices.c.period)
    question = select(retention_notices).order_by(*order)
    return [Notice._make(row) for row in await connection.execute(question)]


async def from_counted(
    connection: Connection, revision: int, events_from_ms: int | None, effective_from_ms: int | None
) -> int | None:
    """The first instant that a revision can answer for: the one asked for. Where none is, and the
    events or minutes before an instant are not kept any more, it is that: the revision before stays
    in force for older windows, so their usage does not change. Raises `Problem` for an earlier one.
    """
    given = await notices(connection)
    minutes_ms = whole_from(dropped_of(given), revision) * MINUTE_MS
    lost_ms = max(counted_from(given, revision), minutes_ms)
    least_ms = -(-lost_ms // MINUTE_MS) * MINUTE_MS
    if (events_from_ms or 0) >= least_ms:
        return effective_from_ms
    if effective_from_ms is None:
        return least_ms
    if effective_from_ms < least_ms:
        message = (
            f"{'minutes' if lost_ms == minutes_ms else 'events'} before"
            f" {rfc3339(least_ms)} are not kept any more, so this revision cannot"
            f" count them; name {rfc3339(least_ms)} or later"
        )
        raise invalid(Fault("effective_from", message, "not_kept"))
    return effective_from_ms
