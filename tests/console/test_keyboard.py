"""Each flow by the keyboard alone: Tab to what is meant, Enter, Space, arrows, Escape."""

import re
from typing import Final, Literal

from playwright.sync_api import Locator, expect

from tests.console.filling import API
from tests.console.keyboard import Keyboard
from tests.console.watched import Watched, reach
from tests.journey.client import Server
from tests.journey.deadline import until

ASIDE_PX: Final = """(table) => [...table.querySelectorAll("th")].map((head, at) => {
    const letter = document.createRange();
    letter.selectNodeContents(head);
    const day = table.rows[2].cells[at].firstElementChild;
    const [a, b] = [letter, day].map((one) => one.getBoundingClientRect());
    return a.left + a.width / 2 - (b.left + b.width / 2);
})"""
JANUARY: Final = "from=2026-01-01T00:00:00Z&to=2026-01-06T00:00:00Z&by=P1D"


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
    part = page.get_by_label("Id contains")
    reach(watched, part)
    page.keyboard.type("r-20")
    page.keyboard.press("Enter")
    found = page.get_by_role("link", name="r-20")
    expect(page.get_by_role("region", name="Events").get_by_role("row")).to_have_count(2)
    expect(part).to_be_focused()  # so that one can write on
    press(watched, found)
    page.get_by_role("heading", level=1, name="Event r-20").wait_for()


def test_the_way_through_a_list_keeps_the_focus(keyboard: Keyboard) -> None:
    found = Server(keyboard.watched.url).get(f"{API}/events").json
    found["meta"]["page"]["next"] = "more"
    keyboard.page.route(re.compile(rf"{API}/events\?"), lambda route: route.fulfill(json=found))
    page = keyboard.watched.open("/events", "Events")
    keyboard.press("Next page")
    expect(page).to_have_url(re.compile("after=more"))
    expect(page.get_by_role("button", name="First page")).to_be_enabled()
    expect(page.get_by_role("button", name="Next page")).to_be_focused()


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


def test_the_time_zone_is_switched(watched: Watched) -> None:
    page = watched.open("/syncs/tokens-daily", "tokens-daily")
    runs = page.get_by_role("region", name="Runs")
    expect(runs).to_contain_text("2026-01-01 00:00:00")
    reach(watched, page.get_by_label("Time zone"))
    page.keyboard.press("ArrowDown")
    expect(runs).to_contain_text("2026-01-01 01:00:00")  # the viewer is in Berlin
    page.reload()  # it is kept
    expect(runs).to_contain_text("2026-01-01 01:00:00")


def test_usage_is_compared_narrowed_and_saved(keyboard: Keyboard) -> None:
    page = keyboard.watched.open(f"/meters/tokens?{JANUARY}", "Tokens used")
    keyboard.choose("Compare with", 1)
    expect(page.get_by_text("before: no usage")).to_be_visible()
    keyboard.reach(page.get_by_role("button", name="Save as CSV"))
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert "1015" in saved.value.path().read_text()
    keyboard.choose("Only where", 1)
    values = page.get_by_role("combobox", name="is", exact=True).locator("option")
    expect(values).to_have_text(["…", "large", "small"])
    keyboard.choose("is", 2)
    usage = page.get_by_role("region", name="Usage by window")
    expect(usage).not_to_contain_text("1,0")  # what the large model used
    keyboard.choose("By", 1)
    expect(page.get_by_role("heading", name="Usage by month")).to_be_visible()


def test_a_range_is_written_and_chosen(keyboard: Keyboard) -> None:
    page = keyboard.watched.open(f"/meters/tokens?{JANUARY}", "Tokens used")
    usage = page.get_by_role("region", name="Usage by window")
    expect(usage).to_contain_text("2026-01-01")
    first = page.get_by_role("spinbutton", name=re.compile("^day, Start"))
    keyboard.reach(first)
    page.keyboard.press("ArrowUp")
    expect(usage).not_to_contain_text("2026-01-01")
    assert "from=2026-01-02" in page.url
    expect(first).to_be_focused()  # so that one can go on
    keyboard.reach(page.get_by_role("spinbutton", name=re.compile("^day, End")))
    page.keyboard.type("05")
    expect(usage).not_to_contain_text("2026-01-05")
    assert "to=2026-01-05" in page.url
    keyboard.reach(page.get_by_role("button", name="Calendar"))
    page.keyboard.press("Enter")
    calendar = page.get_by_role("dialog")
    expect(calendar.get_by_role("grid")).to_be_visible()
    aside = calendar.locator("table").evaluate(ASIDE_PX)
    assert max(map(abs, aside)) < 2, "the letter of a day stands above its numbers"
    page.keyboard.press("Escape")
    expect(calendar).to_be_hidden()


def test_what_is_live_is_paused(watched: Watched) -> None:
    page = watched.open("/events", "Events")
    live = page.get_by_label("Live")
    live.wait_for()
    reach(watched, live)
    with page.expect_request(re.compile("/events\\?")):  # by itself
        page.keyboard.press("ArrowDown")
    expect(live).to_have_value("1")
    page.keyboard.press("ArrowUp")
    expect(live).to_have_value("")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)  # else one more
    assert [url for url in asked if "/events?" in url] == []


def test_a_subject_is_searched_and_opened(keyboard: Keyboard) -> None:
    page = keyboard.watched.open("/subjects", "Subjects")
    keyboard.reach(page.get_by_label("Key contains"))
    page.keyboard.type("glob")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Subjects").get_by_role("row")).to_have_count(2)
    keyboard.follow("globex")
    page.get_by_role("heading", level=1, name="globex").wait_for()
    keyboard.follow("Its events")
    expect(page.get_by_role("region", name="Events")).to_contain_text("r-11")


def test_what_was_refused_is_found_by_its_kind(keyboard: Keyboard) -> None:
    page = keyboard.watched.open("/refusals", "Refusals")
    keyboard.choose("Kind", 1)
    expect(page.get_by_role("combobox", name="Kind")).to_have_value("conflict")
    keyboard.choose("State", 4)
    expect(page.get_by_role("region", name="Refusals")).to_contain_text("r-2")
    keyboard.press("Compare")
    expect(page.get_by_role("region", name="Differences")).to_contain_text("77")
    keyboard.press("Close")
    expect(page.get_by_role("region", name="Differences")).to_be_hidden()
    expect(page.get_by_role("button", name="Compare")).to_be_focused()


def test_a_run_is_opened_and_its_manifest_is_read(keyboard: Keyboard) -> None:
    page = keyboard.watched.open("/syncs/tokens-daily", "tokens-daily")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    keyboard.press("Open the run")
    manifest = page.get_by_role("region", name="Manifest of the run")
    expect(manifest).to_be_focused()
    expect(manifest).to_contain_text("These figures never change.")
    keyboard.looked_at()
    keyboard.press("Copy digest")
    expect(manifest).to_contain_text("Copied")
    (run,) = Server(keyboard.watched.url).get(f"{API}/reports/tokens-daily/runs").json["data"]
    assert page.evaluate("navigator.clipboard.readText()") == run["manifest"]["digest"]
    page.reload()  # the address names the run
    expect(manifest).to_contain_text(run["manifest"]["digest"][:16])
    keyboard.press("Close")
    expect(manifest).to_be_hidden()
    keyboard.press("Open the run")
    expect(manifest).to_be_focused()
    keyboard.press("Close")
    expect(page.get_by_role("button", name="Open the run")).to_be_focused()
