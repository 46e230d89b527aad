"""ReportStore over SQL: each method is one transaction; what it does is in the modules `report_*`
beside this one.
"""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.access import COMMAND, DISPATCHER
from meterline.backends.control_store.deliveries import claims, endpoints, resumption, returns
from meterline.backends.control_store.deliveries import results as sent
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.reports import asks, definitions, listing, secrets, waiting
from meterline.backends.control_store.reports import booked as report_booked
from meterline.backends.control_store.reports import runs as made
from meterline.backends.control_store.tables.reports import report_runs
from meterline.delivery import (
    Allotment,
    Attempt,
    AttemptEnd,
    Delivery,
    DeliveryDraft,
    DeliveryPlace,
    DeliveryQuery,
    Due,
    HealthTerms,
    Parcel,
)
from meterline.problem import not_found
from meterline.report import (
    EVERY_RUN,
    Booked,
    Claim,
    LogEnds,
    Manifest,
    Owed,
    Plan,
    Report,
    ReportChange,
    Resumed,
    RetiredSecret,
    Run,
    RunMove,
    RunQuery,
    Trigger,
)


class SqlReportStore:
    """See `report_ports.ReportStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_report(
        self, report: Report, planned_until_ms: int, *, author: str = COMMAND
    ) -> None:
        """See the port. Raises `Problem` (not found) too, where the meter is not there any more."""
        await self._database.write(
            lambda connection: definitions.create(connection, report, planned_until_ms, author)
        )

    async def report(self, namespace: str, id_or_slug: str) -> Report | None:
        """See the port."""
        return await self._database.read(
            lambda connection: definitions.found(connection, namespace, id_or_slug)
        )

    async def reports(
        self, namespace: str, limit: int | None = None, after: tuple[int, str] | None = None
    ) -> list[Report]:
        """See the port."""
        return await self._database.read(
            lambda connection: definitions.listed(connection, namespace, limit, after)
        )

    async def update_report(
        self, report_id: str, change: ReportChange, now_ms: int, *, author: str = COMMAND
    ) -> Report:
        """See the port."""
        return await self._database.write(
            lambda connection: definitions.update_definition(
                connection, report_id, change, now_ms, author
            )
        )

    async def delete_report(self, report_id: str, now_ms: int, *, author: str = COMMAND) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: definitions.delete(connection, report_id, now_ms, author)
        )

    async def pause_report(self, report_id: str, now_ms: int, *, author: str = COMMAND) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: definitions.pause(connection, report_id, now_ms, author)
        )

    async def resume_report(
        self, report_id: str, now_ms: int, *, owed: Owed = Owed.ALL, author: str = COMMAND
    ) -> Resumed:
        """See the port."""
        return await self._database.write(
            lambda connection: resumption.resume(connection, report_id, now_ms, owed, author)
        )

    async def rotate_secret(
        self, report_id: str, sealed: bytes, overlap_ms: int, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: secrets.rotate(
                connection, report_id, sealed, overlap_ms, now_ms, author
            )
        )

    async def tell_secret_shown(
        self, report: Report, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: secrets.shown(connection, report, now_ms, author)
        )

    async def sealed_secrets(self, most: int) -> list[bytes]:
        """See the port."""
        return await self._database.read(lambda connection: secrets.newest_sealed(connection, most))

    async def retired_secrets(self, report_id: str, now_ms: int) -> list[RetiredSecret]:
        """See the port."""
        return await self._database.read(
            lambda connection: secrets.retired(connection, report_id, now_ms)
        )

    async def park_endpoint(
        self, namespace: str, endpoint: str, reason: str, now_ms: int, *, author: str = DISPATCHER
    ) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: definitions.park(
                connection, namespace, endpoint, reason, now_ms, author
            )
        )

    async def plans(self, window_end_max_ms: int, limit: int) -> list[Plan]:
        """See the port."""
        return await self._database.read(
            lambda connection: definitions.plans(connection, window_end_max_ms, limit)
        )

    async def plan(self, report: Report, runs: Sequence[Run], planned_until_ms: int) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: definitions.plan(connection, report, runs, planned_until_ms)
        )

    async def ask_run(
        self,
        report: Report,
        from_ms: int,
        to_ms: int,
        now_ms: int,
        *,
        revise: bool,
        author: str = COMMAND,
    ) -> tuple[Run, bool]:
        """See the port. Raises `Problem` (not found) for a report that was deleted meanwhile."""

        async def act(connection: AsyncConnection) -> tuple[Run, bool]:
            if await definitions.locked(connection, report.id) is None:
                raise not_found("report", report.slug)
            window = (from_ms, to_ms)
            return await asks.ask(connection, report, window, now_ms, author, revise=revise)

        return await self._database.write(act)

    async def undecided(
        self, now_ms: int, limit: int, after: tuple[str, Trigger] | None = None
    ) -> list[tuple[Run, Report]]:
        """See the port."""

        async def ask(connection: AsyncConnection) -> list[tuple[Run, Report]]:
            runs = await waiting.undecided(connection, now_ms, limit, after)
            ids = {run.report_id for run in runs}
            by_id = {it.id: it for it in await definitions.with_ids(connection, ids)}
            return [(run, by_id[run.report_id]) for run in runs if run.report_id in by_id]

        return await self._database.read(ask)

    async def await_runs(self, run_ids: Sequence[str]) -> None:
        """See the port."""
        await self._database.write(lambda connection: waiting.wait(connection, run_ids))

    async def claim_run(
        self, run_id: str, holder: str, now_ms: int, lease_until_ms: int
    ) -> Claim | None:
        """See the port."""
        owner = select(report_runs.c.report_id).where(report_runs.c.id == run_id)

        async def act(connection: AsyncConnection) -> Claim | None:
            report_id = (await connection.execute(owner)).scalar_one_or_none()
            if report_id is None:  # a late one that found nothing new
                return None
            report = await definitions.locked(connection, report_id)
            if report is None:
                return None
            run = await made.claim(connection, run_id, holder, now_ms, lease_until_ms)
            if run is None:
                return None
            return Claim(run, definitions.report_of(report), holder, int(report.sequence_next))

        return await self._database.write(act)

    async def release_run(self, run_id: str, holder: str) -> None:
        """See the port."""
        await self._database.write(lambda connection: made.release(connection, run_id, holder))

    async def stage(
        self, claim: Claim, drafts: Sequence[DeliveryDraft], lease_until_ms: int | None = None
    ) -> bool:
        """See the port."""
        return await self._database.write(
            lambda connection: made.stage(connection, claim, drafts, lease_until_ms)
        )

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

    async def close_run(
        self,
        claim: Claim,
        move: RunMove,
        reason: str,
        now_ms: int,
        counted: LogEnds | None = None,
    ) -> bool:
        """See the port."""
        return await self._database.write(
            lambda connection: made.close(connection, claim, move, reason, now_ms, counted)
        )

    async def booked(
        self, run: Run, after: str | None = None, until: str | None = None
    ) -> dict[str, Booked]:
        """See the port."""
        return await self._database.read(
            lambda connection: report_booked.booked(connection, run, after, until)
        )

    async def due(self, now_ms: int) -> list[Due]:
        """See the port."""
        return await self._database.read(lambda connection: claims.due(connection, now_ms))

    async def claim_deliveries(
        self, allotments: Sequence[Allotment], now_ms: int, lease_until_ms: int
    ) -> list[Parcel]:
        """See the port."""
        return await self._database.write(
            lambda connection: claims.claim(connection, allotments, now_ms, lease_until_ms)
        )

    async def give_back(self, parcels: Sequence[Parcel], now_ms: int) -> None:
        """See the port."""
        await self._database.write(
            lambda connection: returns.give_back(connection, parcels, now_ms)
        )

    async def record(
        self, ends: Sequence[AttemptEnd], now_ms: int, terms: HealthTerms | None = None
    ) -> None:
        """See the port."""
        heard = [end.heard for end in ends if end.heard is not None]

        async def act(connection: AsyncConnection) -> None:
            await sent.record(connection, ends, now_ms)
            await endpoints.hear(connection, heard, now_ms, terms or HealthTerms())

        await self._database.write(act)

    async def replay(
        self, namespace: str, delivery_id: str, now_ms: int, *, author: str = COMMAND
    ) -> Delivery:
        """See the port."""

        async def act(connection: AsyncConnection) -> Delivery:
            await sent.replay(connection, namespace, delivery_id, now_ms, author)
            found = await listing.delivery(connection, namespace, delivery_id)
            assert found is not None, "it was there a statement ago, and is locked"
            return found

        return await self._database.write(act)

    async def runs(
        self,
        report_id: str,
        limit: int,
        before: Run | None = None,
        query: RunQuery = EVERY_RUN,
    ) -> list[Run]:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.runs(connection, report_id, limit, before, query)
        )

    async def run(self, report_id: str, run_id: str) -> Run | None:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.run(connection, report_id, run_id)
        )

    async def deliveries(self, run_id: str, limit: int, after: int = 0) -> list[Delivery]:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.of_run(connection, run_id, limit, after)
        )

    async def listed_deliveries(
        self,
        namespace: str,
        query: DeliveryQuery,
        limit: int,
        after: DeliveryPlace | None = None,
    ) -> list[Delivery]:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.deliveries(connection, namespace, query, limit, after)
        )

    async def delivery(self, namespace: str, delivery_id: str) -> Delivery | None:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.delivery(connection, namespace, delivery_id)
        )

    async def delivery_body(self, namespace: str, delivery_id: str) -> bytes | None:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.body(connection, namespace, delivery_id)
        )

    async def attempts(self, delivery_ids: Sequence[str]) -> list[Attempt]:
        """See the port."""
        return await self._database.read(
            lambda connection: listing.attempts(connection, delivery_ids)
        )
