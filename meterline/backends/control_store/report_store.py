"""ReportStore over SQL. Most methods are functions of the modules beside this one: each is one
transaction.
"""

from collections.abc import Sequence

from sqlalchemy import select

from meterline.access import COMMAND
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.deliveries import claims, endpoints, resumption, returns
from meterline.backends.control_store.deliveries import results as sent
from meterline.backends.control_store.reports import asks, definitions, listing, secrets, waiting
from meterline.backends.control_store.reports import booked as report_booked
from meterline.backends.control_store.reports import runs as made
from meterline.backends.control_store.store import SqlStore, read_by, reads, writes, written_by
from meterline.backends.control_store.tables.reports import report_runs
from meterline.delivery import AttemptEnd, Delivery, DeliveryDraft, HealthTerms
from meterline.problem import not_found
from meterline.report import Claim, LogEnds, Manifest, Report, Run, RunMove, Trigger


class SqlReportStore(SqlStore):
    """See `report_ports.ReportStore`: each method is one transaction."""

    create_report = written_by(definitions.create)
    report = read_by(definitions.found)
    reports = read_by(definitions.listed)
    update_report = written_by(definitions.update_definition)
    delete_report = written_by(definitions.delete)
    pause_report = written_by(definitions.pause)
    resume_report = written_by(resumption.resume)
    park_endpoint = written_by(definitions.park)

    rotate_secret = written_by(secrets.rotate)
    tell_secret_shown = written_by(secrets.shown)
    sealed_secrets = read_by(secrets.newest_sealed)
    retired_secrets = read_by(secrets.retired)

    plans = read_by(definitions.plans)
    plan = written_by(definitions.plan)
    await_runs = written_by(waiting.wait)
    release_run = written_by(made.release)
    runs = read_by(listing.runs)
    run = read_by(listing.run)
    booked = read_by(report_booked.booked)

    due = read_by(claims.due)
    claim_deliveries = written_by(claims.claim)
    give_back = written_by(returns.give_back)

    deliveries = read_by(listing.of_run)
    listed_deliveries = read_by(listing.deliveries)
    delivery = read_by(listing.delivery)
    delivery_body = read_by(listing.body)
    attempts = read_by(listing.attempts)

    @writes
    async def ask_run(
        self,
        connection: Connection,
        report: Report,
        from_ms: int,
        to_ms: int,
        now_ms: int,
        *,
        revise: bool,
        author: str = COMMAND,
    ) -> tuple[Run, bool]:
        """See the port. Raises `Problem` (not found) for a report that was deleted meanwhile."""
        if await definitions.locked(connection, report.id) is None:
            raise not_found("report", report.slug)
        window = (from_ms, to_ms)
        return await asks.ask(connection, report, window, now_ms, author, revise=revise)

    @reads
    async def undecided(
        self,
        connection: Connection,
        now_ms: int,
        limit: int,
        after: tuple[str, Trigger] | None = None,
    ) -> list[tuple[Run, Report]]:
        """See the port."""
        runs = await waiting.undecided(connection, now_ms, limit, after)
        ids = {run.report_id for run in runs}
        by_id = {it.id: it for it in await definitions.with_ids(connection, ids)}
        return [(run, by_id[run.report_id]) for run in runs if run.report_id in by_id]

    @writes
    async def claim_run(
        self, connection: Connection, run_id: str, holder: str, now_ms: int, lease_until_ms: int
    ) -> Claim | None:
        """See the port."""
        owner = select(report_runs.c.report_id).where(report_runs.c.id == run_id)
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

    @writes
    async def stage(
        self,
        connection: Connection,
        claim: Claim,
        drafts: Sequence[DeliveryDraft],
        lease_until_ms: int | None = None,
    ) -> bool:
        """See the port."""
        return await made.stage(connection, claim, drafts, lease_until_ms)

    async def decide(
        self, claim: Claim, meter_revision: int, manifest: Manifest, now_ms: int
    ) -> bool:
        """See the port."""
        try:
            await self.database.write(
                lambda connection: made.decide(connection, claim, meter_revision, manifest, now_ms)
            )
        except made.LeaseLost:
            return await self.database.read(
                lambda connection: made.is_winner(connection, claim.run.id, claim.holder)
            )
        return True

    @writes
    async def close_run(
        self,
        connection: Connection,
        claim: Claim,
        move: RunMove,
        reason: str,
        now_ms: int,
        counted: LogEnds | None = None,
    ) -> bool:
        """See the port."""
        return await made.close(connection, claim, move, reason, now_ms, counted)

    @writes
    async def record(
        self,
        connection: Connection,
        ends: Sequence[AttemptEnd],
        now_ms: int,
        terms: HealthTerms | None = None,
    ) -> None:
        """See the port."""
        observed = [end.observed for end in ends if end.observed is not None]
        await sent.record(connection, ends, now_ms)
        await endpoints.hear(connection, observed, now_ms, terms or HealthTerms())

    @writes
    async def replay(
        self,
        connection: Connection,
        namespace: str,
        delivery_id: str,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Delivery:
        """See the port."""
        await sent.replay(connection, namespace, delivery_id, now_ms, author)
        found = await listing.delivery(connection, namespace, delivery_id)
        assert found is not None, "it was there a statement ago, and is locked"
        return found
