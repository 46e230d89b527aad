"""The console's server in a running product: its files, and sessions that end with their key."""

import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import pytest

from tests.journey.client import Answer
from tests.journey.deadline import until
from tests.journey.keyed import KEYS, METER, METERS, OPERATOR, SETTINGS, V3
from tests.journey.processes import run_command
from tests.journey.setups import SetUp, embedded, started

pytestmark = pytest.mark.standard

COOKIE = "__Host-meterline-session"
SESSION = f"{V3}/session"
REVOKED_WITHIN_S = 30.0  # the promise of 5 seconds is held by tests of the key ring
OWN = {"Meterline-Console": "1", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    with started(embedded(tmp_path_factory.mktemp("console"), SETTINGS)) as setup:
        yield setup


def test_the_console_is_there_and_shadows_nothing(product: SetUp) -> None:
    page = product.control.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert product.control.get("/console/meters/a.b").body == page.body
    for asset in re.findall(r'(?:src|href)="(/console/[^"]+)"', page.body.decode()):
        assert product.control.get(asset).status == 200
    for path in ("/api/v9", "/console/assets/gone.js", "/meters"):
        answer = product.control.ask("GET", path)
        assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert product.control.ask("GET", METERS).status == 401


def test_a_session_works_with_its_key_and_ends_with_it(product: SetUp) -> None:
    control, environment = product.control, product.processes["up"].environment
    command = ["keys", "create", "--name", "people", *OPERATOR]
    key = run_command(command, product.folder, environment).split()[-1]

    def signed_in() -> Answer | None:
        answer = control.ask("POST", SESSION, {"key": key}, OWN)
        return answer if answer.status == 201 else None

    begun = until("the key is known", REVOKED_WITHIN_S, signed_in)
    morsel = SimpleCookie(begun.headers["set-cookie"])[COOKIE]
    assert (morsel["secure"], morsel["httponly"], morsel["samesite"]) == (True, True, "Strict")
    own = {**OWN, "Cookie": f"{COOKIE}={morsel.value}"}
    assert control.ask("POST", METERS, METER, own).status == 201
    foreign = {"Cookie": own["Cookie"], "Origin": f"http://localhost:{urlsplit(control.url).port}"}
    assert control.ask("DELETE", f"{METERS}/calls", headers=foreign).status == 403
    assert control.ask("GET", METERS, headers=own).json["data"][0]["key"] == "calls"
    revoked = control.ask("DELETE", f"{KEYS}/{key.split('_')[1]}", headers=own)
    assert revoked.status == 204
    assert control.ask("GET", METERS, headers=own).status == 401
    assert control.ask("GET", SESSION, headers=own).json["signed_in"] is False
