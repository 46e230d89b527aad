"""`meterline reconcile` against a real server in this process."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from dispatcher.sending.signing import signed_headers
from meterline.backends.clock import SystemClock
from meterline.delivery import digest_of
from meterline.runtime.commands import reconcile as command
from meterline.runtime.commands.asking import V3, AskingFailed
from meterline.runtime.commands.pulling import Puller
from tests.services.local import nobody_at

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WINDOW = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
REPORT = {"id": "01M7ZMF4YA7D2SQ292V0W9JPT8", "slug": "tokens"}


def delivery(name: str, *values: str, **members: Any) -> dict[str, Any]:
    body = json.dumps({"usage": [{"valueText": value, "more": 1} for value in values]})
    return {
        "id": name,
        "report": REPORT,
        **WINDOW,
        "subject": "ada",
        "revision": 1,
        "state": "delivered",
        "attempt_count": 1,
        "digest": digest_of(body.encode()).hex(),
        "body": body,
        "headers": signed_headers(name, [SECRET], body.encode(), SystemClock().now_ms()),
        **members,
    }


@dataclass(slots=True)
class Server:
    """Serves pages of deliveries, and one of another report."""

    folder: Path
    pages: list[list[dict[str, Any]]] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # answered first, one by one
    keys: set[str | None] = field(default_factory=set)
    url: str = ""

    async def report(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("Authorization"))
        if self.statuses:
            problem = {"detail": "The key lacks the scope reports:read."}
            return web.json_response(problem, status=self.statuses.pop(0))
        return web.json_response(REPORT)

    async def pull(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.query))
        place = int(request.query.get("page[after]", "0"))
        following = str(place + 1) if place + 1 < len(self.pages) else None
        meta = {"page": {"next": following}}
        return web.json_response({"data": self.pages[place], "meta": meta})

    async def one(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != "elsewhere":
            return web.json_response({"detail": "There is no delivery."}, status=404)
        other = {"id": REPORT["id"], "slug": "other"}
        return web.json_response(delivery("elsewhere", report=other))

    async def run(self, booked: str, *arguments: str, secret: str = SECRET) -> Result:
        path = self.folder / "booked"
        path.write_text(booked, "utf-8")
        environment = {"METERLINE_API_KEY": "mtl_key", "METERLINE_RECEIVE_SECRET": secret}
        return await asyncio.to_thread(
            CliRunner(env=environment).invoke,
            command.reconcile_booked,
            [str(path), "--server", self.url, "--report", "tokens", *arguments],
        )


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path)
    app = web.Application()
    app.router.add_get(f"{V3}/reports/tokens", made.report)
    app.router.add_get(f"{V3}/reports/tokens/pull", made.pull)
    app.router.add_get(f"{V3}/deliveries/{{name}}", made.one)
    served = TestServer(app)
    await served.start_server()
    made.url = f"http://127.0.0.1:{served.port}"
    yield made
    await served.close()


async def test_a_true_book_differs_in_nothing(server: Server) -> None:
    server.pages = [[delivery("a", "1.5", "2.5")], [delivery("b", "7", revision=2)]]
    sha256 = hashlib.sha256(server.pages[0][0]["body"].encode()).hexdigest()
    booked = f"delivery_id,value,subject,sha256\na,4.0,ada,{sha256}\nb,7,ada,\n"
    result = await server.run(booked, "--from", "2026-01-31T01:00:00+01:00", "--to", WINDOW["to"])
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert "2 deliveries, 2 booked as sent" in result.stderr
    assert "No differences." in result.stderr
    first = {**WINDOW, "page[size]": "100"}
    assert server.asked == [first, {**first, "page[after]": "1"}]
    assert server.keys == {"Bearer mtl_key"}


async def test_each_difference_has_a_line_with_its_cause(server: Server) -> None:
    failed = delivery("b", "7", state="failed", attempt_count=8, reason="it answered 500")
    server.pages = [[delivery("a", "4"), failed, delivery("c", "1", superseded_by="d")]]
    server.pages[0].append(delivery("d", "2", revision=2, supersedes="c"))
    lines = [{"id": "a", "value": "5"}, {"id": "c"}, {"id": "elsewhere"}, {"id": "never"}]
    lines += [{"id": "d"}, {"id": "d"}, {"id": "x", "report": "other"}]
    booked = "\n".join(map(json.dumps, lines))
    result = await server.run(booked)
    assert result.exit_code == command.EXIT_DIFFERS
    told = {line.split(":")[0].split(" ")[1]: line for line in result.stdout.splitlines()}
    assert told["a"].startswith("different a ada 2026-01-31T00:00:00Z/")
    assert "booked 5, sent 4" in told["a"]
    assert told["b"].endswith("failed after 8 attempts: it answered 500; replay it")
    assert "it is superseded by d, which is booked too" in told["c"]
    assert "booked 2 times" in told["d"]
    assert "it belongs to report other" in told["elsewhere"]
    assert "Meterline has no such delivery" in told["never"]
    assert "1 bookings are for other reports or windows" in result.stderr
    assert "1 missing, 2 extra, 1 different, 1 superseded, 1 twice." in result.stderr
    shown = json.loads((await server.run(booked, "--json")).stdout)
    assert shown["summary"] == {
        "sent": 4, "equal": 0, "missing": 1, "extra": 2, "different": 1, "superseded": 1,
        "twice": 1, "replaced": 0, "outside": 1,
    }  # fmt: skip
    first = next(one for one in shown["differences"] if one["delivery_id"] == "b")
    assert first == {
        "kind": "missing",
        "delivery_id": "b",
        "subject": "ada",
        **WINDOW,
        "booked": "nothing",
        "sent": "7",
        "cause": "failed after 8 attempts: it answered 500; replay it",
    }


async def test_what_does_not_verify_is_not_compared(server: Server) -> None:
    forged = delivery("a", "4")
    forged["body"] = forged["body"].replace("4", "5")
    other = {**delivery("b", "4"), "id": "a"}
    for wrong, words in (
        (forged, "does not match its digest"),
        (other, "belongs to another delivery"),
    ):
        server.pages = [[wrong]]
        result = await server.run("id\na\n")
        assert (result.exit_code, result.stdout) == (command.EXIT_NOT_MADE, "")
        assert words in result.stderr
    server.pages = [[delivery("a", "4")]]
    result = await server.run("id\na\n", secret="whsec_" + "b3RoZXI" * 5 + "b3RoZXI=")
    assert result.exit_code == command.EXIT_NOT_MADE
    assert "a: its signature is invalid" in result.stderr
    assert (await server.run("id\na\n", secret="")).exit_code == 0, "without a secret, unverified"


async def test_bytes_that_are_not_kept_are_not_compared(server: Server) -> None:
    one = delivery("a", "4")
    del one["body"], one["headers"]
    server.pages = [[one]]
    assert (await server.run("id,value\na,9\n")).exit_code == 0


async def test_it_is_asked_again_where_the_server_stumbles(server: Server) -> None:
    server.pages, server.statuses = [[]], [503]
    assert (await server.run("")).exit_code == 0


async def test_what_cannot_be_compared_is_told(server: Server) -> None:
    server.pages, server.statuses = [[]], [403]
    result = await server.run("")
    assert result.exit_code == command.EXIT_NOT_MADE
    assert "meterline reconcile: http://127.0.0.1" in result.stderr
    assert "answered 403: The key lacks the scope reports:read." in result.stderr
    result = await server.run("value\n1\n")
    assert result.exit_code == command.EXIT_USAGE
    assert "booked: line 1 has no column delivery_id" in result.stderr
    result = await server.run("", "--from", "yesterday")
    assert result.exit_code == 2
    assert "is no RFC 3339 timestamp, such as" in result.stderr
    result = await server.run("", "--to", "2026-01-31T12:00:60Z")
    assert (result.exit_code, "only at 23:59" in result.stderr) == (2, True)


async def test_a_server_that_is_away_is_told() -> None:
    with nobody_at() as port:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}"
            puller = Puller(session, url, "tokens", None, retry_delay_s=0.01)
            with pytest.raises(AskingFailed, match=f"{url}.*Cannot connect"):
                await puller.names()
