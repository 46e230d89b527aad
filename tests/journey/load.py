"""A load that goes on while processes are ended: events, questions, and runs of reports.

Each event is in the minute that is used now. A minute in which all is accepted ends, and its run is
asked for: what is to be delivered of it is known to the event. Reports take turns. What a killed
dispatcher had in hand of one is free after two minutes: so there are more than may be held then.
"""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from meterline.window import MINUTE_MS, parse_instant, rfc3339
from tests.journey.client import Server
from tests.journey.composed import Composed
from tests.journey.deadline import until
from tests.journey.receiver import Mailbox

V3: Final = "/api/v3/metering"
JSON: Final = {"Content-Type": "application/json"}
BATCH: Final = {"Content-Type": "application/cloudevents-batch+json"}
METER: Final = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}
REPORTS: Final = 6
FIRST_MS: Final = parse_instant("2026-01-31T00:00:00Z")
SENDERS: Final = 3
EVENTS_EACH: Final = 5  # of a request
PAUSE_S: Final = 0.05
RUN_EVERY_S: Final = 1.5
TAKES_S: Final = 0.5  # a delivery: some are under way at most times
WITHIN_S: Final = 180.0
NEVER: Final = 1_000_000


@dataclass(slots=True)
class SlowMailbox(Mailbox):
    """Of a receiver that takes its time."""

    under_way: set[int] = field(default_factory=set)  # threads

    def verify(self, body: bytes, headers: Any) -> None:
        """See `Mailbox.verify`."""
        self.under_way.add(threading.get_ident())
        try:
            time.sleep(TAKES_S)
            Mailbox.verify(self, body, headers)
        finally:
            self.under_way.discard(threading.get_ident())


@dataclass(slots=True)
class Load:
    """Senders that send each event until it is accepted, and who asks for usage and for runs."""

    composed: Composed
    boxes: Mapping[str, SlowMailbox]  # by report
    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    cut: list[str] = field(default_factory=list)  # connections of the proxy itself
    accepted: list[int] = field(default_factory=lambda: [0] * SENDERS)
    of_minute: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    runs: dict[int, str] = field(default_factory=dict)  # their paths, by minute
    changes: threading.Lock = field(default_factory=threading.Lock)  # held: nothing is changed
    _minute: int = 0
    _at: list[int] = field(default_factory=lambda: [0] * SENDERS)  # the minute of what is sent
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def on(self) -> Iterator["Load"]:
        """It goes on for the length of the block, with a meter and reports of its own."""
        self.composed.control.made(f"{V3}/meters", METER)
        for slug, box in self.boxes.items():
            report = {
                "slug": slug, "meter_id_or_key": METER["key"], "type": "webhook",
                "schedule": {"interval": "1d"}, "endpoint": {"url": self.composed.reached(box.url)},
            }  # fmt: skip
            box.secret = self.composed.control.made(f"{V3}/reports", report)["signing_secret"]
        threads = [threading.Thread(target=self._send, args=(one,)) for one in range(SENDERS)]
        threads += [threading.Thread(target=one) for one in (self._ask, self._run)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            for thread in threads:
                thread.join(WITHIN_S)

    @property
    def arrived(self) -> int:
        """How often something was delivered."""
        return sum(len(box.delivered) for box in self.boxes.values())

    @property
    def under_way(self) -> bool:
        """Whether something is being delivered."""
        return any(box.under_way for box in self.boxes.values())

    def more(self, *, deliveries: bool = True) -> None:
        """Return when every sender has sent some more, somebody was answered, and something was
        delivered, if that is asked for.
        """
        enough = [number + 10 * EVENTS_EACH for number in self.accepted]
        answered, arrived = self.statuses["usage"][200], self.arrived

        def are_sent() -> bool:
            went_on = all(a >= b for a, b in zip(self.accepted, enough, strict=True))
            brought = not deliveries or self.arrived > arrived
            return went_on and brought and self.statuses["usage"][200] > answered

        until("the load goes on", WITHIN_S, are_sent)

    def _send(self, sender: int) -> None:
        """Each batch again until it is accepted."""
        while not self._ends.wait(PAUSE_S):
            self._at[sender] = minute = self._minute
            first = self.accepted[sender]
            batch = [event(sender, n, minute) for n in range(first, first + EVENTS_EACH)]
            while self._asked("events", self.composed.ingest, f"{V3}/events", batch)[0] != 202:
                pass
            self.accepted[sender] += EVENTS_EACH
            self.of_minute[minute][f"s{sender}"] += EVENTS_EACH
        self._at[sender] = NEVER

    def _ask(self) -> None:
        """Usage, of any moment."""
        while not self._ends.wait(2 * PAUSE_S):
            self._asked("usage", self.composed.control, f"{V3}/meters/calls/query", {})

    def _run(self) -> None:
        """A run of each minute that is over, once all of it was accepted."""
        while not self._ends.wait(RUN_EVERY_S):
            minute = self._minute
            self._minute = minute + 1
            until("the minute is over", WITHIN_S, partial(self._is_over, minute))
            start_ms = FIRST_MS + minute * MINUTE_MS
            window = {"from": rfc3339(start_ms), "to": rfc3339(start_ms + MINUTE_MS)}
            path = f"{V3}/reports/{[*self.boxes][minute % len(self.boxes)]}/runs"
            with self.changes:
                status, run = self._asked("runs", self.composed.control, path, window)
            if status == 201:
                self.runs[minute] = f"{path}/{run['id']}"

    def _is_over(self, minute: int) -> bool:
        """Whether nobody sends events of a minute, nor will."""
        return min(self._at) > minute

    def _asked(self, what: str, server: Server, path: str, body: object) -> tuple[int, Any]:
        """Its status and its document; 0 where there was no answer."""
        headers = BATCH if isinstance(body, list) else JSON
        try:
            answer = server.ask("POST", path, json.dumps(body).encode(), headers)
        except OSError as error:
            self.cut.append(f"{what}: {error!r}")
            return 0, None
        self.statuses[what][answer.status] += 1
        return answer.status, answer.json if answer.status == 201 else None


def event(sender: int, number: int, minute: int) -> dict[str, Any]:
    """One of a sender's events."""
    return {
        "specversion": "1.0", "id": f"{sender}-{number}", "source": "turn", "type": "call",
        "subject": f"s{sender}", "time": rfc3339(FIRST_MS + minute * MINUTE_MS + number % 60_000),
    }  # fmt: skip
