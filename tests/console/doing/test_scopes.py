"""What a key's scopes do not allow is not offered, and an address typed by hand says what lacks."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.filling import fill
from tests.console.watched import Watched
from tests.journey.client import Server
from tests.journey.keyed import OPERATOR, SETTINGS, known
from tests.journey.processes import run_command
from tests.journey.setups import SetUp, embedded, started

READER = ["events:read", "meters:read", "usage:read", "reports:read", "keys:read", "status:read"]
CHANGES = {
    "/meters": ("Meters", ["New meter"]),
    "/meters/tokens": ("Tokens used", ["Revise", "End"]),
    "/syncs": ("Syncs", ["New sync"]),
    "/syncs/tokens-daily": (
        "tokens-daily",
        ["Edit", "Pause", "Replay", "End", "Send a test delivery", "Show it", "Rotate it"],
    ),
    "/subject?key=acme": ("acme", ["Erase"]),
    "/refusals": ("Refusals", []),
    "/keys": ("Keys", ["Create the key", "Rotate", "Revoke"]),
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    with started(embedded(tmp_path_factory.mktemp("scoped"), SETTINGS)) as setup:
        filler = Server(setup.control.url, _key(setup, "filler", OPERATOR))
        known(filler)
        fill(filler)
        yield setup


def _key(keyed: SetUp, name: str, scopes: list[str]) -> str:
    command = ["keys", "create", "--name", name, *scopes]
    return run_command(command, keyed.folder, keyed.processes["up"].environment).split()[-1]


def test_a_reader_is_offered_no_change(keyed: SetUp, browser: Browser) -> None:
    url = keyed.control.url
    context = browser.new_context()
    watched = Watched(context.new_page(), url)
    page = watched.open("/", "Sign in to Meterline")
    reader = _key(keyed, "reader", [f"--scope={scope}" for scope in READER])
    known(Server(url, reader))
    page.get_by_label("API key").fill(reader)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", level=1, name="Overview").wait_for()
    for path, (heading, names) in CHANGES.items():
        watched.open(path, heading)
        page.wait_for_load_state("networkidle")
        for name in names:
            for role in ("button", "link"):
                offered = page.get_by_role(role, name=name, exact=True)
                assert offered.count() == 0, f"{path} offers {name}"
    watched.open("/refusals?kind=conflict", "Refusals")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="Differences")).to_be_visible()
    expect(page.get_by_role("button", name="Dismiss")).to_be_hidden()
    expect(page.get_by_role("button", name="Send the mended event")).to_be_hidden()
    for path, heading, scope in (
        ("/new/meters", "New meter", "meters:write"),
        ("/new/syncs", "New sync", "reports:write"),
        ("/syncs/tokens-daily/edit", "Edit tokens-daily", "reports:write"),
    ):
        watched.open(path, heading)
        expect(page.get_by_text("This key cannot do that.")).to_be_visible()
        expect(page.get_by_role("main")).to_contain_text(scope)
        assert page.locator("form").count() == 0
    context.close()
    assert watched.complaints == []


def test_who_may_not_see_syncs_is_not_told_that_there_is_none(
    keyed: SetUp, browser: Browser
) -> None:
    url = keyed.control.url
    context = browser.new_context()
    watched = Watched(context.new_page(), url)
    page = watched.open("/event?source=chat-api&id=r-1", "Sign in to Meterline")
    support = _key(keyed, "support", ["--scope=events:read"])
    known(Server(url, support))
    page.get_by_label("API key").fill(support)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("The event that counts")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("reports:read")
    expect(page.get_by_text("No sync has reported it")).to_be_hidden()
    context.close()
    assert watched.complaints == []


def test_who_may_not_see_events_asks_why_without_them(keyed: SetUp, browser: Browser) -> None:
    url = keyed.control.url
    context = browser.new_context()
    watched = Watched(context.new_page(), url)
    january = "from=2026-01-01T00:00:00Z&to=2026-01-06T00:00:00Z&by=P1D"
    page = watched.open(f"/meters/tokens?{january}", "Sign in to Meterline")
    scopes = ["meters:read", "usage:read", "status:read"]
    payer = _key(keyed, "payer", [f"--scope={scope}" for scope in scopes])
    known(Server(url, payer))
    page.get_by_label("API key").fill(payer)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("region", name="Usage by window").get_by_role("button").first.click()
    why = page.get_by_role("dialog")
    expect(why.get_by_role("region", name="Cells of the number")).to_be_visible()
    expect(why).to_contain_text("events:read")
    expect(why.get_by_role("alert")).to_be_hidden()
    page = watched.open("/", "Overview")
    expect(page.get_by_text("duplicate: sent again, counted once")).to_be_visible()
    assert page.locator("a[href*='/events'], a[href*='/refusals']").count() == 0
    context.close()
    assert watched.complaints == []
