"""ReportStore over SQL: each method is one transaction; what it does is in `report_definitions`,
`report_runs` and `report_deliveries`.
"""

from collections.abc import Sequence

from sqlalchemy import and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.backends.sql import (
    report_definitions,
)
from meterline.backends.sql import (
    report_deliveries as sent,
)
from meterline.backends.sql import (
    report_runs as made,
)
from meterline.backends.sql.engine import Database
from meterline.backends.sql.report_run_rows import run_of
from meterline.backends.sql.schema_reports import (
    report_attempts,
    report_deliveries,
    report_runs,
)
from meterline.problem import not_found
from meterline.report import Report
from meterline.report_ports import AttemptEnd, Booked, Claim, Due, Parcel, Plan
from meterline.run import Attempt, Delivery, DeliveryDraft, Manifest, Run, RunMove


class SqlReportStore:
    """See `report_ports.ReportStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_report(self, report: Report, planned_until_ms: int) -> None:
        """See the port. Raises `Problem` (not found) too, where the meter is not there any more."""
        await self._database.write(
            lambda connection: report_definitions.create(connection, report, planned_until_ms)
        )

    async def report(self, namespace: str, id_or_slug: str) -> Report | None:
        """See the port."""
        return await self._database.read(
            lambda connection: report_definitions.found(connection, namespace, id_or_slug)
        )

    async def reports(self, namespace: str) -> list[Report]:
        """See the port."""
        return await self._database.read(
            lambda connection: report_definitions.listed(connection, namespace)
        )

    async def delete_report(self, report_id: str, now_ms: int) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: report_definitions.delete(connection, report_id, now_ms)
        )

    async def resume_report(self, report_id: str) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: report_definitions.resume(connection, report_id)
        )

    async def park_endpoint(self, namespace: str, endpoint: str, reason: str) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: report_definitions.park(connection, namespace, endpoint, reason)
        )

    async def plans(self, window_end_max_ms: int, limit: int) -> list[Plan]:
        """See the port."""
        return await self._database.read(
            lambda connection: report_definitions.plans(connection, window_end_max_ms, limit)
        )

    async def plan(self, report_id: str, runs: Sequence[Run], planned_until_ms: int) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: report_definitions.plan(
                connection, report_id, runs, planned_until_ms
            )
        )

    async def ask_run(
        self, report: Report, from_ms: int, to_ms: int, now_ms: int, *, revise: bool
    ) -> tuple[Run, bool]:
        """See the port. Raises `Problem` (not found) for a report that was deleted meanwhile."""

        async def act(connection: AsyncConnection) -> tuple[Run, bool]:
            if await report_definitions.locked(connection, report.id) is None:
                raise not_found("report", report.slug)
            window = (from_ms, to_ms)
            return await made.ask(
                connection, report.id, report.namespace, window, now_ms, revise=revise
            )

        return await self._database.write(act)

    async def undecided(self, now_ms: int, limit: int) -> list[tuple[Run, Report]]:
        """See the port."""

        async def ask(connection: AsyncConnection) -> list[tuple[Run, Report]]:
            runs = await made.undecided(connection, now_ms, limit)
            ids = {run.report_id for run in runs}
            by_id = {it.id: it for it in await report_definitions.with_ids(connection, ids)}
            return [(run, by_id[run.report_id]) for run in runs if run.report_id in by_id]

        return await self._database.read(ask)

    async def await_run(self, run_id: str) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: made.move(connection, run_id, RunMove.WAIT, {})
        )

    async def claim_run(
        self, run_id: str, holder: str, now_ms: int, lease_until_ms: int
    ) -> Claim | None:
        """See the port."""
        owner = select(report_runs.c.report_id).where(report_runs.c.id == run_id)

        async def act(connection: AsyncConnection) -> Claim | None:
            report_id = (await connection.execute(owner)).scalar_one()
            report = await report_definitions.locked(connection, report_id)
            if report is None:
                return None
            run = await made.claim(connection, run_id, holder, now_ms, lease_until_ms)
            if run is None:
                return None
            return Claim(
                run, report_definitions.report_of(report), holder, int(report.sequence_next)
            )

        return await self._database.write(act)

    async def release_run(self, run_id: str, holder: str) -> None:
        """See the port."""
        await self._database.write(lambda connection: made.release(connection, run_id, holder))

    async def stage(self, claim: Claim, drafts: Sequence[DeliveryDraft]) -> None:
        """See the port."""
        if drafts:
            await self._database.write(lambda connection: made.stage(connection, claim, drafts))

    async def decide(
        self, claim: Claim, meter_revision: int, manifest: Manifest, now_ms: int
    ) -> bool:
        """See the port."""
        try:
            await self._database.write(
                lambda connection: made.decide(connection, claim, meter_revision, manifest, now_ms)
            )
        except made.LeaseLost:
            return await self._database.read(
                lambda connection: made.is_winner(connection, claim.run.id, claim.holder)
            )
        return True

    async def close_run(self, claim: Claim, move: RunMove, reason: str, now_ms: int) -> bool:
        """See the port."""
        return await self._database.write(
            lambda connection: made.close(connection, claim, move, reason, now_ms)
        )

    async def booked(self, run: Run) -> dict[str, Booked]:
        """See the port."""
        return await self._database.read(lambda connection: made.booked(connection, run))

    async def due(self, now_ms: int) -> list[Due]:
        """See the port."""
        return await self._database.read(lambda connection: sent.due(connection, now_ms))

    async def claim_deliveries(
        self, report_id: str, now_ms: int, lease_until_ms: int, limit: int
    ) -> list[Parcel]:
        """See the port."""
        return await self._database.write(
            lambda connection: sent.claim(connection, report_id, now_ms, lease_until_ms, limit)
        )

    async def record(self, ends: Sequence[AttemptEnd], now_ms: int) -> None:
        """See the port."""
        await self._database.write(lambda connection: sent.record(connection, ends, now_ms))

    async def runs(self, report_id: str, limit: int, before: Run | None = None) -> list[Run]:
        """See the port."""
        runs = report_runs.c
        question = select(report_runs).where(runs.report_id == report_id)
        if before is not None:
            question = question.where(
                or_(
                    runs.to_ms < before.to_ms,
                    and_(runs.to_ms == before.to_ms, runs.from_ms < before.from_ms),
                    and_(
                        runs.to_ms == before.to_ms,
                        runs.from_ms == before.from_ms,
                        runs.revision < before.revision,
                    ),
                )
            )
        newest = question.order_by(runs.to_ms.desc(), runs.from_ms.desc(), runs.revision.desc())

        async def ask(connection: AsyncConnection) -> list[Run]:
            return [run_of(row) for row in await connection.execute(newest.limit(limit))]

        return await self._database.read(ask)

    async def run(self, report_id: str, run_id: str) -> Run | None:
        """See the port."""
        question = select(report_runs).where(
            report_runs.c.report_id == report_id, report_runs.c.id == run_id
        )

        async def ask(connection: AsyncConnection) -> Run | None:
            row = (await connection.execute(question)).one_or_none()
            return None if row is None else run_of(row)

        return await self._database.read(ask)

    async def deliveries(self, run_id: str, limit: int, after: int = 0) -> list[Delivery]:
        """See the port."""
        deliveries = report_deliveries.c
        question = (
            select(report_deliveries)
            .where(deliveries.run_id == run_id, deliveries.number > after)
            .order_by(deliveries.number)
            .limit(limit)
        )

        async def ask(connection: AsyncConnection) -> list[Delivery]:
            return [sent.delivery_of(row) for row in await connection.execute(question)]

        return await self._database.read(ask)

    async def attempts(self, delivery_ids: Sequence[str]) -> list[Attempt]:
        """See the port."""
        question = (
            select(report_attempts)
            .where(report_attempts.c.delivery_id.in_(delivery_ids))
            .order_by(report_attempts.c.delivery_id, report_attempts.c.number)
        )

        async def ask(connection: AsyncConnection) -> list[Attempt]:
            return [sent.attempt_of(row) for row in await connection.execute(question)]

        return await self._database.read(ask)
