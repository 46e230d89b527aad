"""`RetentionLedger` over SQL: notices of what the usage store does not keep."""

from collections.abc import Mapping

from sqlalchemy import and_, exists, func, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.meters.rows import folded, take_turn
from meterline.backends.control_store.progress.progress import is_unfilled
from meterline.backends.control_store.store import SqlStore, fetch_int, read_by, reads, writes
from meterline.backends.control_store.tables.meters import catalogue_version, seals
from meterline.backends.control_store.tables.reports import late_looks, reports
from meterline.backends.control_store.tables.retention import retention_notices
from meterline.usage import EVENTS, Notice, Period, Reach, SealedEnd

_notices = retention_notices.c


class SqlRetention(SqlStore):
    """See `meterline.usage.RetentionLedger`."""

    notices = read_by(notices)

    @reads
    async def sealed_ends(self, connection: Connection, log: int) -> dict[int, SealedEnd]:
        """See the port."""
        last = (
            select(seals.c.partition, func.max(seals.c.slice).label("slice"))
            .where(seals.c.log == log)
            .group_by(seals.c.partition)
            .subquery()
        )
        question = select(seals.c.partition, seals.c.offset_end, seals.c.append_ms).join(
            last, and_(last.c.partition == seals.c.partition, last.c.slice == seals.c.slice)
        )
        rows = await connection.execute(question.where(seals.c.log == log))
        return {row.partition: SealedEnd(row.offset_end, row.append_ms) for row in rows}

    @writes
    async def give_notice(
        self, connection: Connection, period: Period, reach: Reach, log: int, now_ms: int
    ) -> Notice | str:
        """See the port."""
        await take_turn(connection)  # a revision comes before this, and is filled, or after it
        need = await _needed(connection, period, reach.ends, log)
        if need is not None:
            return need
        catalogue = await fetch_int(connection, select(catalogue_version.c.version))
        notice = Notice(period.table, period.name, period.to_ms, reach.latest_ms, catalogue, now_ms)
        row = dict(zip(retention_notices.c.keys(), notice, strict=True))
        await connection.execute(
            insert(connection, retention_notices).values(row).on_conflict_do_nothing()
        )
        stands = select(retention_notices).where(
            _notices.table_name == period.table, _notices.period == period.name
        )
        return Notice._make((await connection.execute(stands)).one())


async def _needed(
    connection: Connection, period: Period, ends: Mapping[int, int], log: int
) -> str | None:
    """Why events of a period must be kept for now."""
    if period.table != EVENTS:
        return None
    live = folded.subquery("live")
    unfilled = exists(
        select(seals.c.slice).where(
            is_unfilled(log, live.c.revision), seals.c.append_ms < period.to_ms
        )
    )
    question = select(live.c.key).where(unfilled).limit(1)
    meter = (await connection.execute(question)).scalar_one_or_none()
    if meter is not None:
        return f"the meter {meter} is being filled from them"
    reported = exists(select(reports.c.id).where(reports.c.deleted_at_ms.is_(None)))
    if (await connection.execute(select(reported))).scalar_one():
        looked = select(late_looks.c.partition, late_looks.c.looked_end).where(
            late_looks.c.log == log
        )
        there = {row.partition: row.looked_end for row in await connection.execute(looked)}
        if any(there.get(partition, 0) < end for partition, end in ends.items()):
            return "late usage was not looked for in them yet; is a dispatcher running?"
    return None
