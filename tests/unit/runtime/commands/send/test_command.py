"""`meterline send` against a real server in this process."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from meterline.runtime.commands.send.command import send
from meterline.runtime.commands.send.posts import retry_after_s
from tests.services.local import nobody_at

CSV_MAP = "id='{#}',source='air',type='flight',subject=carrier,data.miles=miles:number"
Answer = Callable[[int], web.Response]


@dataclass(slots=True)
class Door:
    """A server that keeps what it accepts, and answers the n-th request (from 0) as told."""

    answers: Callable[[int], web.Response | None] = lambda _: None
    events: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    requests: int = 0
    busiest: int = 0
    under_way: int = 0
    asked: int = 0
    lag: int = 0
    url: str = ""
    keys: set[str | None] = field(default_factory=set)

    async def take(self, request: web.Request) -> web.Response:
        number, self.requests = self.requests, self.requests + 1
        self.under_way += 1
        self.busiest = max(self.busiest, self.under_way)
        self.keys.add(request.headers.get("Authorization"))
        body = await request.read()
        await asyncio.sleep(0.005)
        self.under_way -= 1
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert request.content_type == "application/cloudevents-batch+json"
        answer = self.answers(number)
        if answer is not None:
            return answer
        events = json.loads(body)
        self.events += events
        self.sizes.append(len(events))
        return web.Response(status=202)

    async def status(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("Authorization"))
        self.asked += 1
        lag = max(0, self.lag - self.asked)
        return web.json_response({"caught_up": lag == 0, "lag_records": lag, "more": 1})

    @property
    def ids(self) -> list[int]:
        return sorted(int(event["id"]) for event in self.events)


Start = Callable[[Door], Awaitable[Door]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Serve a door."""
    servers: list[TestServer] = []

    async def serve(door: Door) -> Door:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_post("/api/v3/metering/events", door.take)
        app.router.add_get("/api/v3/metering/status", door.status)
        # bodies come as they were sent, as with the gateway's own server
        server = TestServer(app)
        await server.start_server(auto_decompress=False)
        servers.append(server)
        door.url = str(server.make_url(""))
        return door

    yield serve
    for server in servers:
        await server.close()


async def _send(*arguments: str, stdin: bytes | None = None) -> Result:
    """Run the command in a thread, beside the server."""
    patience = [] if "--give-up-after" in arguments else ["--give-up-after", "10"]
    given = [*arguments, *patience]
    return await asyncio.to_thread(CliRunner().invoke, send, given, input=stdin)


def _event(number: int) -> dict[str, Any]:
    return {"specversion": "1.0", "id": str(number), "source": "s", "type": "t", "subject": "u"}


def _ndjson(path: Path, count: int) -> str:
    path.write_text("".join(json.dumps(_event(n)) + "\n" for n in range(1, count + 1)))
    return str(path)


def _problem(status: int, **members: Any) -> web.Response:
    return web.json_response({"title": "Bad", **members}, status=status)


async def test_a_file_is_sent_in_batches(start: Start, tmp_path: Path) -> None:
    door = await start(Door())
    file = _ndjson(tmp_path / "e.ndjson", 1_234)
    result = await _send(file, "--to", door.url, "--batch", "100")
    assert result.exit_code == 0, result.output
    assert door.ids == list(range(1, 1_235))
    assert sorted(door.sizes) == [34, *[100] * 12]
    assert 1 < door.busiest <= 4
    assert "1,234 events in 13 requests" in result.output
    assert "events/s" in result.output


async def test_a_pipe_with_empty_lines_and_a_mark_is_sent(start: Start) -> None:
    door = await start(Door())
    lines = b"\xef\xbb\xbf" + json.dumps(_event(1)).encode() + b"\r\n\n  \n"
    lines += json.dumps(_event(2)).encode()
    result = await _send("-", "--to", f"{door.url}/", "--gzip", "--quiet", stdin=lines)
    assert (result.exit_code, result.output) == (0, "")
    assert door.ids == [1, 2]


async def test_an_empty_file_is_no_error(start: Start, tmp_path: Path) -> None:
    door = await start(Door())
    result = await _send(_ndjson(tmp_path / "e.ndjson", 0), "--to", door.url)
    assert result.exit_code == 0
    assert "0 events in 0 requests" in result.output


async def test_large_events_make_smaller_batches(start: Start, tmp_path: Path) -> None:
    door = await start(Door())
    path = tmp_path / "e.ndjson"
    large = [{**_event(n), "data": {"x": "y" * 1_500_000}} for n in range(1, 6)]
    path.write_text("\n".join(json.dumps(event) for event in large))
    result = await _send(str(path), "--to", door.url)
    assert result.exit_code == 0, result.output
    assert door.ids == [1, 2, 3, 4, 5]
    assert max(door.sizes) == 2


async def test_csv_is_sent_by_a_mapping(start: Start, tmp_path: Path) -> None:
    door = await start(Door())
    path = tmp_path / "f.csv"
    path.write_text('carrier;miles\nUA;0.10\n"A;A";\n', encoding="utf-8-sig")
    result = await _send(str(path), "--to", door.url, "--map", CSV_MAP, "--delimiter", ";")
    assert result.exit_code == 0, result.output
    assert [(e["subject"], e["data"]["miles"]) for e in door.events] == [
        ("UA", 0.10),
        ("A;A", None),
    ]


async def test_passing_errors_are_tried_again(start: Start, tmp_path: Path) -> None:
    statuses = {0: 503, 1: 500, 2: 429, 4: 502}
    door = await start(Door(lambda n: web.Response(status=statuses[n]) if n in statuses else None))
    result = await _send(_ndjson(tmp_path / "e.ndjson", 30), "--to", door.url, "--batch", "10")
    assert result.exit_code == 0, result.output
    assert door.ids == list(range(1, 31))
    assert "4 retries" in result.output


async def test_a_server_that_comes_late_gets_everything(tmp_path: Path) -> None:
    door = Door()
    app = web.Application()
    app.router.add_post("/api/v3/metering/events", door.take)
    held = socket.socket()  # refuses connections until it listens, and nobody else can have it
    held.bind(("127.0.0.1", 0))
    server = TestServer(app, socket_factory=lambda *_: held)
    file = _ndjson(tmp_path / "e.ndjson", 20)
    url = f"http://127.0.0.1:{held.getsockname()[1]}"
    sending = asyncio.create_task(_send(file, "--to", url))
    await asyncio.sleep(0.3)
    await server.start_server()
    result = await sending
    await server.close()
    assert result.exit_code == 0, result.output
    assert door.ids == list(range(1, 21))


async def test_retry_after_is_obeyed(start: Start, tmp_path: Path) -> None:
    busy = web.Response(status=429, headers={"Retry-After": "1"})
    door = await start(Door(lambda n: busy if n == 0 else None))
    loop = asyncio.get_running_loop()
    before = loop.time()
    result = await _send(_ndjson(tmp_path / "e.ndjson", 1), "--to", door.url)
    assert result.exit_code == 0, result.output
    assert loop.time() - before >= 1
    assert door.requests == 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0),
        ("5", 5),
        ("999999", 3_600),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
        ("soon", 0),
        ("-5", 0),
    ],
)
def test_retry_after_is_read_in_both_forms(text: str | None, seconds: float) -> None:
    assert retry_after_s(text, 10_000) == seconds


async def test_a_server_that_stays_away_ends_with_its_code(tmp_path: Path) -> None:
    file = _ndjson(tmp_path / "e.ndjson", 1)
    with nobody_at() as port:
        result = await _send(file, "--to", f"http://127.0.0.1:{port}", "--give-up-after", "0")
    assert result.exit_code == 3
    assert "0 events were accepted before" in result.output
    assert "You can send the same input again" in result.output


async def test_a_refused_event_is_named_by_its_line(start: Start, tmp_path: Path) -> None:
    faults = [{"field": "id", "reason": "must not be empty", "source": "body", "index": 3}]
    refused = _problem(400, detail="event 3: ...", invalid_parameters=faults)
    door = await start(Door(lambda n: refused if n == 2 else None))
    file = _ndjson(tmp_path / "e.ndjson", 1_000)
    arguments = ("--batch", "10", "--in-flight", "1")
    result = await _send(file, "--to", door.url, *arguments)
    assert result.exit_code == 1
    assert "e.ndjson: the server refused a batch with status 400" in result.output
    assert "line 24: id: must not be empty" in result.output
    assert "20 events were accepted before" in result.output
    assert door.requests == 3, "nothing is sent after a refusal"


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=404, text="nothing here"),
        _problem(413, detail="nothing here"),
        _problem(400, detail="nothing here", invalid_parameters=[{"field": "x", "index": 99}]),
        web.Response(status=302, text="nothing here", headers={"Location": "/else"}),
        web.Response(status=401, body=b"nothing here\xff"),
    ],
)
async def test_every_other_refusal_names_the_lines_and_what_was_said(
    start: Start, tmp_path: Path, answer: web.Response
) -> None:
    door = await start(Door(lambda _: answer))
    result = await _send(_ndjson(tmp_path / "e.ndjson", 5), "--to", door.url)
    assert result.exit_code == 1
    assert f"status {answer.status}" in result.output
    assert "lines 1 to 5: nothing here" in result.output
    assert ("Set METERLINE_API_KEY to a key" in result.output) == (answer.status == 401)
    assert door.requests == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"id": 1}\n{"id"\n', "line 2 is not a JSON object"),
        (b'[{"id": 1}]', "Write one event per line"),
        (b'{"id": "\xff"}', "line 1 is not a JSON object"),
        (b"5\n", "line 1 is not a JSON object"),
    ],
)
async def test_bad_lines_are_named(start: Start, content: bytes, words: str) -> None:
    door = await start(Door())
    result = await _send("-", "--to", door.url, stdin=content)
    assert result.exit_code == 1
    assert words in result.output
    assert door.events == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the input is empty"),
        (b"carrier,miles\nUA,5\nAA\n", "line 3: has 1 cells, the header has 2"),
        (b"carrier,miles\nUA,five\n", "line 2: column 'miles': 'five' is not a number"),
        (b"carrier,kilometres\nUA,5\n", "line 1: there is no column 'miles'"),
        (b'carrier,miles\n"UA,5\n', "unexpected end of data"),
        (b"carrier,miles\nUA\xff,5\n", "not UTF-8"),
    ],
)
async def test_bad_rows_are_named(start: Start, content: bytes, words: str) -> None:
    door = await start(Door())
    result = await _send("-", "--to", door.url, "--map", CSV_MAP, stdin=content)
    assert result.exit_code == 1
    assert words in result.output
    assert door.events == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing.ndjson",),
        ("f.csv",),
        ("f.csv", "--map", "id=a"),
        ("f.csv", "--map", CSV_MAP, "--delimiter", "::"),
        ("f.csv", "--map", CSV_MAP, "--batch", "0"),
    ],
)
async def test_wrong_usage_has_its_code(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "f.csv").write_text("a\n")
    result = await _send(str(tmp_path / arguments[0]), *arguments[1:])
    assert result.exit_code == 2
    assert "Usage" in result.output


async def test_waiting_ends_when_everything_counts(start: Start, tmp_path: Path) -> None:
    door = await start(Door(lag=3))
    result = await _send(_ndjson(tmp_path / "e.ndjson", 5), "--to", door.url, "--wait")
    assert result.exit_code == 0, result.output
    assert "All were counted" in result.output
    assert door.asked == 3


async def test_waiting_has_a_bound(start: Start, tmp_path: Path) -> None:
    door = await start(Door(lag=1_000_000))
    file = _ndjson(tmp_path / "e.ndjson", 5)
    result = await _send(file, "--to", door.url, "--wait", "--wait-for", "0")
    assert result.exit_code == 4
    assert "records of the log" in result.output


async def test_waiting_may_ask_another_server(start: Start, tmp_path: Path) -> None:
    door, other = await start(Door()), await start(Door())
    file = _ndjson(tmp_path / "e.ndjson", 5)
    result = await _send(file, "--to", door.url, "--wait", "--status", other.url)
    assert result.exit_code == 0, result.output
    assert (door.asked, other.asked) == (0, 1)
    result = await _send(file, "--to", door.url, "--wait", "--status", f"{other.url}/nowhere")
    assert result.exit_code == 4
    assert "--status" in result.output


async def test_a_key_goes_with_every_request(start: Start, tmp_path: Path) -> None:
    door = await start(Door())
    file = _ndjson(tmp_path / "events.ndjson", 2)
    await _send(file, "--to", door.url, "--batch", "1", "--wait", "--api-key", "mtl_x")
    assert door.keys == {"Bearer mtl_x"}
    await _send(file, "--to", door.url)
    assert door.keys == {"Bearer mtl_x", None}
