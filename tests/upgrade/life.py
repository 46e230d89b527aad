"""The life that is recorded: a little of whatever an installation can hold.

It speaks to the API alone, so any build can live it. The receiver is named by a host that is
nowhere: deliveries go through `webhook_proxy`, which is the receiver itself. So a recording finds
its receiver at whatever port it has.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from svix.webhooks import WebhookVerificationError

from meterline.window import HOUR_MS, rfc3339
from tests.faults.labels import SLICE_VARIABLE
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.receiver import Mailbox, Receiver
from tests.upgrade.answers import Asked, ask

V3: Final = "/api/v3/metering"
HOST: Final = "http://receiver.meterline.test"
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        SLICE_VARIABLE: "100",
        "METERLINE_PARTITIONS": "4",
        "METERLINE_PRODUCE_DEADLINE_MS": "1000",
        "METERLINE_CLOCK_SKEW_MS": "0",
        "METERLINE_GRACE_MS": "1000",
        "METERLINE_FLUSH_INTERVAL_MS": "200",
        # a broker's clock is that of the test: what was recorded years ago is still a duplicate
        "METERLINE_HORIZON_DAYS": "3660",
    }
)
"""Those of a recording, and of every build that goes on with it."""

AGGREGATIONS: Final = ("sum", "count", "unique_count", "avg", "min", "max", "latest")
PROPERTIES: Final[Mapping[str, str]] = {"count": "", "unique_count": "$.user"}
REVISED: Final = "revised"
EVENTS: Final = 1_200
AGAIN: Final = 50
BATCH: Final = 50
SUBJECTS: Final = 5
DAYS: Final = ("2026-01-30", "2026-01-31", "2026-02-01")
NEXT_DAY: Final = "2026-02-02"
SPAN: Final = {"from": f"{DAYS[0]}T00:00:00Z", "to": f"{NEXT_DAY}T00:00:00Z"}
NEVER: Final = "2090-01-01T00:00:00Z"  # nothing comes due by itself
REPORTS: Final = ("daily", "large")
WITHIN_S: Final = 120.0
BLOCKS_S: Final = 4.0  # blocks are made beside counting, every 0.3 seconds in a recording
MEDIA: Final = {"Content-Type": "application/cloudevents-batch+json"}
PAGE: Final = "page%5Bsize%5D=100"
# Members that change while nothing happens, or when a delivery that was due is sent.
MOVING: Final = ("complete_until", "status", "last_run", "state", "delivered", "ended_at")


@dataclass(slots=True)
class ClosingMailbox(Mailbox):
    """A mailbox that may be closed: whatever comes is answered 400 then."""

    closed: bool = False

    def verify(self, body: bytes, headers: Mapping[str, str]) -> None:
        if self.closed:
            raise WebhookVerificationError("closed")
        Mailbox.verify(self, body, headers)


def boxes(receiver: Receiver) -> dict[str, ClosingMailbox]:
    """A mailbox for each report, behind the proxy."""
    found = {slug: ClosingMailbox(f"{HOST}/{slug}") for slug in REPORTS}
    for box in found.values():
        receiver.boxes[box.url] = box  # a proxy is asked for whole URLs
    return found


def event(number: int, day: str = "", name: str = "") -> dict[str, Any]:
    """An event of the recording by its number; or of another day, under another name."""
    return {
        "specversion": "1.0",
        "id": f"{name}{number}",
        "source": "recorded",
        "type": "request",
        "subject": f"customer-{number % SUBJECTS}",
        "time": f"{day or DAYS[number % 3]}T{number % 24:02d}:{number % 60:02d}:30Z",
        "data": {
            "value": "none" if number % 50 == 49 else f"{number}.25",
            "other": number,
            "region": ("eu", "us")[number % 2],
            "user": f"user-{number % 17}",
        },
    }


def send(server: Server, events: Sequence[Mapping[str, Any]]) -> None:
    """Send events, a batch after another."""
    for at in range(0, len(events), BATCH):
        batch = json.dumps(events[at : at + BATCH]).encode()
        answer = server.ask("POST", f"{V3}/events", batch, MEDIA)
        assert answer.status == 202, answer.body


def counted(server: Server, account: Mapping[str, int]) -> dict[str, int]:
    """The account, once everything is counted and it says so much at least."""
    seen: list[Any] = [None]

    def look() -> dict[str, int] | None:
        status = seen[0] = server.get(f"{V3}/status").json
        there: dict[str, int] = status["account"] or {}
        enough = all(there.get(name, 0) >= many for name, many in account.items())
        return there if status["caught_up"] and not status["backfilling"] and enough else None

    try:
        return until(f"{account} are counted", WITHIN_S, look)
    except AssertionError as error:
        error.add_note(f"the last status: {seen[0]}")
        raise


def deliveries(server: Server) -> list[dict[str, Any]]:
    """All of them."""
    listed: list[dict[str, Any]] = server.get(f"{V3}/deliveries?{PAGE}").json["data"]
    return listed


def _arrived(box: Mailbox) -> bool:
    return bool(box.delivered)


@dataclass(slots=True)
class Life:
    """What an installation is told, from its first meter on."""

    server: Server
    boxes: Mapping[str, ClosingMailbox]
    begin_ms: int
    events: list[dict[str, Any]] = field(default_factory=list)
    account: dict[str, int] = field(default_factory=dict)

    def live(self) -> None:
        """Everything, up to a run whose deliveries nobody takes."""
        self._define()
        self.events = [event(number) for number in range(EVENTS)]
        send(self.server, self.events)
        send(self.server, self.events[:AGAIN])
        other = event(7)
        send(self.server, [other | {"data": other["data"] | {"value": "-1"}}])
        self.account = counted(self.server, {"new": EVENTS, "duplicate": AGAIN, "conflict": 1})
        changed = self.server.ask("PUT", f"{V3}/meters/{REVISED}", {"value_property": "$.other"})
        assert changed.status == 200, changed.body
        counted(self.server, self.account)
        for slug in REPORTS:
            self._run(slug, 0)
            until(f"{slug} arrives", WITHIN_S, partial(_arrived, self.boxes[slug]))
        self._ended("large")
        self._ended("daily")
        paused = self.server.ask("POST", f"{V3}/reports/large/pause")
        assert paused.status == 200, paused.body
        time.sleep(BLOCKS_S)
        self._leave_due()

    def _define(self) -> None:
        for key in (*AGGREGATIONS, REVISED):
            aggregation = "sum" if key == REVISED else key
            meter = {
                "key": key,
                "name": key.capitalize(),
                "aggregation": aggregation,
                "event_type": "request",
                "dimensions": {"region": "$.region"},
            }
            if path := PROPERTIES.get(key, "$.value"):
                meter["value_property"] = path
            self.server.made(f"{V3}/meters", meter)
        self.server.made(f"{V3}/subjects", {"key": "customer-1", "name": "The first one"})
        reader = {"name": "Dashboards", "scopes": ["usage:read"]}
        self.server.made(f"{V3}/api-keys", reader)
        for slug, more in (
            ("daily", {"query": {"group_by_dimensions": ["region"]}}),
            ("large", {"filter": {"usage": {"$gt": "100"}}, "revisions": "send"}),
        ):
            report = {
                "slug": slug,
                "meter_id_or_key": "sum",
                "type": "webhook",
                "schedule": {"interval": "1d", "start_at": NEVER},
                "endpoint": {"url": self.boxes[slug].url},
                **more,
            }
            made = self.server.made(f"{V3}/reports", report)
            self.boxes[slug].secret = made["signing_secret"]

    def _run(self, slug: str, day: int) -> None:
        ends = (*DAYS, NEXT_DAY)[day : day + 2]
        window = {name: f"{at}T00:00:00Z" for name, at in zip(("from", "to"), ends, strict=True)}
        self.server.made(f"{V3}/reports/{slug}/runs", window)

    def _ended(self, slug: str) -> None:
        def look() -> bool:
            runs = self.server.get(f"{V3}/reports/{slug}/runs?{PAGE}").json["data"]
            return all("ended_at" in run for run in runs)

        until(f"the run of {slug} ends", WITHIN_S, look)

    def _leave_due(self) -> None:
        """A run whose deliveries nobody takes."""
        before = len(deliveries(self.server))
        self.boxes["daily"].closed = True
        self._run("daily", 1)

        def look() -> bool:
            there = deliveries(self.server)
            tried = any(one["attempt_count"] and one["state"] != "delivered" for one in there)
            return len(there) == before + SUBJECTS and tried

        until("deliveries are due", WITHIN_S, look)

    def answers(self) -> list[Asked]:
        """Questions of all kinds, with their answers."""
        return [*self._usage(), *self._lists(), *self._reports()]

    def _usage(self) -> list[Asked]:
        bodies: list[tuple[str, dict[str, Any]]] = []
        for key in (*AGGREGATIONS, REVISED):
            bodies += [
                (key, SPAN | {"group_by_dimensions": ["subject"]}),
                (key, SPAN | {"granularity": "PT1H", "group_by_dimensions": ["region"]}),
                (key, SPAN | {"granularity": "P1D", "time_zone": "America/New_York"}),
            ]
        cut = {"from": f"{DAYS[0]}T05:05:10.500Z", "to": f"{DAYS[1]}T07:10:45Z"}
        only = {"filters": {"dimensions": {"region": {"eq": "eu"}}}}
        bodies += [("sum", cut), ("unique_count", cut), ("avg", SPAN | only)]
        asked = [
            ask(self.server, "POST", f"{V3}/meters/{key}/query", body, MOVING, lasts=True)
            for key, body in bodies
        ]
        span = f"from={SPAN['from']}&to={SPAN['to']}"
        paths = (
            f"/api/v1/meters/avg/query?{span}&windowSize=DAY&groupBy=region",
            f"{V3}/meters/sum/events?{span}&{PAGE}",
            f"{V3}/meters/sum/subjects?{span}&{PAGE}",
            f"{V3}/meters/sum/dimensions/region/values?{span}&{PAGE}",
        )
        more = [ask(self.server, "GET", path, without=MOVING, lasts=True) for path in paths]
        return [*asked, *more]

    def _lists(self) -> list[Asked]:
        hours = (self.begin_ms // HOUR_MS, self.begin_ms // HOUR_MS + 2)
        span = "from={}&to={}".format(*(rfc3339(hour * HOUR_MS) for hour in hours))
        paths = [
            *(f"{name}?{PAGE}" for name in ("meters", "events", "events/subjects", "refusals")),
            *(f"{name}?{PAGE}" for name in ("subjects", "api-keys", "changes")),
            f"meters/{REVISED}/revisions?{PAGE}",
            f"meters/sum/rejected?{PAGE}",
            f"accounts?{span}",
        ]
        return [ask(self.server, "GET", f"{V3}/{path}", without=("pending",)) for path in paths]

    def _reports(self) -> list[Asked]:
        moving = [name for name in MOVING if name != "state"]
        asked = [ask(self.server, "GET", f"{V3}/reports?{PAGE}", without=moving)]
        paths = [f"reports/{slug}/runs?{PAGE}" for slug in REPORTS]
        asked += [ask(self.server, "GET", f"{V3}/{path}", without=MOVING) for path in paths]
        for one in deliveries(self.server):
            path = f"{V3}/deliveries/{one['id']}/body"
            asked.append(ask(self.server, "GET", path, lasts=True))
        return asked
