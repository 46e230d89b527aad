"""Which hosts and origins are answered where nobody shows a key."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.clock import SystemClock
from meterline.http import SERVER_OPTIONS, problem_middleware
from meterline.http.origins import Authority, HostRule, host_middleware, parse_authority
from meterline.limits import HOST_CHARS_MAX

CHANGING = ("POST", "PUT", "PATCH", "DELETE", "QUERY")
READING = ("GET", "HEAD", "OPTIONS")
OPEN = HostRule(any_host=True)
STRICT = HostRule(frozenset({Authority("meter.example.com"), Authority("ui.example.com", 8443)}))
PORTS = st.one_of(st.just(""), st.integers(0, 65_535).map(lambda port: f":{port}"))
LOCAL = st.sampled_from(
    [
        "localhost",
        "LocalHost",
        "localhost.",
        "a.localhost",
        "a.b.LOCALHOST.",
        "127.0.0.1",
        "127.9.8.7",
        "0.0.0.0",
        "192.168.1.5",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[FD00::8]",
    ]
)
FOREIGN = st.sampled_from(
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "notlocalhost",
        "evil.example.",
        "EVIL.example",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "::1",
        "[::1",
        "[::1%25lo]",
        "user@localhost",
        "localhost/",
        "localhost ",
        "",
        ".",
        "a..b",
        "localhost,evil.example",
        "xn--e1afmkfd.example",
        "meter.example.com.evil.example",
    ]
)
SCHEMES = st.sampled_from(["http", "https"])


@given(LOCAL, PORTS, st.sampled_from(CHANGING + READING))
def test_addresses_and_localhost_are_answered_in_every_spelling(
    host: str, port: str, method: str
) -> None:
    assert STRICT.refusal(method, [host + port]) is None


@given(FOREIGN, PORTS, st.sampled_from(CHANGING + READING))
def test_other_hosts_are_refused_with_the_setting_to_change(
    host: str, port: str, method: str
) -> None:
    words = STRICT.refusal(method, [host + port])
    assert words is not None
    assert "allowed_hosts" in words
    if method in READING:
        assert OPEN.refusal(method, [host + port]) is None, "hosts of such a set-up are not known"


@given(st.text(max_size=400), st.sampled_from(CHANGING + READING))
def test_any_text_at_all_is_judged(text: str, method: str) -> None:
    for host, origin in ((text, "http://localhost"), ("localhost", text)):
        words = STRICT.refusal(method, [host], [origin])
        assert words is None or len(words) < HOST_CHARS_MAX * 11 + 300


@given(LOCAL, PORTS, SCHEMES, st.sampled_from(CHANGING))
def test_a_page_of_the_same_host_and_port_may_change_things(
    host: str, port: str, scheme: str, method: str
) -> None:
    for rule in (STRICT, OPEN):
        assert rule.refusal(method, [host + port], [f"{scheme}://{host}{port}"]) is None


@given(
    st.sampled_from(CHANGING),
    st.one_of(
        st.sampled_from(["null", "", "http://", "file://", "chrome-extension://localhost:8888"]),
        st.builds("{}://{}{}".format, SCHEMES, FOREIGN, PORTS),
        st.builds("{}://localhost:{}".format, SCHEMES, st.integers(0, 65_535)).filter(
            lambda origin: not origin.endswith(":8888")
        ),
        st.builds("{}://127.0.0.1:8888".format, SCHEMES),
    ),
)
def test_a_page_of_another_origin_reads_nothing_and_changes_nothing(
    method: str, origin: str
) -> None:
    for rule in (STRICT, OPEN):
        assert rule.refusal(method, ["localhost:8888"], [origin]) is not None
        assert rule.refusal("GET", ["localhost:8888"], [origin]) is None, "CORS hides the answer"


@pytest.mark.parametrize(
    ("host", "origin", "taken"),
    [
        ("localhost", "http://localhost:80", True),
        ("localhost", "https://localhost:443", True),
        ("localhost:443", "https://localhost", True),
        ("localhost", "https://localhost:80", False),
        ("localhost", "http://localhost:443", False),
        ("localhost", "http://LOCALHOST.", True),
        ("[::1]:8888", "http://[0:0::1]:8888", True),
        ("127.0.0.1:8888", "https://meter.example.com", True),
        ("127.0.0.1:8888", "https://meter.example.com:9000", True),
        ("127.0.0.1:8888", "https://ui.example.com:8443", True),
        ("127.0.0.1:8888", "https://ui.example.com", False),
    ],
)
def test_ports_that_are_not_written_and_hosts_of_the_setting(
    host: str, origin: str, *, taken: bool
) -> None:
    assert (STRICT.refusal("POST", [host], [origin]) is None) is taken


def test_a_host_of_the_setting_is_answered_at_its_port() -> None:
    for host in ("meter.example.com", "METER.example.com.:1", "ui.example.com:8443"):
        assert STRICT.refusal("GET", [host]) is None
    assert STRICT.refusal("GET", ["ui.example.com"]) is not None


def test_a_browser_that_says_cross_site_changes_nothing() -> None:
    here = ["localhost"]
    assert STRICT.refusal("POST", here, (), ["cross-site"]) is not None
    assert STRICT.refusal("POST", here, ["http://localhost"], ["cross-site"]) is not None
    assert STRICT.refusal("GET", here, (), ["cross-site"]) is None
    assert STRICT.refusal("POST", here, (), ["same-origin"]) is None
    named = ["https://meter.example.com"]
    assert STRICT.refusal("POST", here, named, ["cross-site"]) is None, "the setting names it"


def test_without_a_host_it_is_no_browser_and_two_are_an_attack() -> None:
    assert STRICT.refusal("POST", []) is None
    assert STRICT.refusal("POST", [], ["http://localhost"]) is not None
    for rule in (STRICT, OPEN):
        assert rule.refusal("GET", ["localhost", "localhost"]) is not None
        assert rule.refusal("POST", ["localhost"], ["http://localhost"] * 2) is not None


@given(LOCAL, PORTS)
def test_an_authority_has_one_spelling(host: str, port: str) -> None:
    once = parse_authority(host + port)
    shown = f"[{once.host}]" if ":" in once.host else once.host
    again = shown if once.port is None else f"{shown}:{once.port}"
    assert parse_authority(again) == once


@pytest.fixture
async def client() -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="done")

    clock = SystemClock()
    app = web.Application(middlewares=[problem_middleware(clock), host_middleware(STRICT)])
    app.add_routes([web.route("*", path, answer) for path in ("/", "/healthz", "/readyz")])
    app.add_routes([web.post("/api/v1/reports/1/pause", answer)])
    server = TestServer(app)
    await server.start_server(**SERVER_OPTIONS)
    client: TestClient[web.Request, web.Application] = TestClient(server)
    yield client
    await client.close()


async def test_a_refusal_is_a_problem_and_probes_are_open(
    client: TestClient[web.Request, web.Application],
) -> None:
    rebound = {"Host": "evil.example:8888"}
    for path in ("/", "/nothing/there"):
        async with client.get(path, headers=rebound) as refused:
            document = await refused.json(content_type=None)
            assert (refused.status, refused.content_type) == (403, "application/problem+json")
            assert document["type"] == "urn:meterline:problem:forbidden"
            assert "evil.example:8888" in document["detail"]
            assert document["instance"] == f"urn:request:{refused.headers['X-Request-Id']}"
    for path in ("/healthz", "/readyz"):
        async with client.get(path, headers=rebound) as probed:
            assert probed.status == 200
    async with client.post("/readyz", headers=rebound) as changed:
        assert changed.status == 403


async def test_a_change_without_a_body_needs_the_origin_too(
    client: TestClient[web.Request, web.Application],
) -> None:
    path = "/api/v1/reports/1/pause"
    mine = f"http://{client.host}:{client.port}"
    for origin, status in ((None, 200), (mine, 200), ("null", 403), ("http://evil.example", 403)):
        headers = {} if origin is None else {"Origin": origin}
        async with client.post(path, headers=headers) as answer:
            assert answer.status == status, origin
            if status == 403:
                document = await answer.json(content_type=None)
                assert document["extensions"] == {"validationErrors": []}, "as v1 tells problems"
