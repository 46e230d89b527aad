"""How far seen stores are that are being brought up, for people. Functions over a connection."""

from collections.abc import Sequence

from sqlalchemy import delete, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import put
from meterline.backends.control_store.tables.meters import catch_up_progress
from meterline.usage import CatchingUp


async def tell(
    connection: Connection, log: int, going: Sequence[CatchingUp], ended: Sequence[int]
) -> None:
    """See `ProgressStore.tell_catch_ups`."""
    if going:
        rows = [{"log": log, **one._asdict()} for one in going]
        await put(connection, catch_up_progress, rows)
    if ended:
        those = catch_up_progress.c.log == log, catch_up_progress.c.partition.in_(ended)
        await connection.execute(delete(catch_up_progress).where(*those))


async def all_of(connection: Connection, log: int) -> list[CatchingUp]:
    """See `ProgressStore.catch_ups`."""
    columns = [catch_up_progress.c[name] for name in CatchingUp._fields]
    question = select(*columns).where(catch_up_progress.c.log == log)
    rows = await connection.execute(question.order_by(catch_up_progress.c.partition))
    return [CatchingUp._make(row) for row in rows]
