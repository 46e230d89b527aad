"""The operations of reports in both versions, over real SQLite stores, with a meter."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from control.openapi.report_message import EXAMPLE
from control.refusals.service import RefusalService
from control.reports.service import ReportService
from control.routes import Api as Operations
from control.routes import routes
from control.stores import Ledger
from dispatcher.sending.signing import signed_headers
from dispatcher.sending.test_delivery import DeliveryTester
from meterline.access import ANONYMOUS
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.deliveries.lineage import SqlDeliveryLineage
from meterline.backends.control_store.deliveries.replays import SqlReplayStore
from meterline.backends.control_store.deliveries.report_status import SqlReportStatusStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.report_store import SqlReportStore
from meterline.backends.control_store.reports.corrections import SqlCorrectionStore
from meterline.backends.secrets import FernetSecretBox
from meterline.backends.webhook.sender import HttpWebhookSender
from meterline.delivery import (
    Attempt,
    AttemptEnd,
    AttemptOutcome,
    DeliveryDraft,
    DeliveryMove,
    ReplayStore,
    SendGrant,
    delivery_id,
    digest_of,
)
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.gate import Gate
from meterline.report import Correction, CorrectionStore, Manifest, ReportStore, StartTerms
from meterline.report.correction import digest_over
from tests.openapi import documented
from tests.unit.control.conftest import NOW_MS, Api, Client

V1 = "/api/v1/reports"
V3 = "/api/v3/metering"
METER = {
    "slug": "tokens",
    "aggregation": "SUM",
    "eventType": "prompt",
    "valueProperty": "$.tokens",
    "groupBy": {"model": "$.model", "type": "$.type"},
}
BODY: dict[str, Any] = {
    "slug": "daily-tokens",
    "meterIdOrSlug": "tokens",
    "type": "webhook",
    "schedule": {"interval": "1d", "startAt": "2023-11-01T00:00:00.000Z"},
    "query": {"groupBy": ["model"]},
    "endpoint": {"url": "https://example.com/hook"},
}
V3_BODY: dict[str, Any] = {
    "slug": "daily-tokens",
    "meter_id_or_key": "tokens",
    "type": "webhook",
    "schedule": {"interval": "1d", "start_at": "2023-11-01T00:00:00Z"},
    "query": {"group_by_dimensions": ["model"]},
    "endpoint": {"url": "https://example.com/hook"},
}
LOOPBACK = (ip_network("127.0.0.0/8"),)
START = StartTerms(60_000, 11_000)
WINDOW = {"from": "2023-11-01T00:00:00Z", "to": "2023-11-02T00:00:00Z"}


def body_of(number: int) -> bytes:
    """The body of a delivery, by its number from 0."""
    run = {**EXAMPLE["run"], "number": number + 1}
    return json.dumps({**EXAMPLE, "run": run}).encode()


@dataclass(slots=True)
class Wakes:
    """Counts how often the dispatcher was told to look."""

    count: int = 0

    def __call__(self) -> None:
        self.count += 1


@dataclass(slots=True)
class ReportsApi:
    """The API with reports mounted, a meter, and what reports stand on. `other` is the same API
    as callers of another namespace see it.
    """

    api: Api
    other: Api
    reports: ReportStore
    corrections: CorrectionStore
    replays: ReplayStore
    meter_id: str = ""
    wakes: Wakes = field(default_factory=Wakes)

    async def made(self, **changes: Any) -> Any:
        """A report made by v1."""
        return await self.api.json("POST", V1, 201, json={**BODY, **changes})

    async def faults(self, **changes: Any) -> dict[str, str]:
        """What v1 refuses a report for."""
        return await self.api.faults("POST", V1, json={**BODY, **changes})

    async def made_v3(self, **changes: Any) -> Any:
        """A report made by v3."""
        return await self.api.json("POST", f"{V3}/reports", 201, json={**V3_BODY, **changes})

    async def delivered(self, run: Any) -> list[str]:
        """What a dispatcher does: decide the run with two subjects, fail one and deliver the
        other. The ids of the two.
        """
        claim = await self.reports.claim_run(run["id"], "h", NOW_MS, NOW_MS + 1_000)
        assert claim is not None
        made = claim.run
        ids = [
            delivery_id(made.report_id, made.from_ms, made.to_ms, f"s{n}", made.revision)
            for n in (1, 2)
        ]
        first = claim.sequence_next
        await self.reports.stage(
            claim,
            [
                DeliveryDraft(
                    ids[n],
                    f"s{n + 1}",
                    n + 1,
                    first + n,
                    body_of(n),
                    digest_of(body_of(n)),
                    digest_of(b""),
                )
                for n in (0, 1)
            ],
        )
        total = 10**18 + 5
        manifest = Manifest(2, 2, 1, total, -total, NOW_MS, "d1" * 32, first)
        assert await self.reports.decide(claim, 7, manifest, NOW_MS)
        claimed = await self.reports.claim_deliveries(
            [SendGrant(claim.report.id, 2)], NOW_MS, NOW_MS + 1_000
        )
        one, other = sorted(claimed, key=lambda it: ids.index(it.delivery_id))
        refused = Attempt(
            one.delivery_id, 1, NOW_MS, AttemptOutcome.REFUSED, 7, 500, "no", b"a\xff", NOW_MS + 5
        )
        fine = Attempt(other.delivery_id, 1, NOW_MS, AttemptOutcome.DELIVERED, 8, 204)
        ends = [AttemptEnd(refused, DeliveryMove.RETRY), AttemptEnd(fine, DeliveryMove.CONFIRM)]
        await self.reports.record(ends, NOW_MS)
        return ids

    async def recorded(self, run: Any, said: Sequence[Correction]) -> None:
        """What a dispatcher does: decide a revision that is only recorded."""
        claim = await self.reports.claim_run(run["id"], "r", NOW_MS, NOW_MS + 1_000)
        assert claim is not None
        await self.corrections.stage_corrections(claim, said, 1)
        manifest = Manifest(
            0,
            2,
            0,
            0,
            0,
            NOW_MS,
            "d2" * 32,
            0,
            corrections=len(said),
            corrections_digest=digest_over(said),
        )
        assert await self.reports.decide(claim, 7, manifest, NOW_MS)


async def _served(operations: Operations, gate: Gate) -> Client:
    clock = operations.stores.clock
    app = web.Application(middlewares=[documented, problem_middleware(clock)])
    app.add_routes(routes(operations, gate))
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client: Client = TestClient(server)
    return client


@pytest.fixture
async def served(api: Api, tmp_path: Path) -> AsyncIterator[ReportsApi]:
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    store, wakes = SqlReportStore(database), Wakes()
    corrections = SqlCorrectionStore(database)
    statuses, box = SqlReportStatusStore(database), FernetSecretBox("key")
    replays = SqlReplayStore(database)
    sender = HttpWebhookSender(SystemClock(), LOOPBACK, timeout_s=1)
    service = ReportService(
        api.stores,
        store,
        box,
        wakes,
        corrections,
        START,
        statuses,
        DeliveryTester(store, sender, box, api.clock),
        SqlReportStore(database),
        replays,
        SqlReportStore(database),
        signed_headers,
    )
    nothing: Any = None  # the account and refusals have tests of their own
    operations = Operations(
        api.stores,
        service,
        SqlAccessStore(database),
        (),
        Ledger(nothing, nothing, nothing, SqlDeliveryLineage(database)),
        RefusalService(api.stores, nothing, nothing, nothing),
    )
    stranger = replace(ANONYMOUS, namespace="other", author="key:other")
    ours, theirs = [
        Api(await _served(operations, gate), api.stores, api.usage, api.clock)
        for gate in (Gate(api.clock), Gate(api.clock, lambda _shown, _now_ms: stranger))
    ]
    made = ReportsApi(ours, theirs, store, corrections, replays, wakes=wakes)
    made.meter_id = (await ours.json("POST", "/api/v1/meters", 201, json=METER))["id"]
    yield made
    await ours.client.close()
    await theirs.client.close()
    await sender.close()
    await database.close()
