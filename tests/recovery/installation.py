"""An installation that counts flights: what it is told, and what it must answer."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from demo.flights import METERS
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.journey import (
    QUESTIONS_AT_ONCE,
    SLUG,
    finished_run,
    make_meters,
    make_report,
    reported,
    request_run,
    send_file,
)
from tests.journey.oracle import ALL_FLIGHTS, LATE_METER, Asked, expected, table
from tests.journey.processes import run_command
from tests.journey.questions import ALL, QUESTIONS, ROUTE, Question
from tests.journey.receiver import Delivered, Mailbox
from tests.journey.setups import SetUp, stopped
from tests.services.local import LocalService

V3: Final = "/api/v3/metering"
COUNTED_WITHIN_S: Final = 900.0  # on a machine that does something else too


@dataclass(frozen=True, slots=True)
class Billed:
    """A run of the report: its document, and what its receiver took."""

    run: Any
    deliveries: list[Delivered]

    @property
    def ids(self) -> list[str]:
        """The webhook ids, by subject."""
        return [one.id for one in self.deliveries]

    @property
    def usage(self) -> list[Any]:
        """The figures, by subject."""
        return [json.loads(one.body)["usage"] for one in self.deliveries]


@dataclass(slots=True)
class Installation:
    """A set-up, the receiver of its report, and the runs that were delivered."""

    setup: SetUp
    box: Mailbox
    billed: dict[tuple[str, str], Billed] = field(default_factory=dict)

    @property
    def api(self) -> Server:
        """The server that answers questions."""
        return self.setup.control

    @property
    def settings(self) -> Mapping[str, str]:
        """Those of a process that knows all three stores."""
        processes = self.setup.processes
        return processes["up" if "up" in processes else "control"].environment

    @property
    def data(self) -> Path:
        """The folder of data of one process."""
        return Path(self.settings["METERLINE_DATA_DIR"])

    def run(self, *command: str) -> str:
        """Run `meterline COMMAND` with the settings of the installation; what it said to stdout."""
        return run_command(command, self.setup.folder, self.settings)

    def run_by(self, build: Path, *command: str) -> str:
        """The same by the code of a build."""
        settings = {**self.settings, "PYTHONPATH": str(build)}
        return run_command(command, self.setup.folder, settings)

    def start(self) -> None:
        """Start all processes."""
        self.setup.start()

    def stop(self) -> None:
        """Stop all processes as an operator does."""
        for process in self.setup.processes.values():
            stop(process)

    def define(self) -> None:
        """Make the meters and the report."""
        make_meters(self.api, (*METERS, LATE_METER))
        make_report(self.api, self.box)

    def send(self, flights: Path) -> None:
        """Send a file of flights, and wait until all of them count."""
        send_file(self.setup, flights)

    def account(self, new: int = 0) -> dict[str, int]:
        """The account once all records are counted, and so many events are new at least."""

        def look() -> dict[str, int] | None:
            status = self.setup.status
            there: dict[str, int] = status["account"] or {}
            counted = status["caught_up"] and not status["lag_records"]
            return there if counted and there.get("new", 0) >= new else None

        found = until(f"{new} flights are counted", COUNTED_WITHIN_S, look)
        assert found["received"] == found["new"] + found["duplicate"], found
        assert found["conflict"] == found["invalid"] == 0, found
        return found

    def exact(self, flights: int) -> dict[str, int]:
        """The account, once all answers are those of the oracle about the first flights, and the
        audit is clean.
        """
        account = self.account(flights)
        assert account["new"] == flights, account
        questions = asked_about(flights)
        with ThreadPoolExecutor(QUESTIONS_AT_ONCE) as threads:
            bodies = list(threads.map(lambda one: one.put_to(self.api).body, questions))
        for question, body in zip(questions, bodies, strict=True):
            compare(question, body, flights)
        assert self.run("audit", "--server", self.api.url) == "", "no difference"
        return account

    def bill(self, window: tuple[str, str], flights: int) -> Billed:
        """Ask for a window by hand. Each subject gets its figures, which are those of the oracle
        about the first flights.
        """
        before = len(self.box.delivered)
        asked = request_run(self.api, window)
        run = finished_run(self.api, asked["id"])
        assert (run["state"], run["failed"]) == ("succeeded", 0), run
        taken = sorted(self.box.delivered[before:], key=subject_of)
        assert [one["id"] for one in run["deliveries"]]
        assert {one["id"] for one in run["deliveries"]} == {one.id for one in taken}
        assert self.box.refused == []
        rows = expected(Asked("distance", *window, keys=("subject", *ROUTE)), flights)
        assert reported(taken) == sorted((*row.groups, row.value) for row in rows)
        self.billed[window] = Billed(run, taken)
        return self.billed[window]

    def still_billed(self, window: tuple[str, str]) -> None:
        """The window was run and delivered: asked for again it is the same run, and nothing is
        delivered again.
        """
        before, billed = len(self.box.delivered), self.billed[window]
        start, end = window
        path = f"/api/v1/reports/{SLUG}/runs"
        again = self.api.ask("POST", path, {"from": start, "to": end})
        assert (again.status, again.json["id"]) == (200, billed.run["id"]), again.body
        assert finished_run(self.api, billed.run["id"]) == billed.run
        assert len(self.box.delivered) == before


def stop(process: LocalService) -> None:
    """Stop a process as an operator does. It ends well, and its folder stays."""
    assert stopped(process) == 0, process.name


def asked_about(flights: int) -> Sequence[Question]:
    """All questions; of a part of the table those that ask for the whole year."""
    if flights == ALL_FLIGHTS:
        return QUESTIONS
    return [one for one in QUESTIONS if one.asked.start in (None, ALL[0])]


def compare(question: Question, body: bytes, flights: int) -> None:
    """Fail unless the answer is that of the oracle."""
    rows = expected(question.asked, flights)
    assert rows, question
    figures = [(row.start, row.end, row.groups, row.value) for row in rows]
    assert question.figures(body) == figures, question
    if (question.version, question.media) == ("v3", "application/json"):
        assert question.rows(body) == rows, question


def subject_of(delivered: Delivered) -> str:
    """Whose usage a delivery tells."""
    return str(json.loads(delivered.body)["query"]["subject"])


def last_month(flights: int) -> tuple[str, str]:
    """The month of the last of the first flights: a window that is counted late."""
    last: pd.Timestamp = table()["time"].iloc[flights - 1]
    start = last.tz_convert(None).to_period("M")
    first, end = (one.start_time.strftime("%Y-%m-%dT%H:%M:%SZ") for one in (start, start + 1))
    return first, end
