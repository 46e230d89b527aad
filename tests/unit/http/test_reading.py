"""From a request to a call: every fault at once, and nothing but what was declared."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pydantic import Field

from meterline.access import ANONYMOUS, Principal, Scope
from meterline.backends.clock import SystemClock
from meterline.http import SERVER_OPTIONS, json_response, problem_middleware
from meterline.http.gate import Gate
from meterline.http.mounting import mount
from meterline.http.operation import Answer, Call, Operation, PathName, bind, json_body
from meterline.http.shapes import Closed, CursorPage, Digits, Many, Parameters
from meterline.problem import Problem, ProblemType

Client = TestClient[web.Request, web.Application]


class Filter(Parameters):
    eq: str | None = None


class Asked(Parameters):
    page: CursorPage = CursorPage()
    filter: Annotated[dict[str, Filter], Field(max_length=2)] = {}
    name: Annotated[list[str], Field(max_length=2), Many] = []
    count: Annotated[int, Field(ge=1, le=9), Digits] = 1


class Sent(Closed):
    word: str
    number: int = 0


OPERATION = Operation(
    id="do",
    route="POST /things/{thingId}",
    tag="Things",
    summary="Do",
    scope=Scope.METERS_READ,
    names={"thingId": PathName("thing", "A thing.", "[a-z]+", "abc")},
    parameters=Asked,
    body=json_body(Sent, example={"word": "x"}),
    answer=Answer(200, "What was read."),
)


async def show(call: Call[Asked, Sent]) -> web.Response:
    shown = {
        "thing": call.names["thingId"],
        "size": call.parameters.page.size,
        "after": call.parameters.page.after,
        "filter": {name: it.eq for name, it in call.parameters.filter.items()},
        "name": call.parameters.name,
        "word": call.body.word,
        "sent": call.sent.decode(),
        "who": call.principal.author,
    }
    return json_response(shown)


def identify(authorization: str | None, now_ms: int) -> Principal:
    assert now_ms > 0
    if authorization is None:
        raise Problem(ProblemType.UNAUTHENTICATED, "A key is needed.")
    scopes = ANONYMOUS.scopes if authorization == "all" else frozenset({Scope.EVENTS_WRITE})
    return Principal("acme", f"key:{authorization}", scopes, authorization)


async def served(gate: Gate) -> Client:
    app = web.Application(middlewares=[problem_middleware(SystemClock())])
    app.add_routes(mount([bind(OPERATION, show)], ["/a", "/b"], gate))
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    return TestClient(server)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = await served(Gate(SystemClock()))
    yield made
    await made.close()


@pytest.fixture
async def keyed() -> AsyncIterator[Client]:
    made = await served(Gate(SystemClock(), identify))
    yield made
    await made.close()


async def refused(client: Client, path: str, body: Any, status: int = 400) -> dict[str, Any]:
    response = await client.post(path, json=body)
    assert response.status == status, await response.text()
    document: dict[str, Any] = await response.json()
    return document


@pytest.mark.parametrize("prefix", ["/a", "/b"])
async def test_what_is_declared_is_read(client: Client, prefix: str) -> None:
    query = "page[size]=7&page[after]=c&filter[x][eq]=1&filter[y][eq]=&name=n&count=3"
    response = await client.post(f"{prefix}/things/abc?{query}", json={"word": "w"})
    assert await response.json() == {
        "thing": "abc",
        "size": 7,
        "after": "c",
        "filter": {"x": "1", "y": ""},
        "name": ["n"],
        "word": "w",
        "sent": '{"word": "w"}',
        "who": "anonymous",
    }


async def test_every_fault_of_a_request_is_told_at_once(client: Client) -> None:
    query = "page[size]=101&page[x]=1&count=1&count=2&strange=1&filter=z"
    document = await refused(client, f"/a/things/abc?{query}", {"number": "1", "more": 1})
    found = {(one["source"], one["field"], one["rule"]) for one in document["invalid_parameters"]}
    assert found == {
        ("query", "page[size]", "maximum"),
        ("query", "page[x]", "unknown_property"),
        ("query", "count", "max_items"),
        ("query", "strange", "unknown_property"),
        ("query", "filter", "type"),
        ("body", "word", "required"),
        ("body", "number", "type"),
        ("body", "more", "unknown_property"),
    }


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("count=+1", "count"),
        ("count=1_0", "count"),
        ("count=1.0", "count"),
        ("count=٣", "count"),
        ("count=", "count"),
        ("page=1", "page"),
        ("page[size]=1&page=1", "page"),
        ("page[size", "page[size"),
        ("page[]=1", "page[]"),
        ("name=1&name=2&name=3", "name"),
        ("filter[x][y][z][w]=1", "filter[x][y][z][w]"),
    ],
)
async def test_parameters_that_are_none(client: Client, query: str, field: str) -> None:
    document = await refused(client, f"/a/things/abc?{query}", {"word": "w"})
    assert field in {one["field"] for one in document["invalid_parameters"]}


async def test_a_body_that_is_no_json_is_one_fault_among_others(client: Client) -> None:
    headers = {"Content-Type": "application/json"}
    response = await client.post("/a/things/abc?count=0", data=b'{"word":', headers=headers)
    assert response.status == 400
    faults = (await response.json())["invalid_parameters"]
    assert [(one["field"], one["rule"]) for one in faults] == [
        ("count", "minimum"),
        ("body", "json"),
    ]


async def test_another_media_type_is_refused(client: Client) -> None:
    response = await client.post(
        "/a/things/abc", data=b"{}", headers={"Content-Type": "text/plain"}
    )
    assert response.status == 400
    assert (await response.json())["type"] == "urn:meterline:problem:unsupported-content-type"


@pytest.mark.parametrize("name", ["ABC", "a%2Fb", "1", "%00", "a" * 1_025])
async def test_what_cannot_be_a_name_is_not_found(client: Client, name: str) -> None:
    await refused(client, f"/a/things/{name}", {"word": "w"}, status=404)


async def test_nobody_comes_in_without_a_key_or_its_scope(keyed: Client) -> None:
    response = await keyed.post("/a/things/abc?strange=1", json={})
    assert response.status == 401
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="meterline"'
    response = await keyed.post("/a/things/abc", json={}, headers={"Authorization": "little"})
    assert response.status == 403
    assert "meters:read" in (await response.json())["detail"]
    response = await keyed.post(
        "/a/things/abc", json={"word": ""}, headers={"Authorization": "all"}
    )
    assert (await response.json())["who"] == "key:all"
