"""The last error of each report, in SQL."""

from collections.abc import Collection

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import put_greatest
from meterline.backends.control_store.tables.reports import report_last_errors
from meterline.delivery import Attempt


async def put_errors(connection: Connection, failed: Collection[tuple[str, Attempt]]) -> None:
    """Keep the newest of attempts that did not arrive, each with the id of its report."""
    newest: dict[str, Attempt] = {}
    for report_id, attempt in failed:
        there = newest.get(report_id)
        if there is None or attempt.started_at_ms >= there.started_at_ms:
            newest[report_id] = attempt
    rows = [
        {
            "report_id": report_id,
            "delivery_id": attempt.delivery_id,
            "at_ms": attempt.started_at_ms,
            "outcome": attempt.outcome.value,
            "status": attempt.status,
            "reason": attempt.reason,
        }
        for report_id, attempt in sorted(newest.items())  # one order: nobody waits for another
    ]
    if rows:
        await put_greatest(connection, report_last_errors, rows, "at_ms")
