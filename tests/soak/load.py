"""What a product is loaded with: events at a rate, meters that come and go, a report a minute."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import Any, Final

from tests.beside import beside
from tests.faults.day_delivery import Delivery, account_of
from tests.faults.day_events import METERS, Day
from tests.journey.client import Server
from tests.journey.receiver import Mailbox, Receiver
from tests.journey.setups import SetUp, started

V3: Final = "/api/v3/metering"
AHEAD: Final = 100_000  # events that are not counted yet, while the top rate is looked for
TOP_EVENTS: Final = 100_000_000  # more than there is time for
TOP_WARM_S: Final = 20.0
TOP_S: Final = 40.0
LOOK_S: Final = 0.5
CHANGE_EVERY_S: Final = 60.0
TAKEN_ON_WITHIN_S: Final = 300.0  # a slice ends by then, and the next one counts by it
GRACE_S: Final = 11  # the least: events may be under way for so long


def make_meters(api: Server) -> None:
    """Those that the generator knows the totals of."""
    for definition in METERS:
        api.made(f"{V3}/meters", definition)


def make_report(api: Server, receiver: Receiver) -> Mailbox:
    """Every minute, to every subject; where it comes in."""
    box = receiver.mailbox("soak")
    definition = {
        "slug": "soak",
        "meter_id_or_key": "amounts",
        "type": "webhook",
        "schedule": {"interval": "1m"},
        "query": {},
        "endpoint": {"url": box.url},
        "grace_seconds": GRACE_S,
    }
    box.secret = api.made(f"{V3}/reports", definition)["signing_secret"]
    return box


def top_rate(setup: SetUp, seed: int, batch: int) -> float:
    """Events a second that a new installation takes and counts, however many are sent; it is gone
    afterwards.
    """
    with started(setup):
        make_meters(setup.control)
        day = Day(TOP_EVENTS, seed, int(time.time() * 1_000))
        delivery = Delivery(day, [setup.ingest.url], ahead=AHEAD, batch=batch)
        with delivery.running():
            followed(setup.control, delivery, TOP_WARM_S)
            before, began_s = delivery.counted, time.monotonic()
            followed(setup.control, delivery, TOP_S)
            return (delivery.counted - before) / (time.monotonic() - began_s)


def followed(api: Server, delivery: Delivery, seconds: float) -> None:
    """Follow it for so long."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        assert not delivery.failure, delivery.failure
        follow(api, delivery)
        time.sleep(LOOK_S)


def follow(api: Server, delivery: Delivery) -> bool:
    """Note how many events are counted; whether these are all of the log."""
    counted, caught_up = account_of(api)
    delivery.counted = max(counted, delivery.counted)
    return caught_up


@dataclass(slots=True)
class Changes:
    """A meter over the same events is made, and deleted a minute after open slices took it on,
    again and again: sealed ones are filled in, until it goes.
    """

    api: Server
    made: int = 0
    taken_on_s: list[float] = field(default_factory=list)  # how long that took
    failures: list[str] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)

    def going(self) -> AbstractContextManager[None]:
        """During the block."""
        return beside("changes", self._run, self._ends.set)

    def _run(self) -> None:
        meter: dict[str, Any] | None = None
        while not self._ends.wait(CHANGE_EVERY_S):
            meter = self._tried(self._make if meter is None else partial(self._delete, meter))
        if meter is not None:  # else all of the run is filled in once more before it may end
            self._tried(partial(self._delete, meter))

    def _tried(self, change: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        try:
            return change()
        except (AssertionError, OSError, HTTPException) as error:
            self.failures.append(repr(error))
            return None

    def _make(self) -> dict[str, Any]:
        meter: dict[str, Any] = self.api.made(f"{V3}/meters", self._definition())
        self.made += 1
        began_s = time.monotonic()
        while not self._is_taken_on():
            took_s = time.monotonic() - began_s
            assert took_s < TAKEN_ON_WITHIN_S, (
                f"{meter['key']} is not taken on after {took_s:.0f} s"
            )
            if self._ends.wait(LOOK_S):
                return meter
        self.taken_on_s.append(time.monotonic() - began_s)
        return meter

    def _is_taken_on(self) -> bool:
        """Whether all partitions are counted by the newest meter."""
        shown: Any = self.api.get(f"{V3}/status").json
        return all(it["complete_until"] is not None for it in shown["partitions"])

    def _delete(self, meter: dict[str, Any]) -> None:
        answer = self.api.ask("DELETE", f"{V3}/meters/{meter['id']}")
        assert answer.status == 204, f"{answer.status} {answer.body!r}"

    def _definition(self) -> dict[str, object]:
        key = f"passing_{self.made}"
        return {"key": key, "name": key, "aggregation": "count", "event_type": "usage"}
