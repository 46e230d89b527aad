"""CorrectionStore over SQL."""

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import Row, and_, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.reports.definitions import BAD_ROW
from meterline.backends.control_store.reports.listing import bodies
from meterline.backends.control_store.reports.requests import followed
from meterline.backends.control_store.reports.run_rows import filter_of, group_by_of
from meterline.backends.control_store.reports.runs import is_held
from meterline.backends.control_store.store import (
    SqlStore,
    json_text,
    reads,
    row_of,
    value_of,
    writes,
)
from meterline.backends.control_store.tables.reports import (
    report_runs,
    run_corrections,
)
from meterline.report import Baseline, Claim, Correction, KeptCorrection, Run, RunUnreadable

_rows = run_corrections.c


class SqlCorrectionStore(SqlStore):
    """See `meterline.report.CorrectionStore`."""

    @reads
    async def baseline(self, connection: Connection, run: Run) -> Baseline | None:
        """See the port."""
        try:
            return await _baseline(connection, run)
        except BAD_ROW as error:
            raise RunUnreadable(f"a run before {run.id}: {error!r}") from error

    @reads
    async def sent_bodies(
        self, connection: Connection, delivery_ids: Collection[str]
    ) -> dict[str, bytes]:
        """See the port."""
        return await bodies(connection, delivery_ids)

    @writes
    async def stage_corrections(
        self,
        connection: Connection,
        claim: Claim,
        corrections: Sequence[Correction],
        number_first: int,
    ) -> None:
        """See the port."""
        rows = [_row_of(claim, number_first + place, one) for place, one in enumerate(corrections)]
        if rows and await is_held(connection, claim):
            statement = insert(connection, run_corrections).on_conflict_do_nothing()
            await connection.execute(statement, rows)

    @reads
    async def corrections(
        self, connection: Connection, run_id: str, limit: int, after: int = 0
    ) -> list[KeptCorrection]:
        """See the port."""
        question = (
            select(run_corrections)
            .join(
                report_runs,
                and_(report_runs.c.id == _rows.run_id, report_runs.c.lease_holder == _rows.holder),
            )
            .where(_rows.run_id == run_id, _rows.number > after, report_runs.c.digest.is_not(None))
            .order_by(_rows.number)
            .limit(limit)
        )
        found = await connection.execute(question)
        return [KeptCorrection(int(row.number), _correction_of(row)) for row in found]


def _row_of(claim: Claim, number: int, one: Correction) -> dict[str, object]:
    return row_of(
        one,
        run_corrections,
        run_id=claim.run.id,
        holder=claim.holder,
        number=number,
        groups=json_text(dict(one.groups)),
        old_value=None if one.old is None else str(one.old),
        new_value=None if one.new is None else str(one.new),
    )


def _correction_of(row: Row[tuple[object, ...]]) -> Correction:
    groups = msgspec.json.decode(row.groups, type=dict[str, str])
    return value_of(
        Correction,
        row,
        groups=tuple(sorted(groups.items())),
        old=None if row.old_value is None else int(row.old_value),
        new=None if row.new_value is None else int(row.new_value),
    )


async def _baseline(connection: Connection, run: Run) -> Baseline | None:
    before = await followed(connection, run)
    if before is None:
        return None
    assert before.manifest is not None, "what says something has one"
    assert before.meter_revision is not None, "decided"
    question = select(report_runs.c.group_by, report_runs.c.filter)
    row = (await connection.execute(question.where(report_runs.c.id == before.id))).one()
    recorded = not before.manifest.deliveries
    return Baseline(
        before.id,
        before.meter_revision,
        None if row.group_by is None else group_by_of(row.group_by),
        None if row.filter is None else filter_of(row.filter),
        before.manifest.corrections_digest if recorded else None,
    )
