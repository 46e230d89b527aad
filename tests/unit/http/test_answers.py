"""What the middleware keeps and tells, where a request fails."""

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import AsyncIterator

import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from meterline.backends.clock import SystemClock
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.ports import Unavailable
from meterline.problem import Problem, ProblemType

BODY_BYTES = 1_000_000
Client = TestClient[web.Request, web.Application]


@pytest.fixture
def app() -> web.Application:
    """An application that refuses every body."""

    async def refuse(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            body.decode("ascii")
        except UnicodeDecodeError as error:  # holds the body, too
            raise Problem(ProblemType.BAD_REQUEST, f"{len(body)} bytes are too many") from error
        raise AssertionError("not ASCII is what the test sends")

    async def lost(_: web.Request) -> web.Response:
        raise ConnectionResetError("a database's")

    async def full(_: web.Request) -> web.Response:
        raise Problem(ProblemType.UNAVAILABLE, "send them again") from Unavailable(
            "the disk is full"
        )

    app = web.Application(middlewares=[problem_middleware(SystemClock())], client_max_size=2**30)
    app.add_routes([web.post("/", refuse), web.get("/lost", lost), web.get("/full", full)])
    return app


@pytest.fixture
async def client(app: web.Application) -> AsyncIterator[Client]:
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client: Client = TestClient(server)
    yield client
    await client.close()


async def test_a_refused_body_is_let_go_at_once(client: Client) -> None:
    async def send() -> None:
        async with client.post("/", data=b"\xff" * BODY_BYTES) as response:
            assert response.status == 400
            assert (await response.json(content_type=None))["detail"]

    await send()
    gc.collect()
    gc.disable()  # the collector runs seldom in a server, and a body may be ten megabytes
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            await send()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < 5 * BODY_BYTES


async def test_a_client_that_goes_away_is_no_error(
    app: web.Application, caplog: pytest.LogCaptureFixture
) -> None:
    runner = web.AppRunner(app, **SERVER_OPTIONS)  # a TestServer cancels its handlers instead
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    with caplog.at_level(logging.INFO):
        _, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(0.05)  # the handler waits for the rest by now
        writer.close()
        await asyncio.sleep(0.05)
        await runner.cleanup()
    assert caplog.records == []


async def test_another_connection_that_is_lost_is_an_error(client: Client) -> None:
    async with client.get("/lost") as response:
        assert response.status == 500
        document = await response.json(content_type=None)
    assert document["type"] == "urn:meterline:problem:internal"


async def test_a_request_that_cannot_be_answered_now_has_a_line_with_the_reason(
    client: Client,
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with client.get("/full") as response:
            assert response.status == 503
            answer = await response.json(content_type=None)
    assert answer["detail"] == "send them again"
    (line,) = lines
    assert line == {
        "event": "request",
        "action": "unavailable",
        "reason": "the disk is full",
        "log_level": "warning",
    }
