"""Why deliveries wait: the state of their endpoint, and the sentence that explains it.

The API shows both as `receiver`, of a report and of a run.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from meterline import limits
from meterline.delivery.endpoint.health import UNOBSERVED, Health
from meterline.window import DAY_MS, rfc3339


class Standing(StrEnum):
    """How an endpoint stands."""

    WELL = "well"  # it accepts deliveries; one that fails is retried on its own schedule
    DOWN = "down"  # one delivery at a time is sent to test it, the others wait
    FAILING = "failing"  # it responds, but accepted nothing for a day, or never
    UNTRIED = "untried"  # nothing was sent there yet


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Deliveries that failed and are tried again (at most `RETRYING_COUNTED_MAX` are counted), and
    the health of the endpoint that they go to.
    """

    retrying: int = 0
    health: Health = UNOBSERVED

    @property
    def standing(self) -> Standing:
        """How the endpoint stands."""
        health = self.health
        if health.out:
            return Standing.DOWN
        if health.failing_since_ms is None:
            return Standing.UNTRIED if health.last_success_at_ms is None else Standing.WELL
        taken_ms, failed_ms = health.last_success_at_ms, health.last_failure_at_ms
        if taken_ms is None or failed_ms is None or failed_ms - taken_ms > DAY_MS:
            return Standing.FAILING
        return Standing.WELL

    def message(self) -> str:
        """What there is to say; "" where nothing is outstanding."""
        health, many = self.health, _many(self.retrying)
        if health.probe_at_ms is not None:
            since = "" if health.failing_since_ms is None else _since(health.failing_since_ms)
            return (
                f"The receiver is down{since} ({health.reason}). One delivery at a time tests it,"
                f" the next not before {rfc3339(health.probe_at_ms)}. The others wait and use no"
                " attempt."
            )
        if not self.retrying:
            return ""
        if self.standing is Standing.FAILING and health.failing_since_ms is not None:
            since = _since(health.failing_since_ms)
            return f"{many} retried. The receiver accepted nothing{since} ({health.reason})."
        last = f" ({health.reason})" if health.reason else ""
        well = " The receiver accepts other deliveries." if self.standing is Standing.WELL else ""
        return f"{many} retried without delaying others{last}.{well}"


NOTHING_OUTSTANDING: Final = Outstanding()


def _since(at_ms: int) -> str:
    return f" since {rfc3339(at_ms)}"


def _many(count: int) -> str:
    if count >= limits.RETRYING_COUNTED_MAX:
        return f"{count} deliveries or more are"
    return "1 delivery is" if count == 1 else f"{count} deliveries are"
