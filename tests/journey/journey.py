"""The way of a year's flights through one set-up, step by step; what was seen on it is kept."""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from demo.flights import METERS, TYPE
from tests.journey.client import Answer, Server
from tests.journey.deadline import until
from tests.journey.later import LATER
from tests.journey.oracle import LATE_METER
from tests.journey.processes import run_command
from tests.journey.questions import AGAIN, JANUARY, QUESTIONS, ROUTE, Question
from tests.journey.receiver import Delivered, Mailbox
from tests.journey.setups import SetUp

SLUG = "january"
FLIGHTS_AGAIN = 112_000  # January, and October to December: they come first in the table
AGAIN_BY = ("--batch", "1777", "--in-flight", "3", "--gzip")
RUN_WITHIN_S = 180.0
COUNTED_WITHIN_S = 180.0
QUESTIONS_AT_ONCE = 4
METERS_PATH = "/api/v3/metering/meters"
# How far everything is differs from moment to moment; all else must not.
COMPLETE_UNTIL = re.compile(rb'"complete_until":(?:null|"[^"]*"),')


def told(answer: Answer) -> bytes:
    """The body without the one member that says when it was asked."""
    return COMPLETE_UNTIL.sub(b"", answer.body, count=1)


@dataclass(slots=True)
class Journey:
    """One set-up, and what it said at each step."""

    setup: SetUp
    mailbox: Mailbox
    account_first: dict[str, int] = field(default_factory=dict)
    account_again: dict[str, int] = field(default_factory=dict)
    answers: dict[Question, bytes] = field(default_factory=dict)
    answers_again: dict[Question, bytes] = field(default_factory=dict)
    run: Any = None

    @property
    def api(self) -> Server:
        """The server that answers questions."""
        return self.setup.control

    def go(self, flights: Path) -> None:
        """All steps. Wrong numbers are for the tests to find; here every step succeeds."""
        make_meters(self.api, METERS)
        for definition in LATER:
            self.api.made(METERS_PATH, definition)
        make_report(self.api, self.mailbox)
        send_file(self.setup, flights)
        self.account_first = self.setup.status["account"]
        self.run = request_run(self.api)
        self.answers = self._asked([q for q in QUESTIONS if q.asked.meter != LATE_METER["key"]])
        send_file(self.setup, self._some_of(flights), *AGAIN_BY)
        self.account_again = self.setup.status["account"]
        self.answers_again = self._asked([q for q in AGAIN if q in self.answers])
        make_meters(self.api, [LATE_METER])
        until("a meter is filled in", COUNTED_WITHIN_S, lambda: self.setup.status["caught_up"])
        self.answers |= self._asked([q for q in QUESTIONS if q.asked.meter == LATE_METER["key"]])
        self.run = finished_run(self.api, self.run["id"])

    def _some_of(self, flights: Path) -> Path:
        """A file of some flights, the latest among them: all again would show no more."""
        some = self.setup.folder / "again.ndjson"
        with flights.open("rb") as lines:
            some.write_bytes(b"".join(islice(lines, FLIGHTS_AGAIN)))
        return some

    def _asked(self, questions: Sequence[Question]) -> dict[Question, bytes]:
        with ThreadPoolExecutor(QUESTIONS_AT_ONCE) as threads:
            answers = threads.map(lambda question: told(question.put_to(self.api)), questions)
            return dict(zip(questions, answers, strict=True))


def make_meters(api: Server, definitions: Sequence[Any]) -> None:
    """Define meters of flights."""
    for definition in definitions:
        api.made(METERS_PATH, {**definition, "event_type": TYPE})


def make_report(api: Server, mailbox: Mailbox) -> None:
    """A report of miles flown by route; the mailbox learns its secret."""
    report = api.made(
        "/api/v1/reports",
        {
            "slug": SLUG,
            "meterIdOrSlug": "distance",
            "type": "webhook",
            "schedule": {"interval": "1d", "startAt": "2013-01-01T00:00:00.000Z"},
            "query": {"groupBy": ["origin", "dest"]},
            "endpoint": {"url": mailbox.url},
        },
    )
    mailbox.secret = report["endpoint"]["signingSecret"]


def send_file(setup: SetUp, flights: Path, *arguments: str) -> None:
    """Send flights as a user does, and wait until all of them count."""
    where = ("--to", setup.ingest.url, "--status", setup.control.url)
    run_command(["send", str(flights), *where, "--wait", *arguments], setup.folder, {})


def request_run(api: Server, window: tuple[str, str] = JANUARY) -> Any:
    """Ask for a window by hand; the run."""
    start, end = window
    return api.made(f"/api/v1/reports/{SLUG}/runs", {"from": start, "to": end})


def finished_run(api: Server, run_id: str) -> Any:
    """The run with its deliveries once all is done."""

    def done() -> Any:
        run = api.get(f"/api/v1/reports/{SLUG}/runs/{run_id}").json
        return run if run["endedAt"] else None

    return until("the run ends", RUN_WITHIN_S, done)


def reported(deliveries: Sequence[Delivered]) -> list[tuple[str, ...]]:
    """Subject, groups and value of each row that was delivered, in order."""
    rows = []
    for one in deliveries:
        for entry in json.loads(one.body, parse_int=str, parse_float=str)["usage"]:
            groups = (str(entry["groupBy"][key]) for key in ROUTE)
            rows.append((str(entry["subject"]), *groups, str(entry["value"])))
    return sorted(rows)
