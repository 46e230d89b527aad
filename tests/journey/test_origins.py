"""Web pages of other origins before a running product in mode none, and proxies that go on."""

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.journey.client import Answer, Server
from tests.journey.setups import SetUp, embedded, started
from tests.journey.test_proxy import PASSWORD, assert_problem, basic, proxy

pytestmark = pytest.mark.standard

METERS = "/api/v3/metering/meters"
METER = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    settings = {"METERLINE_ALLOWED_HOSTS": "meter.example.com,ui.example.com:8443"}
    with started(embedded(tmp_path_factory.mktemp("origins"), settings)) as setup:
        yield setup


def changed(server: Server, headers: dict[str, str]) -> Answer:
    """A change that needs no body."""
    return server.ask("DELETE", f"{METERS}/absent", headers=headers)


def test_a_page_that_rebinds_its_name_reads_and_sends_nothing(product: SetUp) -> None:
    rebound = {"Host": "evil.example:8888"}
    for path in ("/", METERS, "/api/openapi.json", "/api/v1/events", "/nothing"):
        answer = product.control.ask("GET", path, headers=rebound)
        assert_problem(answer, "forbidden", 403)
        assert "allowed_hosts" in answer.json["detail"]
    assert_problem(product.control.ask("POST", METERS, METER, rebound), "forbidden", 403)
    assert product.control.get(METERS).json["data"] == []
    for path in ("/healthz", "/readyz"):
        product.control.get(path, rebound)


def test_a_page_of_another_origin_changes_nothing(product: SetUp) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert_problem(changed(product.control, headers), "forbidden", 403)
    for headers in (
        {},
        {"Origin": product.control.url, "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://meter.example.com"},
        {"Origin": "https://ui.example.com:8443", "Sec-Fetch-Site": "cross-site"},
        {"Host": "meter.example.com", "Origin": "https://meter.example.com"},
    ):
        assert_problem(changed(product.control, headers), "not-found", 404)


def test_a_proxy_in_front_goes_on_under_a_name_of_its_own(
    product: SetUp, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("front") / "caddy"
    with proxy(folder, product.control.url, "meter.test") as door:
        named = {**basic(PASSWORD), "Host": f"meter.test:{urlsplit(door.url).port}"}
        assert door.ask("GET", METERS, headers=named).status == 200
        assert_problem(changed(door, named), "not-found", 404)
        foreign = {**named, "Origin": "http://evil.example"}
        assert_problem(changed(door, foreign), "forbidden", 403)


def test_two_hosts_in_one_request_are_refused(product: SetUp) -> None:
    at = urlsplit(product.control.url)
    assert at.hostname is not None
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
    connection.putrequest("GET", METERS, skip_host=True)
    connection.putheader("Host", "localhost")
    connection.putheader("Host", "evil.example")
    connection.endheaders()
    assert connection.getresponse().status in {400, 403}
    connection.close()
