"""Servers as containers, against an engine that only records what it is asked: it runs nothing.

What this proves: the requests that reach an engine, in their order, for start, kill, another start
and stop. What it does not: that the images serve with these settings.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from testcontainers.core.config import testcontainers_config

from tests.services.container import (
    CLICKHOUSE_IMAGE,
    ContainerService,
    container_clickhouse,
    docker_answers,
)

NAME = "c0ffee"
ANSWERS: dict[tuple[str, str], tuple[int, object]] = {
    ("GET", "/version"): (200, {"ApiVersion": "1.44", "Version": "27"}),
    ("GET", "/_ping"): (200, "OK"),
    ("GET", f"/images/{CLICKHOUSE_IMAGE}/json"): (200, {"Id": "sha256:1"}),
    ("POST", "/containers/create"): (201, {"Id": NAME, "Warnings": []}),
    ("GET", f"/containers/{NAME}/json"): (200, {"Id": NAME, "Config": {"Tty": False}}),
    ("POST", f"/containers/{NAME}/start"): (204, None),
    ("POST", f"/containers/{NAME}/kill"): (204, None),
    ("POST", f"/containers/{NAME}/wait"): (200, {"StatusCode": 137}),
    ("DELETE", f"/containers/{NAME}"): (204, None),
}


@dataclass(slots=True)
class Engine:
    """What was asked of it, without the version in the path and without questions."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    created: list[Any] = field(default_factory=list)

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        """Status and document."""
        path = target.partition("?")[0]
        if path.startswith("/v1."):
            path = path[path.index("/", 1) :]
        if method != "GET":
            self.asked.append((method, path))
        if path == "/containers/create":
            self.created.append(json.loads(body))
        return ANSWERS.get((method, path), (404, {"message": f"not known: {method} {path}"}))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    found = Engine()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, document = found.answer(self.command, self.path, body)
            self.send_response(status)
            sent = b"" if document is None else json.dumps(document).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.handle_any
            raise AttributeError(name)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        before = testcontainers_config.ryuk_disabled
        testcontainers_config.ryuk_disabled = True  # a container that removes others
        yield found
        testcontainers_config.ryuk_disabled = before
        server.shutdown()
        thread.join()


def serving(problems: list[str]) -> str | None:
    """A server that serves when its problems are gone."""
    return problems.pop() if problems else None


def test_a_container_is_made_started_killed_started_again_and_removed(engine: Engine) -> None:
    made = container_clickhouse("127.0.0.1")
    problems = ["not yet", "not yet"]
    service = ContainerService(
        made.name, made.url, made.image, made.host_port, partial(serving, problems)
    )
    service.start()
    assert problems == [], "it waits until the server serves"
    service.start()  # it runs: nothing to do
    (created,) = engine.created
    assert created["Image"] == CLICKHOUSE_IMAGE
    assert created["Env"] == ["CLICKHOUSE_SKIP_USER_SETUP=1"]
    bound = created["HostConfig"]["PortBindings"]["8123/tcp"]
    assert [one["HostPort"] for one in bound] == [str(made.host_port)]
    service.kill()
    service.kill()  # it does not run: nothing to do
    service.start()
    service.stop()
    service.stop()
    at = f"/containers/{NAME}"
    assert engine.asked == [
        ("POST", "/containers/create"),
        ("POST", f"{at}/start"),
        ("POST", f"{at}/kill"),
        ("POST", f"{at}/wait"),
        ("POST", f"{at}/start"),
        ("DELETE", at),
    ]


def test_an_engine_is_asked_whether_it_is_there(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert docker_answers()
    monkeypatch.setitem(ANSWERS, ("GET", "/_ping"), (500, {"message": "no"}))
    assert not docker_answers()
    assert engine.asked == []
