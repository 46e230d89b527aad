"""In mode `keys`, people sign in with a key and come back to the page that they asked for."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.console.filling import API
from tests.console.watched import FOCUSED, Watched, reach
from tests.journey.client import Server
from tests.journey.keyed import OPERATOR, SETTINGS, known
from tests.journey.processes import run_command
from tests.journey.setups import SetUp, embedded, started

SIGN_IN = "Sign in to Meterline"
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


def _key(keyed: SetUp, name: str) -> str:
    """A new key that may do everything."""
    command = ["keys", "create", "--name", name, *OPERATOR]
    key = run_command(command, keyed.folder, keyed.processes["up"].environment).split()[-1]
    known(Server(keyed.control.url, key))
    return key


def _sign_in(page: Page, key: str, heading: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", level=1, name=heading).wait_for()


def test_who_signs_in_comes_back_to_the_page_and_signs_out(keyed: SetUp, browser: Browser) -> None:
    key = _key(keyed, "people")
    context = browser.new_context()
    watched = Watched(context.new_page(), keyed.control.url)
    page = watched.open("/changes", SIGN_IN)
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
    page.get_by_role("heading", level=1, name=SIGN_IN).wait_for()
    assert context.cookies() == []
    context.close()
    assert watched.complaints == []


@pytest.fixture
def ended(keyed: SetUp, browser: Browser) -> Iterator[tuple[Watched, str]]:
    """A form of a new meter, half written, whose session ended; and the key that it was of."""
    key = _key(keyed, "of-a-form")
    context = browser.new_context()
    watched = Watched(context.new_page(), keyed.control.url)
    page = watched.open("/new/meters", SIGN_IN)
    _sign_in(page, key, "New meter")
    page.get_by_label("Name", exact=True).fill("Tokens of a form")
    page.get_by_label("What is computed").select_option("count")
    page.get_by_label("Type of the events").fill("completion")
    # Else this question may be the one that finds the session ended, not the form that is sent.
    page.get_by_text("No event has the type completion").wait_for()
    context.clear_cookies()
    page.get_by_role("button", name="Create the meter").click()
    page.get_by_role("heading", level=1, name=SIGN_IN).wait_for()
    yield watched, key
    watched.forgive("401")
    context.close()
    assert watched.complaints == []


def test_a_form_is_kept_over_the_sign_in(ended: tuple[Watched, str]) -> None:
    watched, key = ended
    page = watched.page
    expect(page.get_by_text("Your page is kept")).to_contain_text("of-a-form")
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert watched.violations() == []
    _sign_in(page, key, "New meter")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Tokens of a form")
    expect(page.get_by_label("Type of the events")).to_have_value("completion")
    expect(page.get_by_role("alert").filter(has_text="Your session had ended")).to_be_visible()
    create = page.get_by_role("button", name="Create the meter")
    _has_focus(create)
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Tokens of a form").wait_for()


def _has_focus(one: Locator) -> None:
    assert one.evaluate(FOCUSED), "who comes back is where they were"


def test_a_form_is_not_kept_for_another_key(ended: tuple[Watched, str], keyed: SetUp) -> None:
    watched, _ = ended
    _sign_in(watched.page, _key(keyed, "other"), "New meter")
    expect(watched.page.get_by_label("Name", exact=True)).to_have_value("")
    expect(watched.page.get_by_label("Type of the events")).to_have_value("")


def test_who_rotates_their_own_key_sees_the_new_secret(keyed: SetUp, browser: Browser) -> None:
    context = browser.new_context()
    watched = Watched(context.new_page(), keyed.control.url)
    page = watched.open("/keys", SIGN_IN)
    _sign_in(page, _key(keyed, "own"), "Keys")
    page.get_by_role("button", name="Rotate").click()
    dialog = page.get_by_role("dialog", name="Rotate the secret of own?")
    dialog.get_by_label("The present secret works for").select_option("0")
    dialog.get_by_role("button", name="Rotate").click()
    secret = dialog.get_by_label("The new key")
    expect(secret).to_contain_text("mtl_")
    page.wait_for_timeout(6000)  # the session of before has ended by now
    expect(secret).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Changes").click()
    expect(page.get_by_role("region", name="Changes")).to_be_visible()
    watched.forgive("401")
    context.close()
    assert watched.complaints == []


def test_a_dialog_is_kept_over_the_sign_in(keyed: SetUp, browser: Browser) -> None:
    key = _key(keyed, "of-a-dialog")
    meter = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}
    server = Server(keyed.control.url, key)
    server.made(f"{API}/meters", meter)
    report: dict[str, object] = {"slug": "kept", "meter_id_or_key": "calls", "type": "webhook"}
    report |= {"schedule": {"interval": "1d"}, "endpoint": {"url": "http://127.0.0.1:9/"}}
    server.made(f"{API}/reports", report)
    context = browser.new_context()
    watched = Watched(context.new_page(), keyed.control.url)
    page = watched.open("/syncs/kept", SIGN_IN)
    _sign_in(page, key, "kept")
    page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog", name="Send deliveries again")
    dialog.get_by_label("Subject").fill("acme")
    context.clear_cookies()
    dialog.get_by_label("Subject").fill("acme-corp")  # it is counted again, and refused
    page.get_by_role("heading", level=1, name=SIGN_IN).wait_for()
    expect(dialog).to_be_hidden()
    assert watched.violations() == []
    _sign_in(page, key, "kept")
    expect(dialog.get_by_label("Subject")).to_have_value("acme-corp")
    expect(dialog.get_by_role("status")).to_contain_text("0 deliveries")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    watched.forgive("401")
    context.close()
    assert watched.complaints == []
