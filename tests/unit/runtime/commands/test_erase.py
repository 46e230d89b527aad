"""`meterline erase` against a server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from meterline.runtime.commands.erase import erase

ANSWER = (
    '{"id":"01","state":"STATE","pseudonym":"erased-01","log_holds_until":"2026-02-07T10:05:00Z"}'
)


class Answers(BaseHTTPRequestHandler):
    """A server whose erasure settles at the second look."""

    asked: list[tuple[str, str, bytes]]
    status = 202

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._tell("POST", body, "asked", self.status)

    def do_GET(self) -> None:
        looks = sum(method == "GET" for method, _, _ in self.asked)
        self._tell("GET", b"", "settled" if looks else "copying", 200)

    def _tell(self, method: str, body: bytes, state: str, status: int) -> None:
        self.asked.append((method, self.path, body))
        said = ANSWER.replace("STATE", state).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Answers.asked, Answers.status = [], 202
    made = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


def test_it_waits_until_only_the_log_has_it(server: str) -> None:
    done = CliRunner().invoke(erase, ["alice", "--yes", "--server", server])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line.split(",")[0] for line in lines] == ["01: asked", "01: copying", "01: settled"]
    assert "2026-02-07" in lines[-1]
    assert Answers.asked[0] == ("POST", "/api/v3/metering/erasures", b'{"subject": "alice"}')


def test_it_asks_whether_you_are_sure(server: str) -> None:
    done = CliRunner().invoke(erase, ["alice", "--server", server], input="n\n")
    assert done.exit_code == 1
    assert Answers.asked == []


def test_what_is_refused_is_told(server: str) -> None:
    Answers.status = 409
    done = CliRunner().invoke(erase, ["alice", "--yes", "--server", server])
    assert done.exit_code == 3
    assert "409" in done.output
