"""Meters that the settings file defined and no longer names. Functions over a connection of one
transaction.
"""

from collections.abc import Collection

from sqlalchemy import update

from meterline.access import SETTINGS, Action
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters import rows
from meterline.backends.control_store.meters.update import Asked, record
from meterline.backends.control_store.tables.meters import meters
from meterline.meter import Meter


async def release(
    connection: Connection, namespace: str, named: Collection[str], now_ms: int
) -> list[Meter]:
    """Let the API change and delete those whose key is not named any more: these, as they were."""
    await rows.take_turn(connection)
    marked = rows.folded.where(meters.c.namespace == namespace, meters.c.from_settings)
    found = rows.in_force_of(await connection.execute(marked.order_by(meters.c.key)))
    released = [meter for meter in found if meter.key not in named]
    asked = Asked(SETTINGS, now_ms)
    for meter in released:
        columns = {"from_settings": False, "updated_at_ms": now_ms}
        await connection.execute(update(meters).where(meters.c.id == meter.id).values(columns))
        await record(connection, meter, Action.UPDATE, asked, "left the settings file")
    return released
