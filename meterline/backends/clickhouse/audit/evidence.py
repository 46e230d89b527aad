"""`UsageEvidence` on ClickHouse and chDB."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from meterline.audit import (
    ABSENT,
    CellDifference,
    CellRows,
    Chunk,
    Kept,
    Recount,
    Strange,
    TallyValues,
    Touched,
)
from meterline.backends.clickhouse.audit import recount_sql
from meterline.backends.clickhouse.bounds import UPKEEP
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Exceeded, Rows
from meterline.backends.clickhouse.named_sql import EVIDENCE
from meterline.limits import AUDIT_SPILL_BYTES, AUDIT_STEP_S_MAX
from meterline.meter import Aggregation, Meter, member_of
from meterline.ports import Unavailable
from meterline.usage import AccountRow, MemberRow, RejectedRow, SliceId, TallyRow

SETTINGS: Final[dict[str, Any]] = {
    **QUERY_SETTINGS,
    "max_execution_time": AUDIT_STEP_S_MAX,
    "max_bytes_before_external_group_by": AUDIT_SPILL_BYTES,
}
_Cell = tuple[int, str, tuple[str, ...], int]
PURGED_AT_ONCE: Final = 1_000
_ROW_HASHES: Final[dict[str, str]] = {
    "tallies": "concat(reinterpretAsFixedString(revision), reinterpretAsFixedString(window),"
    " reinterpretAsFixedString(version), reinterpretAsFixedString(counted),"
    " reinterpretAsFixedString(rejected), reinterpretAsFixedString(latest_time_ms),"
    " reinterpretAsFixedString(latest_recorded_ms), latest_key, reinterpretAsFixedString(total),"
    " reinterpretAsFixedString(minimum), reinterpretAsFixedString(maximum),"
    " reinterpretAsFixedString(latest), subject, '|', groups)",
    "members": "concat(toString(revision), '|', toString(window), '|', subject, '|', groups, '|',"
    " member)",
    "rejected": "concat(toString(revision), '|', toString(offset), '|', toString(place), '|',"
    " subject, '|', groups, '|', toString(window), '|', reason, '|', value)",
}
for _table in ("tallies", "members"):
    _ROW_HASHES[f"late_{_table}"] = _ROW_HASHES[_table]


class ClickHouseEvidence:
    """See `meterline.audit.UsageEvidence`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection.lane(UPKEEP)

    async def accounts_between(
        self, log: int, partition: int, first: int, end: int
    ) -> list[AccountRow]:
        """See the port."""
        bounds = {"log": log, "partition": partition, "first": first, "end": end}
        rows = await self._asked(EVIDENCE["accounts_between"], bounds)
        return [AccountRow(*row) for row in rows]

    async def kept(self, chunk: Chunk) -> list[Kept]:
        """See the port."""
        return [Kept(*row) for row in await self._asked(EVIDENCE["kept"], _bounds(chunk))]

    async def strange(self, chunk: Chunk, limit: int) -> list[Strange]:
        """See the port."""
        bounds = {**_bounds(chunk), "rows": limit}
        found = []
        for slice_, offset, place, events, seen in await self._asked(EVIDENCE["unpaired"], bounds):
            at = (slice_, offset, place)
            if not seen:
                found.append(Strange("events", *at, "its trace in seen", ABSENT))
            elif not events:
                found.append(Strange("seen", *at, "its event", ABSENT))
            else:
                found_text = f"{events} and {seen} rows"
                found.append(Strange("events", *at, "1 event, 1 trace", found_text))
        rows = await self._asked(EVIDENCE["mislabelled"], bounds)
        found += [
            Strange("events", slice_, offset, place, "columns as in its text", "others")
            for slice_, offset, place in rows
        ]
        rows = await self._asked(EVIDENCE["orphans"], bounds)
        found += [
            Strange("rejects", slice_, offset, place, "the event that it is a copy of", ABSENT)
            for slice_, offset, place in rows
        ]
        return found[:limit]

    async def repeated(
        self,
        log: int,
        partition: int,
        span: tuple[int, int],
        horizon_ms: int,
        limit: int,
        line: Sequence[int] = (),
    ) -> list[Strange]:
        """See the port."""
        bounds = {
            "log": log,
            "partition": partition,
            "line": list(line or (partition,)),
            "rows": limit,
            "from_ms": max(0, span[0] - horizon_ms),
            "to_ms": span[1],
        }
        rows = await self._asked(EVIDENCE["repeated"], bounds)
        found = []
        for (key, *_, before_ms), (again, where, slice_, offset, place, at_ms) in pairwise(rows):
            is_near = at_ms - before_ms <= horizon_ms and at_ms >= span[0]
            if key == again and where == partition and is_near:
                texts = ("an identity that is new", "one that was new before, within the horizon")
                found.append(Strange("seen", slice_, offset, place, *texts))
        return found

    async def cell_slices(
        self, log: int, partition: int, bounds: tuple[int, int], revisions: Sequence[int]
    ) -> list[tuple[str, int]]:
        """See the port."""
        parameters = {
            "log": log,
            "partition": partition,
            "first": bounds[0],
            "end": bounds[1],
            "revisions": list(revisions),
        }
        return [(name, at) for name, at in await self._asked(EVIDENCE["cell_slices"], parameters)]

    async def touched(self, chunk: Chunk) -> Touched:
        """See the port."""
        rows = await self._asked(*recount_sql.touched_statement(chunk))
        types = frozenset((namespace, kind) for namespace, kind, revision in rows if not revision)
        return Touched(types, frozenset(row[2] for row in rows if row[2]))

    async def recount(self, chunk: Chunk, meter: Meter, limit: int) -> Recount:
        """See the port."""
        if not recount_sql.is_simple(meter):
            return Recount(unsettled=chunk.slices)
        made = Recount()
        rows = await self._asked(*recount_sql.tallies_statement(chunk, meter, limit))
        made.unsettled = tuple(sorted(row[0] for row in rows if row[3]))
        settled = tuple(slice_ for slice_ in chunk.slices if slice_ not in made.unsettled)
        rest = replace(chunk, slices=settled)
        for slice_, events, cells, _, _, differences in rows:
            made.events += events
            made.cells += cells
            if slice_ in settled:
                _add_differences(made, chunk, slice_, differences)
        if any(row[4] for row in rows if row[0] in settled):
            await self._compare_rejected(rest, meter, limit, made)
        if settled and meter.aggregation is Aggregation.UNIQUE_COUNT:
            await self._compare_members(rest, meter, made)
        return made

    async def _compare_rejected(
        self, chunk: Chunk, meter: Meter, limit: int, made: Recount
    ) -> None:
        rows = await self._asked(*recount_sql.rejected_statement(chunk, meter, limit))
        for *cell, offset, place, due, there in rows:
            name = f"event at {chunk.log}.{chunk.partition}.{offset}.{place}"
            made.differences.append(_row_difference("rejected", _cell(cell), name, due, there))

    async def _compare_members(self, chunk: Chunk, meter: Meter, made: Recount) -> None:
        texts = await self._asked(*recount_sql.distinct_statement(chunk, meter))
        rows = await self._asked(*recount_sql.members_statement(chunk, meter))
        due = {(_cell(row), member_of(row[4]) or b"") for row in texts}
        there = {(_cell(row), bytes(row[4])) for row in rows}
        # an open slice goes on: members that nobody asked for yet are no fault of it
        foreign = set() if chunk.is_open else there - due
        for found, differing in ((False, due - there), (True, foreign)):
            for cell, member in sorted(differing):
                name = f"member {member.hex()}"
                made.differences.append(_row_difference("members", cell, name, not found, found))

    async def cells(self, slice_id: SliceId, revision: int, minutes_from: int = 0) -> CellRows:
        """See the port."""
        of = {**slice_id._asdict(), "revision": revision, "minutes_from": minutes_from}
        tallies = await self._asked(EVIDENCE["stored_tallies"], of)
        members = await self._asked(EVIDENCE["stored_members"], of)
        rejected = await self._asked(EVIDENCE["stored_rejected"], of)
        return CellRows(
            [TallyRow(*row) for row in tallies],
            [MemberRow(*row) for row in members],
            [RejectedRow(*row) for row in rejected],
        )

    async def row_hashes(self, slice_id: SliceId, table: str, revision: int) -> list[int]:
        """See the port."""
        sql = f"SELECT xxHash64({_ROW_HASHES[table]}) FROM {table} WHERE {_of(slice_id, revision)}"  # noqa: S608
        return [row[0] for row in await self._asked(sql, {})]

    async def purge(
        self, slice_id: SliceId, table: str, revision: int, hashes: Collection[int]
    ) -> None:
        """See the port."""
        listed = sorted(hashes)
        for first in range(0, len(listed), PURGED_AT_ONCE):
            some = ", ".join(map(str, listed[first : first + PURGED_AT_ONCE]))
            where = f"{_of(slice_id, revision)} AND xxHash64({_ROW_HASHES[table]}) IN ({some})"
            await self._delete(slice_id, table, where)

    async def purge_account(self, slice_id: SliceId) -> None:
        """See the port."""
        await self._delete(slice_id, "accounts", _of(slice_id, None))

    async def _delete(self, slice_id: SliceId, table: str, where: str) -> None:
        sql = f"ALTER TABLE {table} DELETE WHERE {where} SETTINGS mutations_sync = 2"
        await (await self._connection.at(slice_id.partition)).execute(sql)

    async def _asked(self, sql: str, parameters: dict[str, Any]) -> Rows:
        try:
            return await self._connection.query(sql, parameters, SETTINGS)
        except Exceeded as error:
            raise Unavailable(f"usage store: the audit is too slow: {error}") from error


def _add_differences(made: Recount, chunk: Chunk, slice_: int, differences: Rows) -> None:
    """Tallies of a slice that differ; one that is newer than the chunk is on its way."""
    for subject, groups, window, expected, found, due, there in differences:
        stored = TallyValues(*found) if there else None
        if stored is not None and stored.version > chunk.upto:
            made.moving += 1
            continue
        values = TallyValues(*expected) if due else None
        cell = (slice_, subject, tuple(groups), window)
        made.differences.append(CellDifference("tallies", *cell, "", values, stored))


def _of(slice_id: SliceId, revision: int | None) -> str:
    """Whose rows; whole numbers only, which need no binding."""
    parts = [f"{name} = {int(value)}" for name, value in slice_id._asdict().items()]
    if revision is not None:
        parts.append(f"revision = {int(revision)}")
    return " AND ".join(parts)


def _bounds(chunk: Chunk) -> dict[str, int | list[int]]:
    return {
        "log": chunk.log,
        "partition": chunk.partition,
        "line": [chunk.partition, *chunk.parents],
        "first": chunk.first,
        "end": chunk.end,
        "upto": chunk.upto,
    }


def _cell(row: Sequence[Any]) -> _Cell:
    slice_, subject, groups, window, *_ = row
    return slice_, subject, tuple(groups), window


_ROW: Final = TallyValues(0, 0, 0, 0, 0, 0, 0, 0, b"", 0)  # it is there: rows of these say no more


def _row_difference(
    table: str, cell: _Cell, name: str, due: object, there: object
) -> CellDifference:
    return CellDifference(table, *cell, name, _ROW if due else None, _ROW if there else None)
