"""In mode `keys`, people sign in with a key and come back to the page that they asked for."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.console.watched import Watched, reach
from tests.journey.client import Server
from tests.journey.keyed import OPERATOR, SETTINGS, known
from tests.journey.processes import run_command
from tests.journey.setups import SetUp, embedded, started

AWAY = {
    "type": "about:blank",
    "status": 503,
    "title": "Unavailable",
    "detail": "The control store did not respond in time.",
    "instance": "urn:request:of-a-test",
}


def _refuse(route: Route) -> None:
    if route.request.method == "DELETE":
        route.fulfill(status=503, json=AWAY)
    else:
        route.continue_()


@pytest.fixture
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    with started(embedded(tmp_path_factory.mktemp("signed"), SETTINGS)) as setup:
        yield setup


def test_who_signs_in_comes_back_to_the_page_and_signs_out(keyed: SetUp, browser: Browser) -> None:
    command = ["keys", "create", "--name", "people", *OPERATOR]
    key = run_command(command, keyed.folder, keyed.processes["up"].environment).split()[-1]
    known(Server(keyed.control.url, key))
    context = browser.new_context()
    watched = Watched(context.new_page(), keyed.control.url)
    page = watched.open("/changes", "Sign in to Meterline")
    assert watched.violations() == []
    reach(watched, page.get_by_label("API key"))  # by keyboard alone, as all that follows
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Changes").wait_for()
    assert page.url.endswith("/console/changes")
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    assert key not in str(cookie), "the key itself is kept nowhere"
    page.route("**/session", _refuse)
    reach(watched, page.get_by_role("button", name="Sign out"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The control store did not respond")
    watched.forgive("status of 503")
    page.unroute("**/session")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Sign in to Meterline").wait_for()
    assert context.cookies() == []
    context.close()
    assert watched.complaints == []
