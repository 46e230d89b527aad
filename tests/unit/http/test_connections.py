"""What is no HTTP gets a problem, too, and leaves nothing in the log."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from meterline.backends.clock import SystemClock
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.connections import Runner

Address = tuple[str, int]


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    """Where an application answers, as a process serves it."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="fine")

    clock = SystemClock()
    app = web.Application(middlewares=[problem_middleware(clock)])
    app.add_routes([web.get("/", answer)])
    runner = Runner(app, clock, **SERVER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0]
    await runner.cleanup()


async def sent(address: Address, raw: bytes) -> tuple[bytes, bytes]:
    """Head and body of all that comes back until the connection is closed."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(raw)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head, body


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Null: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\x01\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: secret" + b"x" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS where none is spoken
        b"\r\n\r\n\xff\xfe\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_told_so(
    address: Address, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        head, body = await sent(address, raw)
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert status.endswith(" 400 Bad Request")
    assert headers["content-type"] == "application/problem+json"
    document = json.loads(body)
    assert document["type"] == "urn:meterline:problem:bad-request"
    assert document["instance"].lower() == f"urn:request:{headers['x-request-id']}"
    assert "secret" not in document["detail"]
    assert caplog.records == []


async def test_what_is_http_is_answered_as_ever(address: Address) -> None:
    head, body = await sent(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"fine"


@pytest.mark.parametrize(("path", "legacy"), [("/api/v1/meters", True), ("/api/v3/meters", False)])
async def test_a_url_that_is_too_long_is_told_in_the_words_of_its_version(
    address: Address, path: str, legacy: bool
) -> None:
    start = f"GET {path}?subject=".encode()
    _, body = await sent(address, start + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    document = json.loads(body)
    assert "longer than 65536 bytes" in document["detail"]
    assert ("extensions" in document) == legacy
