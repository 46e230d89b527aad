"""ReportStore over SQL. Most methods are functions of the modules beside this one: each is one
transaction.
"""

from meterline.backends.control_store.deliveries import (
    cancellation,
    claims,
    pull,
    results,
    resumption,
    stored_bytes,
)
from meterline.backends.control_store.reports import (
    definitions,
    listing,
    requests,
    secrets,
    test_deliveries,
    waiting,
)
from meterline.backends.control_store.reports import runs as made
from meterline.backends.control_store.store import SqlStore, read_by, written_by
from meterline.report import Claim, Manifest


class SqlReportStore(SqlStore):
    """See `meterline.report.ReportStore` and the small ports beside it (`ReportTestStore`,
    `PullStore`, `DeliveryBytes`): each method is one transaction.
    """

    create_report = written_by(definitions.create)
    report = read_by(definitions.found)
    reports = read_by(definitions.listed)
    update_report = written_by(definitions.update_definition)
    delete_report = written_by(cancellation.delete)
    pause_report = written_by(definitions.pause)
    resume_report = written_by(resumption.resume)
    park_endpoint = written_by(definitions.park)
    record_test = written_by(test_deliveries.note)

    rotate_secret = written_by(secrets.rotate)
    tell_secret_shown = written_by(secrets.shown)
    sealed_secrets = read_by(secrets.newest_sealed)
    retired_secrets = read_by(secrets.retired)

    plans = read_by(definitions.plans)
    plan = written_by(definitions.plan)
    request_run = written_by(requests.request)
    await_runs = written_by(waiting.wait)
    undecided = read_by(waiting.undecided)
    claim_run = written_by(made.claim)
    release_run = written_by(made.release)
    stage = written_by(made.stage)
    close_run = written_by(made.close)
    runs = read_by(listing.runs)
    run = read_by(listing.run)
    booked = read_by(listing.booked)

    due = read_by(claims.due)
    claim_deliveries = written_by(claims.claim)
    give_back = written_by(claims.give_back)
    record = written_by(results.record)
    replay = written_by(results.replay)
    remove_bytes = written_by(stored_bytes.remove)

    deliveries = read_by(listing.of_run)
    listed_deliveries = read_by(listing.deliveries)
    delivery = read_by(listing.delivery)
    delivery_body = read_by(listing.body)
    attempts = read_by(listing.attempts)
    pulled = read_by(pull.pulled)

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
