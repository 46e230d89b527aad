"""The operation that sends a test delivery, to a receiver on loopback."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from meterline.limits import TRIALS_MAX
from tests.unit.control.reports.conftest import V3, ReportsApi

ONE = f"{V3}/reports/daily-tokens"
TEST = f"{ONE}/test"


@pytest.fixture
async def receiver() -> AsyncIterator[TestServer]:
    async def receive(request: web.Request) -> web.Response:
        assert request.headers["svix-id"] == request.headers["webhook-id"]
        return web.Response(status=403, text="no" * 1_000)

    app = web.Application()
    app.router.add_post("/hook", receive)
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


async def test_what_came_of_a_test_delivery_is_told(
    served: ReportsApi, receiver: TestServer
) -> None:
    api = served.api
    await served.made_v3(endpoint={"url": str(receiver.make_url("/hook"))})
    await api.json("POST", f"{ONE}/pause")  # whatever its state
    found = await api.json("POST", TEST)
    assert found["delivery_id"].startswith("test_")
    assert (found["delivered"], found["outcome"], found["status"]) == (False, "refused", 403)
    assert found["answer"] == "no" * 512
    assert "signing secret of this report" in found["verdict"]
    assert '"usage":[]' in found["body"]
    assert (await api.json("GET", f"{V3}/deliveries"))["data"] == []
    page = await api.json("GET", f"{V3}/changes")
    assert "test" in [it["action"] for it in page["data"]]


async def test_many_at_once_are_refused(served: ReportsApi, receiver: TestServer) -> None:
    api = served.api
    await served.made_v3(endpoint={"url": str(receiver.make_url("/hook"))})
    for _ in range(TRIALS_MAX):
        await api.json("POST", TEST)
    async with api.client.post(TEST) as response:
        assert response.status == 429
        assert response.headers["Retry-After"] == "60"
    api.clock.at_ms += 60_000
    await api.json("POST", TEST)
    await api.json("POST", f"{V3}/reports/none/test", 404)
