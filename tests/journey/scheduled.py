"""A product whose reports come due by themselves: by the minute while time goes as it does, by the
hour and the day on a clock that is moved while the product runs and while it is stopped.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from svix.webhooks import Webhook, WebhookVerificationError

from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS, parse_instant, rfc3339
from tests.journey.deadline import until
from tests.journey.moved_clock import ROOT, MovedClock
from tests.journey.receiver import Delivered, Mailbox, Receiver
from tests.journey.setups import SetUp

V3 = "/api/v3/metering"
METER: Final[dict[str, Any]] = {
    "key": "calls",
    "name": "Calls",
    "aggregation": "count",
    "event_type": "call",
}
LENGTH_MS: Final = {"1m": MINUTE_MS, "1h": HOUR_MS, "1d": DAY_MS}
GRACE_S: Final = 11  # the least: events may be under way for so long
MINUTES_AHEAD: Final = 5  # that events are sent for at once, so that no slow machine makes one late
LAST_MS: Final = 3_000  # of a minute, which pass by themselves
RUN_WITHIN_S: Final = 240.0
SIGNED_WITHIN_MS: Final = 5 * MINUTE_MS
MEDIA: Final = {"Content-Type": "application/cloudevents-batch+json"}
Counted = Counter[tuple[str, str, str]]
"""Calls by start of the window, its end and the subject."""


@dataclass(slots=True)
class MovedMailbox(Mailbox):
    """Of a receiver that goes by the moved clock: what is signed by another one is refused."""

    clock: MovedClock = field(kw_only=True)

    def verify(self, body: bytes, headers: dict[str, str]) -> None:  # type: ignore[override]
        """As svix does it, whose own clock is the machine's."""
        named = {name.lower(): value for name, value in headers.items()}
        at_s = int(named["svix-timestamp"])
        if abs(at_s * 1_000 - self.clock.now_ms()) > SIGNED_WITHIN_MS:
            raise WebhookVerificationError("signed at another time")
        at = datetime.fromtimestamp(at_s, UTC)
        if Webhook(self.secret).sign(named["svix-id"], at, body.decode()) not in named[
            "svix-signature"
        ].split(" "):
            raise WebhookVerificationError("signed with another secret")


@dataclass(slots=True)
class Scheduled:
    """One set-up on a moved clock, and what it did on the way. Nobody asks for a run."""

    setup: SetUp
    clock: MovedClock
    boxes: dict[str, MovedMailbox]
    made: dict[str, Any] = field(default_factory=dict)  # reports by interval
    runs: dict[str, list[Any]] = field(default_factory=dict)  # of each, in order of their windows
    used: dict[str, Counted] = field(default_factory=dict)  # in their windows, before they ended
    reached_ms: dict[str, int] = field(default_factory=dict)  # the last border that has passed
    missed: dict[str, int] = field(default_factory=dict)  # an instant at which nothing ran
    _sent: list[tuple[int, str]] = field(default_factory=list)
    _numbers: int = 0

    def go(self) -> None:
        """The way through minutes, hours and days."""
        for process in self.setup.processes.values():
            process.environment["PYTHONPATH"] = str(ROOT)
        self.setup.start()
        api = self.setup.control
        api.made(f"{V3}/meters", METER)
        first_ms = _floor(self.clock.now_ms(), MINUTE_MS)
        for place in range(MINUTES_AHEAD):
            self._use(first_ms + place * MINUTE_MS, MINUTE_MS)
        for interval, box in self.boxes.items():
            made = api.made(f"{V3}/reports", _report(interval, box))
            self.made[interval], box.secret = made, made["signing_secret"]
        self._minutes()
        self._hour()
        self._stopped_for_days()
        self._day()

    def _minutes(self) -> None:
        """A minute ends while the product runs, and one while it does not."""
        end_ms = self._present("1m")
        self._move_to(end_ms - LAST_MS)
        self._until_run("1m", end_ms)
        maker = self.setup.processes["up" if self.setup.name == "embedded" else "dispatch"]
        maker.kill()
        self.missed["1m"] = self.clock.now_ms()
        end_ms = _floor(self.missed["1m"], MINUTE_MS) + MINUTE_MS
        self._move_to(end_ms - LAST_MS)
        time.sleep(max(0, end_ms - self.clock.now_ms()) / 1_000)
        maker.start()
        self._until_run("1m", end_ms)
        self.setup.control.ask("POST", f"{V3}/reports/1m/pause")
        self._book("1m")

    def _hour(self) -> None:
        """The hour ends while the product runs."""
        end_ms = self._present("1h")
        self._use(end_ms - HOUR_MS, HOUR_MS)
        self._move_to(end_ms + HOUR_MS // 2)
        self._until_run("1h", end_ms)

    def _stopped_for_days(self) -> None:
        """Days and hours end while the product is stopped: all are made up for."""
        hour_ms, day_ms = self._present("1h"), self._present("1d")
        for start_ms in (hour_ms - HOUR_MS, hour_ms):
            self._use(start_ms, HOUR_MS)
        self._use(day_ms, DAY_MS)
        self.setup.kill()
        self.missed["1h"] = self.missed["1d"] = self.clock.now_ms()
        self._move_to(max(hour_ms, day_ms) + DAY_MS + HOUR_MS + HOUR_MS // 2)
        self.setup.start()
        self._until_run("1h", self._present("1h") - HOUR_MS)
        self._until_run("1d", self._present("1d") - DAY_MS)

    def _day(self) -> None:
        """The day ends while the product runs."""
        end_ms = self._present("1d")
        self._use(self._present("1h"), end_ms - self._present("1h"))
        self._move_to(end_ms + HOUR_MS // 2)
        self._until_run("1h", end_ms)
        self._until_run("1d", end_ms)
        for interval in ("1h", "1d"):
            self._book(interval)

    def _present(self, interval: str) -> int:
        """The end of the window that the clock is in."""
        return _floor(self.clock.now_ms(), LENGTH_MS[interval]) + LENGTH_MS[interval]

    def _move_to(self, instant_ms: int) -> None:
        self.clock.move(max(0, instant_ms - self.clock.now_ms()))

    def _use(self, from_ms: int, length_ms: int) -> None:
        """Send calls for a window, from its first to its last millisecond, as many as for none
        before.
        """
        self._numbers += 1
        many = {"acme": self._numbers + 1, "zeta": 2 * self._numbers + 7}
        calls = [
            (from_ms + (length_ms - 1) * place // (count - 1), subject)
            for subject, count in many.items()
            for place in range(count)
        ]
        events = [
            {
                "specversion": "1.0",
                "id": str(len(self._sent) + place),
                "source": "scheduled",
                "type": "call",
                "subject": subject,
                "time": rfc3339(at_ms),
            }
            for place, (at_ms, subject) in enumerate(calls)
        ]
        answer = self.setup.ingest.ask("POST", f"{V3}/events", events, MEDIA)
        assert answer.status == 202, answer.body
        self._sent += calls

    def _listed(self, interval: str) -> list[Any]:
        """The runs of a report, the oldest window first."""
        page = self.setup.control.get(f"{V3}/reports/{interval}/runs?page%5Bsize%5D=100").json
        return list(reversed(page["data"]))

    def _book(self, interval: str) -> None:
        """Keep the runs of a report, and how many calls were sent for each window and subject."""
        self.runs[interval] = self._listed(interval)
        length_ms, windows = LENGTH_MS[interval], {run["from"] for run in self.runs[interval]}
        self.used[interval] = Counter(
            (rfc3339(from_ms), rfc3339(from_ms + length_ms), subject)
            for at_ms, subject in self._sent
            if rfc3339(from_ms := _floor(at_ms, length_ms)) in windows
        )

    def _until_run(self, interval: str, end_ms: int) -> None:
        """Return when the window that ends then was run, and everything before it."""

        def ended() -> bool:
            runs = self._listed(interval)
            due = [run for run in runs if parse_instant(run["to"]) <= end_ms]
            return (
                bool(due)
                and parse_instant(due[-1]["to"]) == end_ms
                and all("ended_at" in run for run in due)
            )

        until(f"the run of {interval} until {rfc3339(end_ms)}", RUN_WITHIN_S, ended)
        self.reached_ms[interval] = end_ms


def told(delivered: Delivered) -> tuple[tuple[str, str, str], int]:
    """The window and the subject of a delivery, and how many calls it tells."""
    body = json.loads(delivered.body)
    (entry,) = body["usage"]
    asked = body["query"]
    from_, to = (rfc3339(parse_instant(asked[name])) for name in ("from", "to"))
    return (from_, to, asked["subject"]), entry["value"]


def moved_boxes(receiver: Receiver, name: str, clock: MovedClock) -> dict[str, MovedMailbox]:
    """A mailbox for each interval."""
    return {
        interval: receiver.with_box(
            f"{name}-{interval}", MovedMailbox(f"{receiver.url}/{name}-{interval}", clock=clock)
        )
        for interval in LENGTH_MS
    }


def _floor(instant_ms: int, length_ms: int) -> int:
    return instant_ms // length_ms * length_ms


def _report(interval: str, box: Mailbox) -> dict[str, Any]:
    return {
        "slug": interval,
        "meter_id_or_key": METER["key"],
        "type": "webhook",
        "schedule": {"interval": interval},
        "query": {},
        "endpoint": {"url": box.url},
        "grace_seconds": GRACE_S,
    }
