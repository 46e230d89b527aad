"""A report in an empty store, and what dispatchers do to it, for the suites of ReportStore."""

from dataclasses import replace

import pytest

from meterline import limits
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.control_store.reports.late import SqlLateStore
from meterline.delivery import (
    Attempt,
    AttemptEnd,
    AttemptOutcome,
    ClaimedDelivery,
    DeliveryDraft,
    DeliveryMove,
    DeliveryState,
    delivery_id,
    digest_of,
)
from meterline.meter import Aggregation, MeterDraft
from meterline.report import (
    Claim,
    DecidedWindow,
    Interval,
    LateStore,
    LateWindow,
    LogEnds,
    Manifest,
    Report,
    ReportStore,
    Run,
    Schedule,
    Trigger,
    parse_filter,
    run_id,
)
from meterline.window import HOUR_MS

NOW = 1_770_000_000_000
START = NOW - NOW % HOUR_MS
LEASE = NOW + 60_000
PAUSE_MS = HOUR_MS  # between two revisions of a window
SECRET = b"sealed"


@pytest.fixture
def store(control_database: Database) -> ReportStore:
    return SqlReportStore(control_database)


@pytest.fixture
def late(control_database: Database) -> LateStore:
    return SqlLateStore(control_database)


@pytest.fixture
async def report(control_database: Database, store: ReportStore) -> Report:
    groups = (("kind", "$.kind"), ("model", "$.model"))
    draft = MeterDraft("tokens", "Tokens", Aggregation.SUM, "prompt", "$.tokens", dimensions=groups)
    meter = await SqlCatalogueStore(control_database).create_meter("default", draft, NOW)
    filter_, faults = parse_filter({"usage": {"$gt": 5}, "subject": {"$nin": ["a", "ü"]}})
    assert not faults
    made = Report(
        id="01R",
        namespace="default",
        slug="monthly",
        meter_id=meter.id,
        schedule=Schedule(Interval.HOUR, START),
        group_by=("model", "kind"),
        endpoint="https://example.com/hook",
        signing_secret_sealed=SECRET,
        created_at_ms=NOW,
        updated_at_ms=NOW,
        filter=filter_,
        user_info_sealed=b"\x00user",
    )
    await store.create_report(made, START)
    return made


def of(report: Report, run: Run, counted: LogEnds | None = None) -> DecidedWindow:
    return DecidedWindow(report.id, report.meter_id, run.from_ms, run.to_ms, counted)


def window(run: Run) -> LateWindow:
    return LateWindow(run.report_id, run.from_ms, run.to_ms)


def scheduled(report: Report, hour: int = 0, revision: int = 1) -> Run:
    from_ms = START + hour * HOUR_MS
    to_ms = from_ms + HOUR_MS
    name = run_id(report.id, from_ms, to_ms, revision)
    return Run(name, report.id, "default", from_ms, to_ms, revision, Trigger.SCHEDULE, NOW)


def drafts(claim: Claim, *subjects: str) -> list[DeliveryDraft]:
    run = claim.run
    made = []
    for place, subject in enumerate(subjects):
        body = f"{subject} of {run.id}".encode()
        name = delivery_id(run.report_id, run.from_ms, run.to_ms, subject, run.revision)
        made.append(
            DeliveryDraft(
                name,
                subject,
                place + 1,
                claim.sequence_next + place,
                body,
                digest_of(body),
                digest_of(subject.encode()),
            )
        )
    return made


def manifest(claim: Claim, deliveries: int) -> Manifest:
    return Manifest(deliveries, deliveries, 2, 10**40, -7, NOW, "d1", claim.sequence_next)


async def claimed(store: ReportStore, run: Run, holder: str = "h1", now_ms: int = NOW) -> Claim:
    claim = await store.claim_run(run.id, holder, now_ms, now_ms + 60_000)
    assert claim is not None
    return claim


async def decided(
    store: ReportStore, run: Run, *subjects: str, holder: str = "h1", body: bytes | None = None
) -> Claim:
    claim = await claimed(store, run, holder)
    made = drafts(claim, *subjects)
    if body is not None:
        made = [replace(draft, body=body, digest=digest_of(body)) for draft in made]
    for first in range(0, len(made), limits.STAGED_BODIES_MAX):
        await store.stage(claim, made[first : first + limits.STAGED_BODIES_MAX])
    assert await store.decide(claim, 7, manifest(claim, len(subjects)), NOW)
    return claim


async def delivering(
    store: ReportStore, report: Report, *subjects: str, body: bytes | None = None
) -> Run:
    run = scheduled(report)
    await store.plan(report, [run], run.to_ms)
    await decided(store, run, *subjects, body=body)
    return run


def ended(claimed: ClaimedDelivery, move: DeliveryMove, next_ms: int | None = None) -> AttemptEnd:
    outcome = AttemptOutcome.DELIVERED if move is DeliveryMove.CONFIRM else AttemptOutcome.REFUSED
    status = 204 if move is DeliveryMove.CONFIRM else 500
    attempt = Attempt(
        claimed.delivery_id, claimed.attempt, NOW, outcome, 12, status, "said", b"\xffbody", next_ms
    )
    return AttemptEnd(attempt, move)


async def the_run(store: ReportStore, run: Run) -> Run:
    found = await store.run(run.report_id, run.id)
    assert found is not None
    return found


async def states(store: ReportStore, run: Run) -> list[DeliveryState]:
    return [delivery.state for delivery in await store.deliveries(run.id, 100)]
