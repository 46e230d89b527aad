"""Every page by axe in both themes, and on a phone."""

from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.console.filling import API, ARABIC, LONG, SCRIPT
from tests.console.watched import Watched
from tests.journey.client import Server

PAGES = {
    "/": "Overview",
    "/meters": "Meters",
    "/meters/tokens?from=2026-01-01T00:00:00Z&to=2026-01-06T00:00:00Z&group=subject": "Tokens used",
    "/new/meters": "New meter",
    "/meters/tokens/revise": "Revise Tokens used",
    "/syncs": "Syncs",
    "/new/syncs": "New sync",
    "/syncs/tokens-daily": "tokens-daily",
    "/syncs/tokens-daily/edit": "Edit tokens-daily",
    "/events": "Events",
    "/event?source=chat-api&id=r-1": "Event r-1",
    "/refusals": "Refusals",
    "/subjects": "Subjects",
    "/subject?key=acme": "acme",
    f"/subject?key={quote(LONG)}": LONG,
    f"/subject?key={quote(SCRIPT)}": SCRIPT,
    f"/subject?key={quote(ARABIC)}": ARABIC,
    f"/events?subject={quote(LONG)}": "Events",
    f"/event?source=chat-api&id={quote('r-22')}": "Event r-22",
    "/nowhere": "There is no such page",
    "/keys": "Keys",
    "/changes": "Changes",
}
WIDE = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)
CUT_PX = """(table, one) =>
    one.getBoundingClientRect().right - table.getBoundingClientRect().right"""
TWO_LINES_PX = 56


@pytest.fixture(params=[("light", WIDE), ("dark", WIDE), ("light", PHONE)], ids=str)
def looked(request: pytest.FixtureRequest, browser: Browser, console: str) -> Iterator[Watched]:
    theme: Literal["light", "dark"]
    theme, size = request.param
    context = browser.new_context(color_scheme=theme, viewport=size)
    one = Watched(context.new_page(), console)
    yield one
    context.close()
    assert one.complaints == []


def test_axe_finds_nothing(looked: Watched) -> None:
    found: dict[str, list[str]] = {}
    (first, *_) = Server(looked.url).get(f"{API}/deliveries").json["data"]
    delivery = {f"/deliveries/{first['id']}": f"Delivery to {first['subject']}"}
    (run, *_) = Server(looked.url).get(f"{API}/reports/tokens-daily/runs").json["data"]
    its_run = {f"/syncs/tokens-daily?run={run['id']}": "tokens-daily"}
    wrong = {
        "/meters/no_such_meter": "no_such_meter",
        "/meters/no_such_meter/revise": "Revise no_such_meter",
        "/meters/no_such_meter/revisions/2": "no_such_meter",
        "/syncs/no-such-sync/edit": "Edit no-such-sync",
    }
    for path, heading in {**PAGES, **delivery, **its_run, **wrong}.items():
        page = looked.open(path, heading)
        page.wait_for_load_state("networkidle")
        assert looked.overflow() <= 0, path
        if violations := looked.violations():
            found[path] = violations
    looked.forgive("404")  # of the meter that is not there
    assert found == {}


def test_a_table_on_a_phone_shows_what_stands_beside_a_long_name(
    console: str, browser: Browser
) -> None:
    context = browser.new_context(viewport=PHONE)
    watched = Watched(context.new_page(), console)
    page = watched.open("/subjects", "Subjects")
    subjects = page.get_by_role("region", name="Subjects")
    first = subjects.locator("time").first
    first.wait_for()
    assert subjects.evaluate(CUT_PX, first.element_handle()) <= 0, "the first event is cut"
    page = watched.open("/changes", "Changes")
    rows = page.get_by_role("region", name="Changes").get_by_role("row")
    rows.nth(1).wait_for()
    heights = rows.evaluate_all("(rows) => rows.map((row) => row.offsetHeight)")
    assert max(heights) <= TWO_LINES_PX, "a sentence becomes a tower"
    context.close()
    assert watched.complaints == []


def test_the_first_page_is_small(console: str, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{console}/console/")
    page.get_by_role("heading", level=1, name="Overview").wait_for()
    sizes: int = page.evaluate(
        "performance.getEntriesByType('resource')"
        ".filter((one) => one.name.includes('/console/assets/'))"
        ".reduce((sum, one) => sum + one.encodedBodySize, 0)"
    )
    page.close()
    assert 0 < sizes <= 250_000


def test_the_first_view_asks_once_for_each_thing(watched: Watched) -> None:
    """What was asked for before the page's script was there is taken, not asked for again."""
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append(request.url))
    page = watched.open("/", "Overview")
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()
    expect(page.get_by_role("region", name="Syncs")).to_be_visible()
    expect(page.get_by_text("Where the events of the last 24 hours went")).to_be_visible()
    for name in ("session", "accounts", "reports"):  # the status is asked for each three seconds
        assert sum(f"{API}/{name}" in url for url in asked) == 1, asked
