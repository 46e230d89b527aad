"""`meterline audit` against a real server in this process."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from meterline.runtime.commands import audit as command
from meterline.runtime.commands.asking import V3, AskingFailed
from tests.services.local import nobody_at

CHECKED = {"slices": 2, "events": 1_000, "cells": 7, "runs": 1, "deliveries": 3}
FINDING = {
    "table": "tallies", "place": "1.0.7", "name": "meter m", "expected": "total 2",
    "found": "nothing", "mended": False,
}  # fmt: skip


def _step(*findings: Any, after: str | None = None, omitted: int = 0) -> dict[str, object]:
    return {
        "findings": list(findings), "omitted": omitted, "checked": CHECKED, "slices_total": 4,
        "runs_total": 2, "next": after,
    }  # fmt: skip


@dataclass(slots=True)
class Server:
    """Answers steps from a list; a number is a status."""

    steps: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.keys.add(request.headers.get("Authorization"))
        step = self.steps.pop(0)
        if isinstance(step, int):
            return web.json_response({"detail": "The key lacks the scope operate."}, status=step)
        return web.json_response(step)

    async def run(self, *arguments: str) -> Result:
        environment = {"METERLINE_API_KEY": "mtl_key"}
        return await asyncio.to_thread(
            CliRunner(env=environment).invoke,
            command.audit,
            ["--server", self.url, *arguments],
        )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_post(f"{V3}/audit", made.answer)
    served = TestServer(app)
    await served.start_server()
    made.url = f"http://127.0.0.1:{served.port}"
    yield made
    await served.close()


async def test_a_clean_audit_is_followed_to_its_end(server: Server) -> None:
    server.steps = [_step(after="slices.1.0.9"), _step()]
    result = await server.run("--from", "2026-01-01T00:00:00+01:00", "--payloads")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2,000 events in 4 slices" in result.stderr
    assert "Runs: 2, with deliveries: 6." in result.stderr
    assert "Clean" in result.stderr
    body = {"payloads": True, "repair": False, "from": "2025-12-31T23:00:00Z"}
    assert server.asked == [body, {**body, "after": "slices.1.0.9"}]
    assert server.keys == {"Bearer mtl_key"}


async def test_every_difference_has_a_line_and_the_exit_says_so(server: Server) -> None:
    server.steps = [_step(FINDING, {**FINDING, "mended": True}, omitted=5)]
    result = await server.run("--repair")
    assert result.exit_code == command.EXIT_DIFFERS
    assert result.stdout.splitlines() == [
        "tallies 1.0.7: meter m: expected total 2; found nothing",
        "tallies 1.0.7: meter m: expected total 2; found nothing (mended)",
        "... and 5 more differences there",
    ]
    assert "7 differences, 1 of them mended" in result.stderr
    assert server.asked[0]["repair"] is True


async def test_quiet_says_differences_only(server: Server) -> None:
    server.steps = [_step(FINDING)]
    result = await server.run("--quiet")
    assert (result.exit_code, result.stderr) == (command.EXIT_DIFFERS, "")
    assert len(result.stdout.splitlines()) == 1


async def test_a_step_is_asked_again_where_the_server_stumbles(server: Server) -> None:
    server.steps = [503, _step()]
    assert (await server.run()).exit_code == 0
    assert len(server.asked) == 2


async def test_an_audit_that_cannot_be_made_is_told(server: Server) -> None:
    server.steps = [403]
    result = await server.run()
    assert result.exit_code == command.EXIT_NOT_MADE
    assert "meterline audit: http://127.0.0.1" in result.stderr
    assert "answered 403: The key lacks the scope operate.\n" in result.stderr
    server.steps = [401]
    result = await server.run()
    assert "Set METERLINE_API_KEY to a key that this server accepts.\n" in result.stderr
    server.steps = [{"data": []}]
    assert (await server.run()).exit_code == command.EXIT_NOT_MADE
    result = await server.run("--from", "yesterday")
    assert result.exit_code == 2
    assert "is no RFC 3339 timestamp, such as" in result.stderr
    result = await server.run("--to", "2026-01-31T12:00:60Z")
    assert (result.exit_code, "only at 23:59" in result.stderr) == (2, True)


async def test_a_server_that_is_away_is_told() -> None:
    with nobody_at() as port:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}"
            steps = command.follow(session, url, {}, retry_delay_s=0.01)
            with pytest.raises(AskingFailed, match=f"{url}.*Cannot connect"):
                await anext(steps)
