"""The status of a report at a glance: its last run, its last error, what it owes. With its port."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from meterline.delivery import NOTHING_OUTSTANDING, AttemptOutcome, Outstanding
from meterline.report.report import Report
from meterline.report.run import Run


@dataclass(frozen=True, slots=True)
class LastError:
    """The newest attempt of a report's deliveries that did not arrive."""

    delivery_id: str
    at_ms: int
    outcome: AttemptOutcome
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Where a report stands. `last_run` is that of the newest window whose run is not to come any
    more; `next_window` is the first that is to come. `owed` are deliveries that have not arrived
    and are not given up; the oldest of their runs was decided at `owed_since_ms`.
    """

    next_window: tuple[int, int]
    last_run: Run | None = None
    last_error: LastError | None = None
    owed: int = 0
    owed_since_ms: int | None = None
    outstanding: Outstanding = NOTHING_OUTSTANDING


class ReportStatusStore(Protocol):
    """Reads for a list of reports cost as many statements as for one."""

    async def statuses(self, reports: Sequence[Report]) -> dict[str, ReportStatus]:
        """The status of each live report, by id."""
        ...

    async def outstanding(self, report: Report, run_id: str) -> Outstanding:
        """What of a run is tried again, and how the report's endpoint is."""
        ...
