"""Bytes of deliveries that are not kept any more, in SQL. The row of a run says up to which number
they are gone: written before they are, so that none is replayed meanwhile.
"""

from sqlalchemy import delete, func, select, update

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.tables.reports import WITH_BYTES, report_bodies, report_runs

_runs, _bodies = report_runs.c, report_bodies.c


async def remove(connection: Connection, decided_until_ms: int, limit: int) -> int:
    """See `meterline.delivery.DeliveryBytes`."""
    oldest = (
        select(_runs.id, _runs.deliveries, func.coalesce(_runs.bytes_removed_to, 0).label("gone"))
        .where(WITH_BYTES, _runs.decided_at_ms <= decided_until_ms)
        .order_by(_runs.decided_at_ms)
        .limit(1)
        .with_for_update(skip_locked=True)  # somebody replays, or does this very thing
    )
    run = (await connection.execute(oldest)).one_or_none()
    if run is None:
        return 0
    until = min(run.gone + limit, run.deliveries)
    await connection.execute(
        update(report_runs).where(_runs.id == run.id).values(bytes_removed_to=until)
    )
    await connection.execute(
        delete(report_bodies).where(
            _bodies.run_id == run.id, _bodies.number > run.gone, _bodies.number <= until
        )
    )
    return int(until - run.gone)
