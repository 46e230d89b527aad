"""The proxy of deploy/proxy before a running product: it asks who is there, Meterline does not."""

import base64
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from meterline.http.answers import SERVER_OPTIONS
from meterline.limits import BODY_BYTES_MAX, BODY_READ_TIMEOUT_S, USAGE_STORE_TIMEOUT_S
from tests.journey.client import Answer, Server
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, why_silent
from tests.journey.setups import SetUp, embedded, started
from tests.services.local import LocalService, free_port

pytestmark = pytest.mark.standard

CADDY = PROGRAM.with_name("caddy")
CADDYFILE = Path(__file__).resolve().parents[2] / "deploy/proxy/Caddyfile"
NAME, PASSWORD = "billing", "correct horse battery staple"
EVENTS, METERS = "/api/v3/metering/events", "/api/v3/metering/meters"
COUNTED_WITHIN_S = 60.0
EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "proxy",
    "type": "call",
    "subject": "acme",
    "time": "2026-01-31T09:15:00Z",
}
METER = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}


def basic(password: str) -> dict[str, str]:
    token = base64.b64encode(f"{NAME}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


@contextmanager
def proxy(folder: Path, meterline: str, site: str = "127.0.0.1") -> Iterator[Server]:
    """Caddy with the file of deploy/proxy as it is, before whoever listens at an address."""
    folder.mkdir()
    command = [str(CADDY), "hash-password", "--algorithm", "argon2id"]
    hashed = subprocess.run(
        command, input=f"{PASSWORD}\n", capture_output=True, text=True, check=True, timeout=60
    ).stdout
    users = folder / "users"
    users.write_text(f"{NAME} {hashed.strip()}\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = LocalService(
        name="caddy",
        url=url,
        folder=folder,
        command=[str(CADDY), "run", "--config", str(CADDYFILE)],
        problem=partial(why_silent, url),
        environment={
            "HOME": str(folder),
            "PROXY_SITE": f"http://{site}:{port}",
            "PROXY_USERS": str(users),
            "METERLINE": meterline.removeprefix("http://"),
        },
    )
    process.start()
    try:
        yield Server(url)
    finally:
        process.kill()


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    """`meterline up` as anybody starts it: in mode none, on loopback."""
    with started(embedded(tmp_path_factory.mktemp("behind"))) as setup:
        yield setup


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, product: SetUp) -> Iterator[Server]:
    with proxy(tmp_path_factory.mktemp("front") / "caddy", product.control.url) as server:
        yield server


def assert_problem(answer: Answer, name: str, status: int) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["type"] == f"urn:meterline:problem:{name}"
    assert answer.json["status"] == status
    assert {"title", "detail", "instance"} <= answer.json.keys()


@pytest.mark.parametrize("headers", [{}, basic("wrong"), {"Authorization": "Bearer mtl_x"}])
def test_without_credentials_nothing_passes(
    door: Server, product: SetUp, headers: dict[str, str]
) -> None:
    before = product.status["account"]["received"]
    for path in ("/", "/readyz", METERS, "/api/openapi.json"):
        answer = door.ask("GET", path, headers=headers)
        assert_problem(answer, "unauthenticated", 401)
        assert answer.headers["www-authenticate"] == 'Basic realm="Meterline"'
        assert "x-request-id" not in answer.headers, "Meterline has not seen it"
    sent = {"Content-Type": "application/cloudevents+json", **headers}
    assert_problem(door.ask("POST", EVENTS, EVENT, sent), "unauthenticated", 401)
    assert product.status["account"]["received"] == before


def test_with_credentials_an_event_goes_in_and_usage_comes_out(door: Server) -> None:
    known = basic(PASSWORD)
    made = door.ask("POST", METERS, METER, known)
    assert made.status == 201, made.body
    sent = {"Content-Type": "application/cloudevents+json", **known}
    accepted = door.ask("POST", EVENTS, EVENT, sent)
    assert accepted.status == 202, accepted.body
    assert len(accepted.headers["x-request-id"]) == 26, "Meterline's own, kept"

    def counted() -> bool:
        answer = door.ask("POST", f"{METERS}/calls/query", {}, known)
        assert answer.status == 200, answer.body
        return [row["value"] for row in answer.json["data"]] == ["1"]

    until("the event counts", COUNTED_WITHIN_S, counted)
    table = door.ask("POST", f"{METERS}/calls/query", {}, {**known, "Accept": "text/csv"})
    assert table.headers["content-type"].startswith("text/csv")
    assert table.body.splitlines()[-1].endswith(b",1")


def test_problems_of_meterline_come_through_as_they_are(door: Server) -> None:
    known = basic(PASSWORD)
    absent = door.ask("GET", f"{METERS}/nothing", headers=known)
    assert_problem(absent, "not-found", 404)
    assert absent.json["instance"] == f"urn:request:{absent.headers['x-request-id']}"
    sent = {"Content-Type": "application/cloudevents+json", **known}
    large = door.ask("POST", EVENTS, b" " * (BODY_BYTES_MAX + 1), sent)
    assert_problem(large, "body-too-large", 413)
    assert str(BODY_BYTES_MAX) in large.json["detail"]


def test_the_password_ends_at_the_proxy(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    class Behind(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Behind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with proxy(tmp_path / "caddy", f"http://127.0.0.1:{server.server_port}") as door:
            assert door.ask("GET", "/x", headers=basic(PASSWORD)).status == 204
            log = (tmp_path / "caddy/output.log").read_text()
    finally:
        server.shutdown()
        server.server_close()
    (headers,) = seen
    assert "authorization" not in headers
    assert basic(PASSWORD)["Authorization"] not in log


def test_where_nobody_is_behind_it_says_so(tmp_path: Path) -> None:
    with proxy(tmp_path / "caddy", f"http://127.0.0.1:{free_port()}") as door:
        answer = door.ask("GET", METERS, headers=basic(PASSWORD))
    assert_problem(answer, "unavailable", 503)
    assert answer.headers["retry-after"] == "1"


def test_its_bounds_fit_those_of_the_product() -> None:
    text = CADDYFILE.read_text()
    assert "max_size 11MB" in text
    assert BODY_BYTES_MAX < 11_000_000
    assert "read_body 35s" in text
    assert BODY_READ_TIMEOUT_S < 35
    assert "response_header_timeout 75s" in text
    assert USAGE_STORE_TIMEOUT_S < 75
    assert "keepalive 60s" in text
    assert SERVER_OPTIONS["keepalive_timeout"] > 60
