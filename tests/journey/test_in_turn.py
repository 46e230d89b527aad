"""All of compose.yaml as local processes, two of each role, behind its proxy: under load each one
is stopped and started, then killed and started. No request is refused, each event counts once.
"""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, run_command, why_silent
from tests.journey.setups import COMPOSED, ROLES, Servers, SetUp, distributed, started, telling
from tests.services.local import LocalService, free_port

CADDY: Final = PROGRAM.with_name("caddy")
CADDYFILE: Final = Path(__file__).resolve().parents[2] / "deploy/compose/Caddyfile"
DRAIN: Final = {"METERLINE_DRAIN_S": "5"}  # as in compose.yaml
V3: Final = "/api/v3/metering"
BATCH: Final = {"Content-Type": "application/cloudevents-batch+json"}
METER: Final = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}
SENDERS: Final = 3
EVENTS_EACH: Final = 5  # of a request
PAUSE_S: Final = 0.02
WITHIN_S: Final = 120.0


@contextmanager
def proxied(setup: SetUp) -> Iterator[SetUp]:
    """The set-up behind the proxy of compose.yaml, by its file: only addresses differ."""
    ports = {8888: free_port(), 8889: free_port()}
    text = CADDYFILE.read_text()
    for port, here in ports.items():
        assert f"\n:{port} {{\n" in text
        text = text.replace(f"\n:{port} {{\n", f"\n:{here} {{\n")
    folder = setup.folder / "proxy"
    folder.mkdir()
    (folder / "Caddyfile").write_text(text)
    both = {
        role.upper(): " ".join(setup.processes[f"{role}-{n}"].url.split("//")[1] for n in (1, 2))
        for role in ("ingest", "control")
    }
    ingest, control = (Server(f"http://127.0.0.1:{port}") for port in ports.values())
    proxy = LocalService(
        name="proxy",
        url=control.url,
        folder=folder,
        command=[str(CADDY), "run", "--config", "Caddyfile", "--adapter", "caddyfile"],
        problem=partial(why_silent, control.url),
        environment={"HOME": str(folder), **both},
    )
    proxy.start()
    try:
        yield replace(setup, ingest=ingest, control=control)
    finally:
        proxy.kill()


@dataclass(slots=True)
class Load:
    """Senders that send each event until it is accepted, and somebody who asks."""

    setup: SetUp
    statuses: Counter[int] = field(default_factory=Counter)  # of requests with events
    answers: Counter[int] = field(default_factory=Counter)  # to who asks
    cut: list[str] = field(default_factory=list)  # connections of the proxy itself
    accepted: list[int] = field(default_factory=lambda: [0] * SENDERS)
    ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def on(self) -> Iterator["Load"]:
        """They go on for the length of the block."""
        threads = [threading.Thread(target=self.send, args=(one,)) for one in range(SENDERS)]
        threads.append(threading.Thread(target=self.ask))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.ends.set()
            for thread in threads:
                thread.join(WITHIN_S)

    def send(self, sender: int) -> None:
        """Each batch again until it is accepted."""
        while not self.ends.wait(PAUSE_S):
            first = self.accepted[sender]
            batch = [event(sender, number) for number in range(first, first + EVENTS_EACH)]
            while (status := self.asked(self.setup.ingest, f"{V3}/events", batch)) != 202:
                self.statuses[status] += 1
            self.statuses[status] += 1
            self.accepted[sender] += EVENTS_EACH

    def ask(self) -> None:
        """Usage, of any moment."""
        while not self.ends.wait(5 * PAUSE_S):
            self.answers[self.asked(self.setup.control, f"{V3}/meters/calls/query", {})] += 1

    def asked(self, server: Server, path: str, body: object) -> int:
        """Its status; 0 where there was no answer."""
        headers = BATCH if isinstance(body, list) else {"Content-Type": "application/json"}
        try:
            return server.ask("POST", path, json.dumps(body).encode(), headers).status
        except OSError as error:
            self.cut.append(repr(error))
            return 0

    def more(self) -> None:
        """Return when every sender has sent some more, and somebody was answered."""
        enough = [number + 10 * EVENTS_EACH for number in self.accepted]
        answered = self.answers[200]

        def are_sent() -> bool:
            went_on = all(a >= b for a, b in zip(self.accepted, enough, strict=True))
            return went_on and self.answers[200] > answered

        until("the load goes on", WITHIN_S, are_sent)


def event(sender: int, number: int) -> dict[str, Any]:
    """One of a sender's events."""
    return {
        "specversion": "1.0", "id": f"{sender}-{number}", "source": "turn", "type": "call",
        "subject": f"s{sender}", "time": "2026-01-31T09:15:00Z",
    }  # fmt: skip


def again(setup: SetUp, name: str, *, by: signal.Signals) -> None:
    """End a process and start it again; one that is told to stop must end well."""
    process = setup.processes[name]
    os.kill(process.pid, by)
    until(f"{name} ends", WITHIN_S, lambda: process.ended() is not None)
    if by is signal.SIGTERM:
        assert process.ended() == 0, name
    process.kill()
    process.start()


def side(setup: SetUp, number: int, by: signal.Signals) -> None:
    """The same of one of each role, while its twin goes on."""
    with ThreadPoolExecutor(len(ROLES)) as threads:
        for one in [threads.submit(again, setup, f"{role}-{number}", by=by) for role in ROLES]:
            one.result()


def exact(setup: SetUp, load: Load) -> None:
    """Each accepted event counts once, and nothing else does."""

    def is_counted() -> bool:
        account = setup.status["account"]
        return bool(setup.status["caught_up"] and account["new"] == sum(load.accepted))

    until("all is counted", WITHIN_S, is_counted)
    asked = {"group_by_dimensions": ["subject"]}
    rows = setup.control.ask("POST", f"{V3}/meters/calls/query", asked).json["data"]
    found = {row.get("subject") or row["dimensions"]["subject"]: int(row["value"]) for row in rows}
    assert found == {f"s{sender}": number for sender, number in enumerate(load.accepted)}
    assert run_command(["audit", "--server", setup.control.url], setup.folder, {}) == ""


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[SetUp]:
    made = distributed(tmp_path_factory.mktemp("composed"), servers, DRAIN, places=COMPOSED)
    with started(made), proxied(made) as setup:
        yield setup


def test_each_process_is_stopped_then_killed_under_load(composed: SetUp) -> None:
    with telling(composed):
        composed.control.made(f"{V3}/meters", METER)
        load = Load(composed)
        with load.on():
            load.more()
            for number in (1, 2):
                side(composed, number, signal.SIGTERM)
                load.more()
            for number in (1, 2):
                side(composed, number, signal.SIGKILL)
                load.more()
        assert set(load.statuses) == {202}, "not one request was refused"
        assert set(load.answers) == {200}, "whoever asked was answered"
        assert not load.cut, "the proxy itself goes on"
        exact(composed, load)
