"""`RevisionLedger` over SQL: notices of revisions whose rows are not kept; seals without them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Table, bindparam, case, func, insert, select, update
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.revision_rows import revision_of
from meterline.backends.control_store.meters.rows import take_turn, with_revisions
from meterline.backends.control_store.progress import filling
from meterline.backends.control_store.progress.erased import is_unsettled
from meterline.backends.control_store.store import SqlStore, fetch_int, reads, writes
from meterline.backends.control_store.tables.meters import (
    catalogue_version,
    logs,
    meter_revisions,
    meters,
    seal_sums,
    seals,
)
from meterline.backends.control_store.tables.retention import revision_notices
from meterline.limits import REVISIONS_DROPPED_MAX
from meterline.meter import RevisionState, unneeded
from meterline.ports import OutdatedMeters
from meterline.usage import RevisionNotice, Seal, SealSum, SliceRows

_COUNTED: Final = ("tallies", "members", "rejected")
_ENDED: Final = (RevisionState.SUPERSEDED, RevisionState.DISCARDED)
_notices = revision_notices.c


class SqlRevisionLedger(SqlStore):
    """See `meterline.usage.RevisionLedger`. There are at most `notices_max`: further revisions are
    kept.
    """

    def __init__(self, database: Database, notices_max: int = REVISIONS_DROPPED_MAX) -> None:
        super().__init__(database)
        self._notices_max = notices_max

    @writes
    async def give_revision_notices(
        self, connection: Connection, aged_ms: int, now_ms: int, kept_ms: int
    ) -> list[int]:
        """See the port."""
        await take_turn(connection)  # nobody changes a meter meanwhile
        there = await fetch_int(connection, select(func.count()).select_from(revision_notices))
        found = (await _found(connection, aged_ms, kept_ms))[: max(0, self._notices_max - there)]
        if found:
            catalogue = await fetch_int(connection, select(catalogue_version.c.version))
            rows = [RevisionNotice(number, catalogue, now_ms)._asdict() for number in found]
            await connection.execute(insert(revision_notices), rows)
        return found

    @reads
    async def revision_notices(self, connection: Connection) -> list[RevisionNotice]:
        """See the port."""
        question = select(revision_notices).order_by(_notices.revision)
        return [RevisionNotice._make(row) for row in await connection.execute(question)]

    @writes
    async def close(self, connection: Connection, revision: int, now_ms: int) -> None:
        """See the port."""
        for log in (await connection.execute(select(logs.c.number))).scalars().all():
            await filling.lock(connection, log)  # nobody seals meanwhile
        mine = _notices.revision == revision, _notices.closed_at_ms.is_(None)
        await connection.execute(update(revision_notices).where(*mine).values(closed_at_ms=now_ms))

    @writes
    async def lessen(
        self,
        connection: Connection,
        notice: RevisionNotice,
        rows: Sequence[SliceRows],
        now_ms: int,
    ) -> bool:
        """See the port."""
        for log in sorted({row.log for row in rows}):
            await filling.lock(connection, log)
        if await is_unsettled(connection) or not await _stands(connection, notice):
            return False
        mine = update(revision_notices).where(_notices.revision == notice.revision)
        if not rows:
            await connection.execute(mine.values(lessened_at_ms=now_ms))
            return True
        await _lessen_seals(connection, notice.revision, rows)
        for (log, partition), those in groupby(rows, key=lambda row: (row.log, row.partition)):
            await _lessen_sums(connection, log, partition, list(those))
        await connection.execute(mine.values(notice.behind(rows[-1]).reached._asdict()))
        return True

    @writes
    async def note_dropped(
        self, connection: Connection, revisions: Collection[int], now_ms: int
    ) -> None:
        """See the port."""
        those = _notices.revision.in_(revisions), _notices.dropped_at_ms.is_(None)
        await connection.execute(
            update(revision_notices).where(*those).values(dropped_at_ms=now_ms)
        )


async def mind_catalogue(connection: Connection, seal: Seal) -> None:
    """Raise `OutdatedMeters` for a seal by a catalogue of before a notice that is closed: it may
    tell of rows that are not kept. Whoever seals has the lock of the log, as whoever closes one.
    """
    question = select(func.coalesce(func.max(_notices.catalogue), 0))
    least = await fetch_int(connection, question.where(_notices.closed_at_ms.is_not(None)))
    if seal.catalogue < least:
        raise OutdatedMeters(
            f"control store: a slice was counted by version {seal.catalogue} of the meters, and"
            f" must be counted by {least} or later. It is counted again"
        )


async def _found(connection: Connection, aged_ms: int, kept_ms: int) -> list[int]:
    """The revisions that are unneeded and have no notice."""
    aged = (
        select(meter_revisions.c.meter_id)
        .outerjoin(revision_notices, _notices.revision == meter_revisions.c.revision)
        .where(
            meter_revisions.c.state.in_(_ENDED),
            meter_revisions.c.ended_at_ms <= aged_ms - kept_ms,
            _notices.revision.is_(None),
        )
    )
    question = with_revisions.where(meters.c.id.in_(aged)).order_by(meters.c.id)
    found: list[int] = []
    rows = (await connection.execute(question)).all()
    for _, group in groupby(rows, key=lambda row: row.id):
        mine = list(group)
        revisions = [revision_of(row) for row in mine]
        deleted = mine[0].deleted_at_ms is not None
        known = {one.number for one in revisions if one.not_kept_since_ms is not None}
        found += unneeded(revisions, aged_ms, kept_ms, deleted=deleted) - known
    return sorted(found)


async def _stands(connection: Connection, notice: RevisionNotice) -> bool:
    """Whether the notice has not gone on since it was read."""
    mine = select(revision_notices).where(_notices.revision == notice.revision).with_for_update()
    row = (await connection.execute(mine)).one_or_none()
    return row is not None and RevisionNotice._make(row) == notice


async def _lessen_seals(connection: Connection, revision: int, rows: Sequence[SliceRows]) -> None:
    """Seals by an older catalogue never told of the revision: its rows were filled in later."""
    change = update(seals).where(
        seals.c.log == bindparam("of_log"),
        seals.c.partition == bindparam("of_partition"),
        seals.c.slice == bindparam("of_slice"),
        seals.c.catalogue >= revision,
    )
    values = {name: _less(seals, name, bindparam(f"less_{name}")) for name in _COUNTED}
    given = [
        {
            "of_log": row.log,
            "of_partition": row.partition,
            "of_slice": row.slice,
            **{f"less_{name}": getattr(row, name) for name in _COUNTED},
        }
        for row in rows
    ]
    await connection.execute(change.values(values), given)


async def _lessen_sums(
    connection: Connection, log: int, partition: int, rows: Sequence[SliceRows]
) -> None:
    """Which of the slices of a sum told of the revision is not known: all may have."""
    those = seal_sums.c
    mine = those.log == log, those.partition == partition
    within = those.offset_end > rows[0].slice, those.slice <= rows[-1].slice
    question = select(seal_sums).where(*mine, *within).order_by(those.slice)
    sums = [SealSum._make(row) for row in await connection.execute(question)]
    firsts = [one.slice for one in sums]
    less: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COUNTED, 0))
    for row in rows:
        at = bisect_right(firsts, row.slice) - 1
        if at >= 0 and row.slice < sums[at].end:
            for name in _COUNTED:
                less[firsts[at]][name] += getattr(row, name)
    for first, counts in less.items():
        values = {name: _less(seal_sums, name, count) for name, count in counts.items()}
        change = update(seal_sums).where(*mine, those.slice == first)
        await connection.execute(change.values(values))


def _less(table: Table, name: str, by: Any) -> ColumnElement[int]:
    """So much less, and never below nothing."""
    column: ColumnElement[int] = table.c[name]
    return case((column > by, column - by), else_=0)
