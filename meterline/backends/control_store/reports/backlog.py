"""`BacklogStore` over SQL: three statements, by partial indexes or one row an endpoint."""

from sqlalchemy import and_, case, func, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.run_rows import run_states
from meterline.backends.control_store.store import SqlStore, fetch_int, reads
from meterline.backends.control_store.tables.reports import report_endpoints, report_runs
from meterline.report import UNDECIDED, Backlog, RunState

_runs = report_runs.c


class SqlBacklogStore(SqlStore):
    """See `meterline.report.BacklogStore`."""

    @reads
    async def backlog(self, connection: Connection, now_ms: int, late_ms: int) -> Backlog:
        """See the port."""
        # A run asked for by hand is due once it was asked for, however old its window.
        late = and_(_runs.to_ms <= late_ms, _runs.asked_at_ms <= late_ms)
        due = select(func.count(), func.count(case((late, 1)))).where(
            run_states(UNDECIDED), _runs.to_ms <= now_ms
        )
        runs_due, runs_late = (await connection.execute(due)).one()
        left = func.sum(_runs.deliveries - _runs.delivered - _runs.failed)
        owed = select(left, func.min(_runs.decided_at_ms)).where(run_states((RunState.DELIVERING,)))
        deliveries, since_ms = (await connection.execute(owed)).one()
        out = select(func.count()).where(report_endpoints.c.probe_at_ms.is_not(None))
        return Backlog(
            int(runs_due),
            int(runs_late),
            int(deliveries or 0),
            None if since_ms is None else int(since_ms),
            await fetch_int(connection, out),
        )
