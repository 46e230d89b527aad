"""A tab of another release than the server's, and a page whose files cannot be had."""

import json
import re

from playwright.sync_api import Locator, Page, Route, expect

from tests.console.filling import API
from tests.console.watched import Watched

MINUTE_MS = 60_000
WHY = re.compile("/assets/why-(?!link)")


def test_a_stale_tab_loads_itself_anew_and_else_says_what_to_do(watched: Watched) -> None:
    page = watched.open("/", "Overview")
    gone: list[str] = []

    def another_release(route: Route) -> None:
        gone.append(route.request.url)
        route.continue_(url=f"{watched.url}/console/assets/changes-of-before.js")

    asset = re.compile("/assets/changes-")
    page.route(asset, another_release, times=1)
    page.get_by_role("link", name="Changes").click()
    expect(page.get_by_role("region", name="Changes")).to_be_visible()  # loaded anew by itself
    assert len(gone) == 1
    page = watched.open("/", "Overview")
    page.route(asset, another_release)
    page.get_by_role("link", name="Changes").click()
    expect(page.get_by_role("button", name="Reload the page")).to_be_visible()
    assert watched.violations() == []
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.unroute(asset)
    page.get_by_role("button", name="Reload the page").click()
    expect(page.get_by_role("region", name="Changes")).to_be_visible()
    watched.forgive("404", "Failed to fetch dynamically imported module")
    assert watched.complaints == []


def a_number(watched: Watched) -> tuple[Page, Locator]:
    """A page with a number of usage that can be asked why."""
    page = watched.open("/meters/tokens?from=2026-01-01&to=2026-01-06&by=P1D", "Tokens used")
    return page, page.get_by_role("region", name="Usage by window").get_by_role("button").first


def test_a_stale_tab_that_lacks_the_files_of_why_keeps_its_page(watched: Watched) -> None:
    page, number = a_number(watched)
    page.route(WHY, lambda route: route.fulfill(status=404))
    number.click()  # the page is loaded anew by itself, once
    expect(page.get_by_role("button", name="Reload the page")).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="Tokens used")).to_be_visible()
    page.unroute(WHY)
    page.get_by_role("button", name="Reload the page").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    watched.forgive("404", "Failed to fetch dynamically imported module")
    assert watched.complaints == []


def test_a_page_that_loads_itself_anew_has_no_button_that_would_go_away(watched: Watched) -> None:
    page, number = a_number(watched)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(WHY, lambda route: route.fulfill(status=404))
    page.route(re.compile("/console/$"), hold)  # whether the server answers
    number.click()
    expect(page.get_by_text("The page reloads")).to_be_visible()
    expect(page.get_by_role("button", name="Reload the page")).to_be_hidden()
    page.unroute(WHY)
    held[0].continue_()
    expect(page.get_by_role("dialog")).to_be_visible()
    watched.forgive("404", "Failed to fetch dynamically imported module")
    assert watched.complaints == []


def test_a_page_that_cannot_load_itself_anew_offers_it(watched: Watched) -> None:
    page, number = a_number(watched)
    page.route(WHY, lambda route: route.fulfill(status=404))
    page.route(re.compile("/console/$"), lambda route: route.fulfill(status=503))
    number.click()
    expect(page.get_by_role("button", name="Reload the page")).to_be_visible()
    expect(page.get_by_text("The page reloads")).to_be_hidden()
    watched.forgive("404", "503", "Failed to fetch dynamically imported module")
    assert watched.complaints == []


def test_a_newer_console_of_the_server_is_offered(watched: Watched) -> None:
    watched.page.clock.install()
    page = watched.open("/", "Overview")
    notice = page.get_by_text("The server has a newer console.")
    expect(notice).to_be_hidden()

    def newer(route: Route) -> None:
        session = route.fetch().json() | {"console": "of-the-next-release"}
        route.fulfill(body=json.dumps(session), content_type="application/json")

    page.route(f"**{API}/session", newer)
    page.clock.fast_forward(MINUTE_MS)  # the page asks each minute
    expect(notice).to_be_visible()
    page.unroute(f"**{API}/session")
    page.get_by_role("button", name="Load it").click()
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    expect(notice).to_be_hidden()
