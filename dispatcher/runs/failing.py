"""Reports whose windows cannot be recorded as runs: each rests a while, and keeps no other one from
its runs.
"""

from collections.abc import Sequence
from typing import Final

import structlog

from meterline.limits import PLAN_FAILED_REST_MS
from meterline.ports import Unavailable
from meterline.report import Plan, Report

_log: Final = structlog.get_logger("dispatcher")


class Failing:
    """Since when each of them rests, by its id. A clock that was set back ends the rest."""

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    @property
    def count(self) -> int:
        """So many places of a page may be theirs."""
        return len(self._since_ms)

    def without_those_that_rest(self, plans: Sequence[Plan], now_ms: int) -> list[Plan]:
        """The plans to be tried now. What is not due any more is forgotten."""
        due = {plan.report.id for plan in plans}
        self._since_ms = {
            id_: since_ms
            for id_, since_ms in self._since_ms.items()
            if id_ in due and 0 <= now_ms - since_ms < PLAN_FAILED_REST_MS
        }
        return [plan for plan in plans if plan.report.id not in self._since_ms]

    def rests(self, report: Report, now_ms: int, error: Exception) -> None:
        """Tell that its windows could not be recorded, and why. It is tried again later."""
        self._since_ms[report.id] = now_ms
        of = {"namespace": report.namespace, "report": report.slug}
        if isinstance(error, Unavailable):
            _log.warning("plan", action="report_unavailable", reason=str(error), **of)
        else:
            _log.error("plan", action="report_failed", exc_info=error, **of)
