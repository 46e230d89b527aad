"""`ControlEvidence` over SQL: seals, fill marks, runs and the bodies of their deliveries."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Column, LargeBinary, cast, func, select, tuple_
from sqlalchemy.sql import ColumnElement

from meterline.audit import AuditedBody, AuditedRun, AuditSpan, Filled, RunPlace, SlicePlace
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters.kept_events import notices
from meterline.backends.control_store.progress.erased import FAILURE
from meterline.backends.control_store.progress.seal_sums import summed_end
from meterline.backends.control_store.store import SqlStore, fetch_int, read_by, reads
from meterline.backends.control_store.tables.meters import (
    fill_bounds,
    fill_marks,
    logs,
    seal_sums,
    seals,
)
from meterline.backends.control_store.tables.reports import (
    BODY_OF_DELIVERY,
    report_bodies,
    report_deliveries,
    report_runs,
)
from meterline.limits import SLICE_SPAN_MS
from meterline.usage import Seal, SealSum

_runs = report_runs.c
_deliveries = report_deliveries.c


class SqlEvidence(SqlStore):
    """See `meterline.audit.ControlEvidence`."""

    notices = read_by(notices)

    @reads
    async def logs(self, connection: Connection) -> list[tuple[int, int]]:
        """See the port."""
        question = select(logs.c.number, logs.c.partitions).order_by(logs.c.number)
        rows = await connection.execute(question)
        return [(int(row.number), int(row.partitions)) for row in rows]

    @reads
    async def seals(
        self, connection: Connection, place: SlicePlace, span: AuditSpan, limit: int
    ) -> list[Seal]:
        """See the port."""
        question = (
            select(seals)
            .where(
                seals.c.log == place.log,
                seals.c.partition == place.partition,
                seals.c.slice >= place.slice,
                *_slices_within(span),
            )
            .order_by(seals.c.slice)
            .limit(limit)
        )
        return [Seal._make(row) for row in await connection.execute(question)]

    @reads
    async def seal_count(self, connection: Connection, span: AuditSpan) -> int:
        """See the port."""
        single = select(func.count()).select_from(seals).where(*_slices_within(span))
        within = _slices_within(span, seal_sums.c.begin_ms, seal_sums.c.append_ms)
        summed = select(func.coalesce(func.sum(seal_sums.c.slices), 0)).where(*within)
        both = single.scalar_subquery() + summed.scalar_subquery()
        return await fetch_int(connection, select(both))

    @reads
    async def filled(
        self, connection: Connection, log: int, partition: int, slices: Sequence[int]
    ) -> Filled:
        """See the port."""
        bound, mark = fill_bounds.c, fill_marks.c
        ends = select(bound.revision, bound.filled_end).where(
            bound.log == log, bound.partition == partition
        )
        marks = select(mark.slice, mark.revision).where(
            mark.log == log, mark.partition == partition, mark.slice.in_(slices)
        )
        # Marks first: those that a bound replaces in between are found there.
        marked = {(int(it.slice), int(it.revision)) for it in await connection.execute(marks)}
        return Filled(
            {int(it.revision): int(it.filled_end) for it in await connection.execute(ends)},
            frozenset(marked),
        )

    @reads
    async def sums(
        self, connection: Connection, place: SlicePlace, span: AuditSpan, limit: int
    ) -> list[SealSum]:
        """See the port."""
        those = seal_sums.c
        question = (
            select(seal_sums)
            .where(
                those.log == place.log,
                those.partition == place.partition,
                those.slice >= place.slice,
                *_slices_within(span, those.begin_ms, those.append_ms),
            )
            .order_by(those.slice)
            .limit(limit)
        )
        return [SealSum._make(row) for row in await connection.execute(question)]

    @reads
    async def summed_end(self, connection: Connection, log: int, partition: int) -> int:
        """See the port."""
        return await summed_end(connection, log, partition)

    @reads
    async def runs(
        self, connection: Connection, place: RunPlace, span: AuditSpan, limit: int
    ) -> list[AuditedRun]:
        """See the port."""
        question = (
            select(_runs.id, _runs.report_id, _runs.decided_at_ms, _runs.deliveries, _runs.digest)
            .where(
                *_decided_within(span),
                tuple_(_runs.decided_at_ms, _runs.id) > tuple_(place.decided_at_ms, place.run_id),
            )
            .order_by(_runs.decided_at_ms, _runs.id)
            .limit(limit)
        )
        found = list(await connection.execute(question))
        parts = await _parts(connection, [row.id for row in found])
        return [
            AuditedRun(*row[:3], row.deliveries or 0, row.digest or "", tuple(parts[row.id]))
            for row in found
        ]

    @reads
    async def run_count(self, connection: Connection, span: AuditSpan) -> int:
        """See the port."""
        question = select(func.count()).select_from(report_runs).where(*_decided_within(span))
        return await fetch_int(connection, question)

    @reads
    async def bodies(
        self, connection: Connection, run_id: str, after: int, limit: int
    ) -> list[AuditedBody]:
        """See the port."""
        question = (
            select(
                _deliveries.number,
                _deliveries.id,
                _deliveries.digest,
                # of a delivery that could not be made: the words that say why
                func.coalesce(cast(_deliveries.failure, LargeBinary), report_bodies.c.body).label(
                    "body"
                ),
            )
            .join(report_bodies, BODY_OF_DELIVERY, isouter=True)
            .join(report_runs, _runs.id == _deliveries.run_id)
            .where(
                _deliveries.run_id == run_id,
                # bytes are kept for a time only
                _deliveries.number > after,
                _deliveries.number > func.coalesce(_runs.bytes_removed_to, 0),
                func.coalesce(_deliveries.failure, "") != FAILURE,  # its bytes were erased
            )
            .order_by(_deliveries.number)
            .limit(limit)
        )
        return [
            AuditedBody(int(row.number), row.id, _bytes(row.digest) or b"", _bytes(row.body))
            for row in await connection.execute(question)
        ]


def _bytes(value: object) -> bytes | None:
    """What a column of bytes holds; SQLite keeps a text there as well, if someone puts it in."""
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else None


async def _parts(
    connection: Connection, run_ids: Sequence[str]
) -> dict[str, list[tuple[int, str, bytes]]]:
    """By run, its deliveries in order."""
    question = (
        select(_deliveries.run_id, _deliveries.number, _deliveries.id, _deliveries.digest)
        .where(_deliveries.run_id.in_(run_ids))
        .order_by(_deliveries.run_id, _deliveries.number)
    )
    found: dict[str, list[tuple[int, str, bytes]]] = defaultdict(list)
    for row in await connection.execute(question):
        found[row.run_id].append((int(row.number), row.id, _bytes(row.digest) or b""))
    return found


def _slices_within(
    span: AuditSpan,
    first_ms: ColumnElement[int] = seals.c.append_ms,
    last_ms: ColumnElement[int] = seals.c.append_ms,
) -> list[ColumnElement[bool]]:
    """Slices lie within five minutes of append time each, and a seal tells the last of it."""
    bounds: list[ColumnElement[bool]] = []
    if span.from_ms is not None:
        bounds.append(last_ms >= span.from_ms // SLICE_SPAN_MS * SLICE_SPAN_MS)
    if span.to_ms is not None:
        bounds.append(first_ms < -(-span.to_ms // SLICE_SPAN_MS) * SLICE_SPAN_MS)
    return bounds


def _decided_within(span: AuditSpan) -> list[ColumnElement[bool]]:
    decided: Column[int] = _runs.decided_at_ms
    bounds: list[ColumnElement[bool]] = [decided.is_not(None), _runs.digest.is_not(None)]
    if span.from_ms is not None:
        bounds.append(decided >= span.from_ms)
    if span.to_ms is not None:
        bounds.append(decided < span.to_ms)
    return bounds
