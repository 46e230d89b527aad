"""Test deliveries are changes, and so many of a report in a minute. Functions over a connection of
one transaction.
"""

from meterline.access import COMMAND, Action
from meterline.backends.control_store.access.changes import mind_rate
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.definitions import locked, tell
from meterline.backends.control_store.tables.access import changes
from meterline.limits import TRIALS_MAX, TRIALS_WINDOW_MS
from meterline.problem import not_found
from meterline.report import Report


async def note(
    connection: Connection, report: Report, now_ms: int, *, author: str = COMMAND
) -> None:
    """Record that one is about to be sent. Raises `Problem`: rate limited, or not found for a
    report that was deleted meanwhile.
    """
    if await locked(connection, report.id) is None:
        raise not_found("report", report.slug)
    which = (
        changes.c.namespace == report.namespace,
        changes.c.action == Action.TEST.value,
        changes.c.subject_id == report.id,
    )
    refusal = f"{TRIALS_MAX} test deliveries of a report in a minute are enough."
    await mind_rate(connection, which, TRIALS_MAX, TRIALS_WINDOW_MS, now_ms, refusal)
    await tell(connection, report, Action.TEST, now_ms, author)
