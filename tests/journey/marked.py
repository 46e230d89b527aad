"""A set-up that is told secrets and payloads by every way there is, each with a mark of its own,
while receivers, senders and stores fail. No mark may be in what its processes print.
"""

import asyncio
import gzip
import json
import secrets
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import urlopen

import asyncpg

from tests.beside import beside
from tests.journey.deadline import until
from tests.journey.keyed import BATCH, METER, OPERATOR, V3, Caller, Keyed, passes
from tests.journey.setups import SetUp

WINDOW: Final = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
ONE: Final = {"Content-Type": "application/cloudevents+json"}
JSON: Final = {"Content-Type": "application/json"}
SOCKET_S: Final = 10.0
ASKED_FOR: Final = ("report", "run_", "late_", "changes", "subjects", "replays", "redrives")
WITHIN_S: Final = 60.0


@dataclass(slots=True)
class Marks:
    """Texts that are nowhere else, and what each of them was."""

    given: dict[str, str] = field(default_factory=dict)

    def of(self, what: str) -> str:
        """A new one."""
        made = f"mark{secrets.token_hex(8)}"
        self.given[made] = what
        return made

    def told(self, secret: str, what: str) -> None:
        """Something that the product made, and that is as secret."""
        self.given[secret] = what

    def found_in(self, text: str) -> dict[str, str]:
        """Lines by what should not be in them, in any spelling."""
        text, marks = text.lower(), {mark.lower(): what for mark, what in self.given.items()}
        return {
            what: next(line for line in text.splitlines() if mark in line)
            for mark, what in marks.items()
            if mark in text
        }


@dataclass(frozen=True, slots=True)
class Refusing:
    """A receiver, and how often something came."""

    address: str
    came: list[bytes] = field(default_factory=list)


@contextmanager
def refusing(body: str) -> Iterator[Refusing]:
    """A receiver that answers 500, with a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.came.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        beside("refusing receiver", server.serve_forever, server.shutdown),
    ):
        made = Refusing(f"127.0.0.1:{server.server_port}")
        yield made


@dataclass(slots=True)
class Marked:
    """Who tells them. `caller` has all rights."""

    setup: SetUp
    marks: Marks
    receiver: Refusing
    caller: Caller = field(init=False)
    reports: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """A key, and a meter."""
        keyed = Keyed(self.setup)
        self.caller = keyed.created("--name", "all", *OPERATOR)
        until("the key is known", WITHIN_S, lambda: passes(self.caller))
        self.caller.made("/meters", METER)
        for secret in keyed.told:
            self.marks.told(secret, "an API key")

    def all_ways(self, when: str) -> None:
        """Everything that a user can say."""
        for way in (self.events, self.bodies, self.no_http, self.keys, self.report, self.subject):
            way(when)

    def event(self, when: str, **other: object) -> dict[str, object]:
        """An event with marks."""
        return {
            "specversion": "1.0",
            "id": secrets.token_hex(4),
            "source": "marked",
            "type": "call",
            "subject": self.marks.of(f"a subject, {when}"),
            "time": "2026-01-31T09:15:00Z",
            "data": {"value": 1, "text": self.marks.of(f"data, {when}")},
        } | other

    def events(self, when: str) -> None:
        """Such as count, such that are refused, and such that no meter can use."""
        told = self.marks.of
        first = self.event(when)
        self.caller.send(first)
        self.caller.send({**first, "data": {"value": told(f"data of a conflict, {when}")}})
        self.caller.send(self.event(when, data={"value": told(f"a value of no use, {when}")}))
        self.caller.send(self.event(when, time=told(f"a time, {when}")))
        self.caller.send(self.event(when, subject=f"{told(f'a subject with NUL, {when}')}\0"))
        self.caller.send(self.event(when, specversion=told(f"a version, {when}")))
        self.caller.send({"data": told(f"data of no event, {when}")})

    def bodies(self, when: str) -> None:
        """Such as are no events, or no JSON at all."""
        told = self.marks.of
        whole = json.dumps(self.event(when)).encode()
        for media, body in (
            (ONE, whole[:-2]),
            (ONE, b"\xff" + whole),
            (ONE, whole + whole),
            (BATCH, whole),
            (BATCH, b'["' + told(f"a batch of texts, {when}").encode() + b'"]'),
            ({"Content-Type": f"text/{told(f'a media type, {when}')}"}, whole),
            ({**ONE, "Content-Encoding": "gzip"}, whole),
            ({**ONE, "Content-Encoding": "gzip"}, gzip.compress(whole)[:-9]),
            ({**ONE, "Content-Encoding": told(f"an encoding, {when}")}, whole),
            ({"ce-id": told(f"a header, {when}"), "Content-Type": "application/json"}, whole),
        ):
            for path in ("/api/v3/metering/events", "/api/v1/events"):
                self.caller.ingest.ask("POST", path, body, media)
        said = {"key": told(f"a key of a meter, {when}"), "aggregation": [told(f"no enum, {when}")]}
        for definition in (said, json.dumps(said).encode()[:-1]):
            self.caller.control.ask("POST", f"{V3}/meters", definition)

    def no_http(self, when: str) -> None:
        """Bytes that are no request."""
        head = "POST /api/v3/metering/events HTTP/1.1\r\nHost: a\r\n"
        for text in (
            "Authorization Bearer {}\r\n\r\n",
            "Authorization: Bearer {}\x01\0\r\n\r\n",
            "Content-Length: {}\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n{}\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n",
            "Content-Length: 9999\r\n\r\n{}",
            "{}: " + "x" * 70_000 + "\r\n\r\n",
        ):
            self._sent(head + text.format(self.marks.of(f"no HTTP: {text[:30]!r}, {when}")))
        self._sent(f"{self.marks.of(f'no line of a request, {when}')}\r\n\r\n")
        self._sent(f"GET /{self.marks.of(f'a path, {when}')}\x7f\xff HTTP/1.1\r\n\r\n")

    def _sent(self, text: str) -> None:
        for server in (self.caller.ingest, self.caller.control):
            address = urlsplit(server.url)
            with (
                suppress(OSError),
                socket.create_connection(
                    (str(address.hostname), address.port or 0), SOCKET_S
                ) as to,
            ):
                to.sendall(text.encode("latin-1"))
                to.shutdown(socket.SHUT_WR)
                while to.recv(65_536):
                    pass

    def keys(self, when: str) -> None:
        """Such as nobody knows."""
        for key in (
            self.marks.of(f"no key, {when}"),
            f"mtl_01M7ZMF4YA7D2SQ292V0W9JPT8_{self.marks.of(f'an unknown key, {when}')}",
        ):
            for server in (self.caller.ingest, self.caller.control):
                shown = {"Authorization": f"Bearer {key}"}
                server.ask("GET", f"{V3}/meters?key={key}", headers=shown)

    def report(self, when: str) -> None:
        """One with secrets in its endpoint, whose receiver fails, and a run of it."""
        told, slug = self.marks.of, f"report-{secrets.token_hex(4)}"
        ends = f"{told(f'a path of an endpoint, {when}')}?token={told(f'a query, {when}')}"
        user = f"user:{told(f'a password of an endpoint, {when}')}"
        url = f"http://{user}@{self.receiver.address}/{ends}"
        made = {
            "slug": slug,
            "meter_id_or_key": "calls",
            "type": "webhook",
            "schedule": {"interval": "1d"},
            "endpoint": {"url": url, "headers": {"X-Token": told(f"a header, {when}")}},
            "filter": {"subject": {"$ne": told(f"a filter, {when}")}},
        }
        ask = self.caller.control.ask
        ask("POST", f"{V3}/reports", {**made, "type": told(f"no type, {when}")})
        answer = ask("POST", f"{V3}/reports", made)
        if answer.status == 201:
            self.reports.append(slug)
            self.marks.told(answer.json["signing_secret"].removeprefix("whsec_"), "a secret")
        for name in {slug, *self.reports}:
            path = f"{V3}/reports/{name}"
            for method, more in (
                ("GET", "/secret"), ("POST", "/secret/rotate"), ("POST", "/test"), ("GET", "/pull"),
            ):  # fmt: skip
                answer = ask(method, path + more, b"{}" if method == "POST" else None, JSON)
                for secret in _secrets(answer.body):
                    self.marks.told(secret, "a secret")
            day = {"from": WINDOW["from"], "to": WINDOW["to"]}
            ask("POST", f"{path}/runs", day)
            ask("PUT", path, {**made, "slug": name})

    def subject(self, when: str) -> None:
        """It is described, asked for, listed and erased."""
        name, ask = self.marks.of(f"a subject of a path, {when}"), self.caller.control.ask
        self.caller.send(self.event(when, subject=name))
        shown = {"display_name": self.marks.of(f"a name of a subject, {when}")}
        ask("PUT", f"{V3}/subjects/{name}", shown)
        ask("GET", f"{V3}/subjects/{name}")
        asked: dict[str, Any] = {**WINDOW, "filter": {"subject": {"$eq": name}}}
        ask("POST", f"{V3}/meters/calls/query", asked)
        ask("POST", f"{V3}/meters/calls/query", {"filters": {"subject": name}})
        ask("GET", f"{V3}/events?filter[subject]={name}")
        ask("GET", f"/api/v1/meters/calls/query?subject={name}")
        ask("DELETE", f"{V3}/subjects/{name}")
        ask("POST", f"{V3}/erasures", {"subject": name})


def _secrets(body: bytes) -> list[str]:
    """Signing secrets in an answer."""
    parts = body.decode(errors="replace").split("whsec_")[1:]
    return [part.split('"')[0] for part in parts]


def refuse_rows(setup: SetUp) -> None:
    """Every row that somebody who asks, or who delivers, writes to the control store is refused."""
    for name in _tables(setup):
        if not name.startswith(ASKED_FOR):
            continue
        if setup.name == "embedded":
            refused = "BEGIN SELECT RAISE(ABORT, 'refused'); END"
            for act in ("INSERT", "UPDATE"):
                _sqlite(setup, f"CREATE TRIGGER no_{act}_{name} BEFORE {act} ON {name} {refused}")
        else:
            refused = f"ADD CONSTRAINT no_{name} CHECK (false) NOT VALID"
            _postgresql(setup, f"ALTER TABLE {name} {refused}")


def take_away(setup: SetUp) -> None:
    """Every table of the stores is gone, but for what lets somebody in. A process may end by it."""
    for name in _tables(setup):
        statement = f"ALTER TABLE {name} RENAME TO {name}_away"
        (_sqlite if setup.name == "embedded" else _postgresql)(setup, statement)
    if setup.name == "distributed":
        for name in _clickhouse(setup, "SHOW TABLES").split():
            _clickhouse(setup, f"RENAME TABLE {name} TO {name}_away")


def _environment(setup: SetUp) -> dict[str, str]:
    return next(iter(setup.processes.values())).environment


def _tables(setup: SetUp) -> list[str]:
    if setup.name == "embedded":
        listed = _sqlite(setup, "SELECT name FROM sqlite_master WHERE type = 'table'")
    else:
        listed = _postgresql(setup, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    kept = ("alembic", "sqlite_", "api_keys")  # who asks is let in still
    return [name for name in listed if not name.startswith(kept)]


def _sqlite(setup: SetUp, statement: str) -> list[str]:
    path = Path(_environment(setup)["METERLINE_DATA_DIR"]) / "control.db"
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    try:
        return [row[0] for row in connection.execute(statement)]
    finally:
        connection.close()


def _postgresql(setup: SetUp, statement: str) -> list[str]:
    async def run() -> list[str]:
        connection = await asyncpg.connect(_environment(setup)["METERLINE_CONTROL_URL"])
        try:
            return [row[0] for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return asyncio.run(run())


def _clickhouse(setup: SetUp, statement: str) -> str:
    url = urlsplit(_environment(setup)["METERLINE_USAGE_URL"])
    database = url.path.strip("/")
    with urlopen(f"http://{url.netloc}/?database={database}", statement.encode()) as answer:
        text: str = answer.read().decode()
    return text
