"""The ports of test deliveries: one signed message without usage, sent at once, kept nowhere."""

from dataclasses import dataclass
from typing import Protocol

from meterline.access import COMMAND
from meterline.delivery import Answer
from meterline.meter import Meter
from meterline.report.report import Report


@dataclass(frozen=True, slots=True)
class SentTest:
    """A test delivery: its id in the headers, its exact bytes, and what came of it."""

    delivery_id: str
    body: bytes
    at_ms: int
    answer: Answer
    verdict: str  # in words: what is wrong, and what to do about it


class ReportTester(Protocol):
    """Sends test deliveries."""

    async def try_out(self, report: Report, meter: Meter, delivery_id: str) -> SentTest:
        """Send one now, signed as any delivery of the report. Never raises for what the receiver or
        the network does.
        """
        ...


class ReportTestStore(Protocol):
    """Remembers who sent test deliveries, so that nobody sends many."""

    async def record_test(self, report: Report, now_ms: int, *, author: str = COMMAND) -> None:
        """Record that one is about to be sent. Raises `Problem`: rate limited, or not found for a
        report that was deleted meanwhile.
        """
        ...
