"""What people see who open the address: the console's files, or a page of links."""

import gzip
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from control.front import Console, accepts_gzip, read_console, routes
from meterline.access import Scope
from meterline.http import SERVER_OPTIONS, problem_middleware
from tests.unit.control.conftest import Api, Client, HandClock

SCRIPT = b"console.log(1);" * 200
FILES = {
    "index.html": b'<!doctype html><meta name="meterline-scopes" content="" /><title>x</title>',
    "assets/main-1a.js": SCRIPT,
    "favicon.svg": b"<svg/>",
}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    app = web.Application(middlewares=[problem_middleware(HandClock())])
    app.add_routes(routes(Console(FILES)))
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    async with TestClient(server, auto_decompress=False) as made:
        yield made


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/console",
        "/console/",
        "/console/meters/a.b%2Fc",
        "/console/index.html",
        "/console/x.js",
    ],
)
async def test_every_page_of_the_console_is_its_index(client: Client, path: str) -> None:
    async with client.get(path) as response:
        assert (response.status, response.content_type) == (200, "text/html")
        assert await response.read() == FILES["index.html"]
        assert response.headers["Cache-Control"] == "private, no-cache"
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    async with client.head(path) as response:
        assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("path", ["/api/v9", "/healthz/more", "/assets/main-1a.js", "/consoles"])
async def test_no_other_path_is_the_console(client: Client, path: str) -> None:
    async with client.get(path) as response:
        assert (response.status, response.content_type) == (404, "application/problem+json")


async def test_a_file_is_answered_with_its_type_and_kept_for_good(client: Client) -> None:
    async with client.get("/console/assets/main-1a.js", headers=PLAIN) as response:
        assert await response.read() == SCRIPT
        assert response.content_type == "text/javascript"
        assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    async with client.get("/console/favicon.svg") as response:
        assert response.content_type == "image/svg+xml"
        assert response.headers["Cache-Control"] == "private, no-cache"


async def test_a_missing_asset_is_not_found(client: Client) -> None:
    async with client.get("/console/assets/main-0b.js") as response:
        problem = await response.json(content_type=None)
    assert (response.status, problem["type"]) == (404, "urn:meterline:problem:not-found")
    assert "reload" in problem["detail"]


async def test_large_texts_are_compressed_for_those_who_ask(client: Client) -> None:
    path = "/console/assets/main-1a.js"
    async with client.get(path, headers={"Accept-Encoding": "br, gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(await response.read()) == SCRIPT
        assert response.headers["Vary"] == "Accept-Encoding"
        zipped = response.headers["ETag"]
    async with client.get(path, headers=PLAIN) as response:
        assert "Content-Encoding" not in response.headers
        assert response.headers["ETag"] != zipped
    async with client.get("/", headers={"Accept-Encoding": "gzip"}) as response:
        assert "Content-Encoding" not in response.headers, "a packet carries it either way"


async def test_who_has_it_is_told_that_it_holds(client: Client) -> None:
    async with client.get("/console/") as response:
        tag = response.headers["ETag"]
    async with client.get("/console/", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")
        assert response.headers["ETag"] == tag
    async with client.get("/console/", headers={"If-None-Match": '"other"'}) as response:
        assert response.status == 200


async def test_the_index_says_what_its_viewer_may_do() -> None:
    async def scopes_of(request: web.Request) -> frozenset[Scope]:
        signed_in = request.headers.get("Cookie") == "signed-in"
        return frozenset({Scope.USAGE_READ, Scope.STATUS_READ} if signed_in else ())

    app = web.Application()
    app.add_routes(routes(Console(FILES), scopes_of))
    tags = []
    async with TestClient(TestServer(app)) as client:
        for cookie, scopes in (("none", ""), ("signed-in", "status:read usage:read")):
            async with client.get("/console/meters", headers={"Cookie": cookie}) as response:
                assert f'name="meterline-scopes" content="{scopes}" />' in await response.text()
                assert response.headers["Vary"] == "Accept-Encoding, Cookie"
                tags.append(response.headers["ETag"])
    assert tags[0] != tags[1], "who signs in gets another page"


async def test_nothing_is_sent_to_the_console(client: Client) -> None:
    async with client.post("/console/", data=b"x") as response:
        assert response.status == 405


def test_a_build_is_known_by_what_its_index_names() -> None:
    other = {**FILES, "index.html": b"<!doctype html><title>y</title>"}
    assert Console(FILES).build == Console(dict(FILES)).build
    assert Console(FILES).build != Console(other).build


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("*", True),
        ("", False),
        ("br, deflate", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
    ],
)
def test_gzip_only_where_it_is_asked_for(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_the_package_has_a_console_without_inline_code() -> None:
    console = read_console()
    assert console is not None
    page = console.found("").body.decode()
    assert page.lower().startswith("<!doctype html>")
    assert "<style" not in page
    assert "style=" not in page
    assert page.count('<meta name="meterline-scopes" content="" />') == 1
    assert page.count("<script") == page.count('<script type="module" crossorigin src="/console/')


async def test_without_a_console_there_is_a_page_of_links(api: Api) -> None:
    async with api.client.get("/") as response:
        page = await response.text()
        assert response.headers["Content-Security-Policy"] == "default-src 'none'"
    assert (response.status, response.content_type) == (200, "text/html")
    assert "/api/v3/metering/status" in page
    assert "{idOrKey}" in page
