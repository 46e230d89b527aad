"""TrialStore over SQL: test deliveries are changes, and so many of a report in a minute."""

from meterline.access import COMMAND, Action
from meterline.backends.control_store.access.changes import wait_s
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.definitions import locked, tell
from meterline.backends.control_store.store import SqlStore, writes
from meterline.backends.control_store.tables.access import changes
from meterline.limits import TRIALS_MAX, TRIALS_WINDOW_MS
from meterline.problem import Problem, ProblemType, not_found
from meterline.report import Report


class SqlTrialStore(SqlStore):
    """See `trial_ports.TrialStore`."""

    @writes
    async def note_trial(
        self, connection: Connection, report: Report, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """See the port."""
        if await locked(connection, report.id) is None:
            raise not_found("report", report.slug)
        await _mind_rate(connection, report, now_ms)
        await tell(connection, report, Action.TEST, now_ms, author)


async def _mind_rate(connection: Connection, report: Report, now_ms: int) -> None:
    """Raise `Problem` where the report has had all that it may have; within the report's lock."""
    which = (
        changes.c.namespace == report.namespace,
        changes.c.action == Action.TEST.value,
        changes.c.subject_id == report.id,
    )
    seconds = await wait_s(connection, which, TRIALS_MAX, TRIALS_WINDOW_MS, now_ms)
    if not seconds:
        return
    detail = f"{TRIALS_MAX} test deliveries of a report in a minute are enough: wait {seconds} s."
    raise Problem(ProblemType.RATE_LIMITED, detail, retry_after_s=seconds)
