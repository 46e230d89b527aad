"""Scrapes: stores are asked seldom and never waited for; requests are told by operation."""

import asyncio

import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from meterline.backends.clock import SystemClock
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.connections import Runner
from meterline.http.scrape import OPERATION, Scrape, measuring
from meterline.ports import Unavailable, metrics
from tests.unit.backends.telemetry.test_prometheus import values


async def test_stores_are_asked_once_in_a_while() -> None:
    asked = 0

    async def look() -> None:
        nonlocal asked
        asked += 1

    scrape = Scrape(PrometheusRecorder().exposition, ask_s=3_600)
    scrape.looks.append(look)
    for _ in range(5):
        await scrape.look()
    assert asked == 1
    often = Scrape(PrometheusRecorder().exposition, ask_s=0)
    often.looks.append(look)
    for _ in range(5):
        await often.look()
    assert asked == 6


async def test_a_scrape_does_not_wait_for_a_store_that_hangs() -> None:
    recorder, begun = PrometheusRecorder(), 0

    async def look() -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    scrape = Scrape(recorder.exposition, ask_s=0, wait_s=0.01)
    scrape.looks.append(look)
    async with TestClient(TestServer(application(scrape.routes()))) as client:
        for _ in range(3):
            answer = await client.get("/metrics")
            assert answer.status == 200
            assert "meterline_ready" in await answer.text()
    assert begun == 1  # one look at a time, however many scrapes
    await scrape.close()


async def test_a_look_that_fails_takes_no_other_along() -> None:
    recorder = PrometheusRecorder()

    async def away() -> None:
        raise Unavailable("the store is away")

    async def wrong() -> None:
        raise ValueError("a fault of ours")

    async def well() -> None:
        recorder.set(metrics.READY, 1)

    scrape = Scrape(recorder.exposition)
    scrape.looks += [away, wrong, well]
    await scrape.look()
    assert values(recorder, "meterline_ready") == {(): 1.0}


async def test_requests_are_told_by_operation_and_status() -> None:
    recorder = PrometheusRecorder()

    async def named(request: web.Request) -> web.Response:
        request[OPERATION] = "list-meters"
        if "cut" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b"the first")
        if request.query:
            raise ValueError("a fault of ours")
        return web.Response(text="here")

    routes = [web.get("/named", named)]
    app = web.Application(middlewares=[problem_middleware(SystemClock())])
    app.add_routes(routes)
    runner = Runner(app, SystemClock(), measuring(recorder), **SERVER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with ClientSession(f"http://{host}:{port}") as client:
        await client.get("/named")
        await client.get("/named")
        await client.get("/named?broken=1")
        with pytest.raises(ClientPayloadError):
            await (await client.get("/named?cut=1")).read()
        for number in range(20):
            await client.get(f"/made-up/{number}")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"this is no HTTP\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.0 400"), "answered, and not told"
        writer.close()
    await runner.cleanup()
    assert values(recorder, "meterline_http_requests_total") == {
        ("list-meters", "200"): 2.0,
        ("list-meters", "500"): 2.0,
        ("other", "404"): 20.0,
    }
    assert values(recorder, "meterline_http_request_seconds_count") == {
        ("list-meters",): 4.0,
        ("other",): 20.0,
    }


def application(routes: list[web.RouteDef]) -> web.Application:
    app = web.Application()
    app.add_routes(routes)
    return app
