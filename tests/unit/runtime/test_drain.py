"""The end of a process: not ready first, then nothing more."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from meterline.ports import Unavailable
from meterline.runtime.drain import Drain, draining


async def test_it_is_not_ready_from_the_signal_on_and_ends_later() -> None:
    stop = asyncio.Event()
    drain = Drain(stop, 0.05)
    running = asyncio.create_task(drain.run())
    await asyncio.sleep(0)
    await drain.check()
    stop.set()
    with pytest.raises(Unavailable, match="stopping"):
        await drain.check()
    await asyncio.sleep(0)
    assert not drain.ended.is_set()
    await running
    assert drain.ended.is_set()


async def test_without_a_time_it_ends_at_once() -> None:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        drain = draining(stack, stop, 0)
        stop.set()
        await drain.ended.wait()


async def test_answers_close_their_connections_once_it_stops() -> None:
    stop = asyncio.Event()
    drain = Drain(stop, 60)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application(middlewares=drain.middlewares())
    app.add_routes([web.get("/", answer)])
    async with TestClient(TestServer(app)) as client:
        assert "Connection" not in (await client.get("/")).headers
        stop.set()
        answered = await client.get("/")
        assert (answered.status, answered.headers["Connection"]) == (200, "close")
