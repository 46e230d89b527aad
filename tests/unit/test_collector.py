"""Python's collector walks over little while tests run: it had a fifth of the processor time."""

import gc
import weakref
from contextlib import suppress

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler

from tests.conftest import pytest_collection, pytest_runtest_teardown


def test_what_was_collected_is_not_walked_over() -> None:
    assert gc.get_freeze_count() > 10_000


def test_it_does_nothing_while_tests_are_looked_for() -> None:
    collection = pytest_collection()
    next(collection)
    assert not gc.isenabled()
    with suppress(StopIteration):
        collection.send(None)
    assert gc.isenabled()


@web.middleware
async def _passing(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request)


async def _answer(_request: web.Request) -> web.Response:
    return web.Response()


async def test_an_application_ends_with_its_test() -> None:
    app = web.Application(middlewares=[_passing])
    app.router.add_get("/", _answer)
    there = weakref.ref(app)
    async with TestClient(TestServer(app)) as client, client.get("/") as response:
        assert response.status == 200
    del app, client, response
    pytest_runtest_teardown()
    gc.collect()
    assert there() is None
