"""Contract of `ControlEvidence` where it tells of runs, and what an audit makes of it."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest
from sqlalchemy import delete, update

from aggregator.audit.auditor import AuditTerms, StoreAuditor
from meterline.audit import AuditSpan, Finding
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.evidence import SqlEvidence
from meterline.backends.control_store.tables.reports import report_bodies, report_deliveries
from meterline.delivery import DeliveryDraft
from meterline.report import Report, ReportStore
from tests.contract.reports.conftest import NOW, claimed, drafts, manifest, scheduled


def _digest(made: Sequence[DeliveryDraft]) -> str:
    content = b"".join(one.id.encode() + one.digest for one in made)
    return blake2b(content, digest_size=32).hexdigest()


async def _decided(store: ReportStore, report: Report, hour: int, *subjects: str) -> str:
    run = scheduled(report, hour)
    await store.plan(report, [run], run.to_ms)
    claim = await claimed(store, run)
    made = drafts(claim, *subjects)
    await store.stage(claim, made)
    said = replace(manifest(claim, len(subjects)), digest=_digest(made))
    assert await store.decide(claim, 7, said, NOW + hour)
    return run.id


async def _findings(database: Database, span: AuditSpan | None = None) -> list[Finding]:
    nothing: Any = None  # no log is known here: the audit begins with the runs
    auditor = StoreAuditor(
        nothing, nothing, nothing, nothing, nothing, SqlEvidence(database), nothing, AuditTerms(1)
    )
    step = await auditor.step(span or AuditSpan(), None)
    assert step.next is None
    assert step.runs == step.runs_total
    return step.findings


async def test_deliveries_are_their_digests(
    control_database: Database, store: ReportStore, report: Report
) -> None:
    await _decided(store, report, 0)
    await _decided(store, report, 1, "a", "b", "c")
    await store.plan(report, [scheduled(report, 2)], scheduled(report, 2).to_ms)
    assert await _findings(control_database) == []


@pytest.mark.parametrize("touch", ["body changed", "body deleted", "delivery deleted"])
async def test_every_touch_is_named(
    control_database: Database, store: ReportStore, report: Report, touch: str
) -> None:
    await _decided(store, report, 0, "a")
    run_id = await _decided(store, report, 1, "a", "b")
    delivery = (await store.deliveries(run_id, 9))[1]
    body = (report_bodies.c.run_id == run_id) & (report_bodies.c.number == 2)
    statement: Any = {
        "body changed": update(report_bodies).where(body).values(body=b"{}"),
        "body deleted": delete(report_bodies).where(body),
        "delivery deleted": delete(report_deliveries).where(report_deliveries.c.id == delivery.id),
    }[touch]

    async def act(connection: Connection) -> None:
        await connection.execute(statement)

    await control_database.write(act)
    found = await _findings(control_database)
    if touch == "delivery deleted":
        assert [(one.place, one.name) for one in found] == [
            (run_id, "deliveries"),
            (run_id, "manifest digest"),
        ]
        assert (found[0].expected, found[0].found) == ("2", "1")
    else:
        (one,) = found
        assert (one.table, one.place, one.expected) == (
            "deliveries",
            delivery.id,
            delivery.digest.hex(),
        )
        assert (one.found == "nothing") == (touch == "body deleted")
    assert await _findings(control_database, AuditSpan(NOW, NOW + 1)) == []
    assert await _findings(control_database, AuditSpan(NOW + 1, None)) == found
