"""Reports whose windows cannot be recorded as runs, and those that cannot be read: each rests a
while, and keeps no other one from its runs.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import structlog

from meterline.limits import PLAN_FAILED_REST_MS
from meterline.ports import Unavailable
from meterline.report import DuePlans, Plan, Report, Unreadable

_K = TypeVar("_K", str, tuple[str, str])
_log: Final = structlog.get_logger("dispatcher")


class Unread:
    """When the log last said of each report that it cannot be read, and why; again after a rest. A
    clock that was set back ends the rest.
    """

    def __init__(self) -> None:
        self._since_ms: dict[tuple[str, str], int] = {}

    @property
    def count(self) -> int:
        """So many are known of now."""
        return len(self._since_ms)

    def tell(self, unreadable: Sequence[Unreadable], now_ms: int) -> None:
        """Tell of those of which it was not told lately."""
        self._since_ms = _resting(self._since_ms, now_ms)
        for one in unreadable:
            if (one.report_id, one.reason) not in self._since_ms:
                self._since_ms[one.report_id, one.reason] = now_ms
                of = {"namespace": one.namespace, "report": one.report}
                _log.error("plan", action="report_unreadable", reason=one.reason, **of)


class Failing:
    """Since when each of them rests, by its id. A clock that was set back ends the rest."""

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}
        self._unread = Unread()

    @property
    def count(self) -> int:
        """So many places of a page may be theirs."""
        return len(self._since_ms) + self._unread.count

    def without_those_that_rest(self, due: DuePlans, now_ms: int) -> list[Plan]:
        """The plans to be tried now. What is not due any more is forgotten."""
        self._unread.tell(due.unreadable, now_ms)
        ids = {plan.report.id for plan in due.found}
        resting = _resting(self._since_ms, now_ms)
        self._since_ms = {id_: since_ms for id_, since_ms in resting.items() if id_ in ids}
        return [plan for plan in due.found if plan.report.id not in self._since_ms]

    def rests(self, report: Report, now_ms: int, error: Exception) -> None:
        """Tell that its windows could not be recorded, and why. It is tried again later."""
        self._since_ms[report.id] = now_ms
        of = {"namespace": report.namespace, "report": report.slug}
        if isinstance(error, Unavailable):
            _log.warning("plan", action="report_unavailable", reason=str(error), **of)
        else:
            _log.error("plan", action="report_failed", exc_info=error, **of)


def _resting(since_ms: dict[_K, int], now_ms: int) -> dict[_K, int]:
    return {
        id_: at_ms for id_, at_ms in since_ms.items() if 0 <= now_ms - at_ms < PLAN_FAILED_REST_MS
    }
