"""TrialStore over SQL: test deliveries are changes, and so many of a report in a minute."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.access import COMMAND, Action
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.reports.definitions import locked, tell
from meterline.backends.control_store.tables.access import changes
from meterline.limits import TRIALS_MAX, TRIALS_WINDOW_MS
from meterline.problem import Problem, ProblemType, not_found
from meterline.report import Report


class SqlTrialStore:
    """See `trial_ports.TrialStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note_trial(self, report: Report, now_ms: int, *, author: str = COMMAND) -> None:
        """See the port."""

        async def act(connection: AsyncConnection) -> None:
            if await locked(connection, report.id) is None:
                raise not_found("report", report.slug)
            await _mind_rate(connection, report, now_ms)
            await tell(connection, report, Action.TEST, now_ms, author)

        await self._database.write(act)


async def _mind_rate(connection: AsyncConnection, report: Report, now_ms: int) -> None:
    """Raise `Problem` where the report has had all that it may have; within the report's lock."""
    nth_newest = (
        select(changes.c.at_ms)
        .where(
            changes.c.namespace == report.namespace,
            changes.c.at_ms > now_ms - TRIALS_WINDOW_MS,
            changes.c.action == Action.TEST.value,
            changes.c.subject_id == report.id,
        )
        .order_by(changes.c.at_ms.desc())
        .offset(TRIALS_MAX - 1)
        .limit(1)
    )
    at_ms = (await connection.execute(nth_newest)).scalar_one_or_none()
    if at_ms is None:
        return
    wait_s = max(1, -(-(int(at_ms) + TRIALS_WINDOW_MS - now_ms) // 1_000))
    detail = f"{TRIALS_MAX} test deliveries of a report in a minute are enough: wait {wait_s} s."
    raise Problem(ProblemType.RATE_LIMITED, detail, retry_after_s=wait_s)
