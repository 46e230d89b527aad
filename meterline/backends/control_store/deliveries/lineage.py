"""`DeliveryLineage` over SQL."""

import json
from collections.abc import Sequence
from typing import Final

import msgspec

from meterline.audit import ReportedDelivery
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.listing import delivery_of, delivery_question
from meterline.backends.control_store.store import SqlStore, reads
from meterline.backends.control_store.tables.reports import (
    BODY_OF_DELIVERY,
    report_bodies,
    report_deliveries,
    report_runs,
    reports,
)

_runs = report_runs.c
_deliveries = report_deliveries.c


class _Entry(msgspec.Struct):
    groupBy: dict[str, str]  # noqa: N815 - as deliveries have it (contract 2.5)
    valueText: str  # noqa: N815


class _Body(msgspec.Struct):
    usage: list[_Entry]


_bodies: Final = msgspec.json.Decoder(_Body)


class SqlDeliveryLineage(SqlStore):
    """See `meterline.audit.DeliveryLineage`."""

    @reads
    async def deliveries_over(
        self,
        connection: Connection,
        namespace: str,
        meter_ids: Sequence[str],
        subject: str,
        at_ms: int,
        limit: int,
    ) -> list[ReportedDelivery]:
        """See the port."""
        question = (
            delivery_question()
            .add_columns(
                reports.c.meter_id,
                reports.c.group_by,
                _runs.meter_revision,
                _runs.decided_at_ms,
                _runs.complete_until_ms,
                report_bodies.c.body,
            )
            .join(report_bodies, BODY_OF_DELIVERY)
            .where(
                _runs.namespace == namespace,
                reports.c.meter_id.in_(meter_ids),
                _runs.from_ms <= at_ms,
                _runs.to_ms > at_ms,
                _runs.decided_at_ms.is_not(None),
                _deliveries.subject == subject,
            )
            .order_by(_runs.decided_at_ms.desc(), _runs.id.desc())
            .limit(limit)
        )
        return [
            ReportedDelivery(
                delivery=delivery_of(row),
                meter_id=row.meter_id,
                meter_revision=int(row.meter_revision or 0),
                decided_at_ms=int(row.decided_at_ms),
                complete_until_ms=int(row.complete_until_ms or 0),
                group_by=tuple(json.loads(row.group_by)),
                usage=_usage(row.body),
            )
            for row in await connection.execute(question)
        ]


def _usage(body: bytes) -> tuple[tuple[dict[str, str], str], ...]:
    entries = _bodies.decode(body).usage
    return tuple((entry.groupBy, entry.valueText) for entry in entries)
