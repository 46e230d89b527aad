"""Each flow by the keyboard alone: Tab to what is meant, Enter, Space, arrows, Escape."""

from typing import Literal

from playwright.sync_api import Locator, expect

from tests.console.watched import Watched, reach
from tests.journey.deadline import until


def press(watched: Watched, target: Locator, key: str = "Enter") -> None:
    reach(watched, target)
    watched.page.keyboard.press(key)


def test_the_first_tab_skips_to_the_page(watched: Watched) -> None:
    page = watched.open("/", "Overview")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the page")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_from_the_overview_to_why_and_back(watched: Watched) -> None:
    page = watched.open("/", "Overview")
    nav = page.get_by_role("navigation", name="Main")
    press(watched, nav.get_by_role("link", name="Meters"))
    press(watched, page.get_by_role("link", name="Tokens used"))
    group = page.get_by_label("Group by")
    group.wait_for()
    reach(watched, group)
    page.keyboard.press("ArrowDown")  # a list that is closed: the next option
    expect(group).to_have_value("subject")
    number = page.get_by_role("region", name="Usage by window").get_by_role("button").first
    expect(number).to_be_visible()
    press(watched, number)
    why = page.get_by_role("dialog")
    expect(why).to_be_visible()
    page.keyboard.press("Tab")
    assert why.evaluate("(one) => one.contains(document.activeElement)"), "the focus stays inside"
    page.keyboard.press("Escape")
    expect(why).to_be_hidden()


def test_a_language_is_chosen_by_arrows(watched: Watched) -> None:
    page = watched.open("/meters/tokens", "Tokens used")
    curl = page.get_by_role("tab", name="curl")
    curl.wait_for()
    reach(watched, curl)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="TypeScript")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_contain_text("createClient")


def test_a_sync_is_paused_and_resumed(watched: Watched) -> None:
    page = watched.open("/syncs/tokens-daily", "tokens-daily")
    steps: tuple[tuple[str, Literal["alertdialog", "dialog"]], ...] = (
        ("Pause", "alertdialog"),
        ("Resume", "dialog"),
    )
    for name, role in steps:
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_be_visible()
        press(watched, button)
        asked = page.get_by_role(role, name=f"{name} tokens-daily?")
        expect(asked).to_be_visible()
        press(watched, asked.get_by_role("button", name=name))
        expect(asked).to_be_hidden()


def test_events_are_filtered_and_paged(watched: Watched) -> None:
    page = watched.open("/events", "Events")
    reach(watched, page.get_by_label("Id contains"))
    page.keyboard.type("r-20")
    page.keyboard.press("Enter")
    found = page.get_by_role("link", name="r-20")
    expect(page.get_by_role("region", name="Events").get_by_role("row")).to_have_count(2)
    press(watched, found)
    page.get_by_role("heading", level=1, name="Event r-20").wait_for()


def test_a_wide_table_is_scrolled(watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = watched.open("/syncs", "Syncs")
    table = page.get_by_role("region", name="Syncs")
    table.wait_for()
    reach(watched, table)
    page.keyboard.press("ArrowRight")

    def scrolled() -> bool:
        page.wait_for_timeout(50)
        return bool(table.evaluate("(one) => one.scrollLeft > 0"))

    until("the table is scrolled", 60, scrolled)


def test_the_theme_is_switched(watched: Watched) -> None:
    page = watched.open("/", "Overview")
    theme = page.get_by_label("Theme")
    reach(watched, theme)
    page.keyboard.type("D")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
