"""Meters are made, revised, compared, switched and ended."""

import re

from playwright.sync_api import expect

from tests.console.filling import API, BATCH, event
from tests.console.keyboard import Keyboard
from tests.journey.client import Server
from tests.journey.deadline import until

READ_MS = 60_000  # a preview and a backfill, on a busy machine
WITHIN_S = 60.0
ASKED_AGAIN_MS = 15_000


def _made(server: Server, key: str) -> None:
    server.made(
        f"{API}/meters",
        {
            "key": key,
            "name": key,
            "aggregation": "sum",
            "event_type": "completion",
            "value_property": "$.tokens",
        },
    )


def test_a_wrong_path_shows_before_the_meter_is_made(keyboard: Keyboard, server: Server) -> None:
    page = keyboard.watched.open("/meters", "Meters")
    keyboard.follow("New meter")
    page.get_by_role("heading", level=1, name="New meter").wait_for()
    keyboard.write("Name", "Tokens by model")
    assert keyboard.field("Key").input_value() == "tokens_by_model"
    keyboard.write("Type of the events", "completion")
    keyboard.write("Path to the value", "tokens")  # no path: it does not begin with $
    field = keyboard.field("Path to the value")
    expect(field).to_have_attribute("aria-invalid", "true", timeout=READ_MS)
    described = field.get_attribute("aria-describedby") or ""
    assert described
    expect(page.get_by_text("The preview waits")).to_be_visible()
    keyboard.refused(400)
    keyboard.write("Path to the value", "$.tokenz")  # a path, but of nothing
    expect(page.get_by_text(re.compile("None of these events has a usable value"))).to_be_visible(
        timeout=READ_MS
    )
    keyboard.looked_at()
    keyboard.write("Path to the value", "$.tokens")
    expect(page.locator(".figures")).to_contain_text(re.compile("13.*count"), timeout=READ_MS)
    rejected = page.get_by_role("region", name="Rejected values of the preview")
    expect(rejected).to_contain_text("many")
    keyboard.press("Add a dimension")
    expect(keyboard.field("Name").nth(1)).to_be_focused()
    page.keyboard.type("model")
    keyboard.reach(keyboard.field("Path"))
    page.keyboard.type("$.model")
    usage = page.get_by_role("region", name="Usage of the preview")
    expect(usage).to_contain_text("model=small", timeout=READ_MS)
    keyboard.looked_at()
    keyboard.press("Create the meter")
    page.get_by_role("heading", level=1, name="Tokens by model").wait_for()
    keyboard.may_be_refused(400)
    made = server.get(f"{API}/meters/tokens_by_model").json
    assert made["dimensions"] == {"model": "$.model"}


def test_what_the_server_refuses_stands_at_its_field(keyboard: Keyboard) -> None:
    page = keyboard.watched.open("/new/meters", "New meter")
    keyboard.write("Name", "Tokens")
    keyboard.write("Key", "Not a key!")
    keyboard.write("Type of the events", "completion")
    keyboard.press("Create the meter")
    key = keyboard.field("Key")
    expect(key).to_have_attribute("aria-invalid", "true")
    expect(keyboard.field("Path to the value")).to_have_attribute("aria-invalid", "true")
    expect(key).to_be_focused()
    keyboard.looked_at()
    keyboard.refused(400)
    keyboard.write("Key", "tokens")  # taken
    keyboard.write("Path to the value", "$.tokens")
    keyboard.press("Create the meter")
    expect(page.get_by_role("alert")).to_contain_text("tokens")
    keyboard.refused(409)


def test_a_revision_is_compared_by_subject_and_switched_to(
    keyboard: Keyboard, server: Server
) -> None:
    _made(server, "revised")
    page = keyboard.watched.open("/meters/revised", "revised")
    keyboard.follow("Revise")
    page.get_by_role("heading", level=1, name="Revise revised").wait_for()
    keyboard.write("Type of the events", "completions")
    expect(page.get_by_text("No event has the type completions.")).to_be_visible(timeout=READ_MS)
    keyboard.looked_at()
    keyboard.write("Type of the events", "completion")
    keyboard.write("Path to the value", "$.tokenz")
    keyboard.press("Propose the revision")
    page.get_by_role("heading", level=1, name=re.compile("Revision .* of revised")).wait_for()
    compared = page.get_by_role("region", name="Subjects of both revisions")
    row = compared.get_by_role("row").filter(has_text="globex")
    expect(row).to_contain_text("50", timeout=READ_MS)
    expect(row).to_contain_text("-50")
    expect(page.get_by_role("region", name="Definitions")).to_contain_text("$.tokenz")
    keyboard.looked_at()
    keyboard.press("Discard it")
    keyboard.looked_at()
    keyboard.press("Discard")
    page.get_by_role("heading", level=1, name="revised", exact=True).wait_for()

    server.made(f"{API}/meters/revised/revisions", {"dimensions": {"model": "$.model"}})
    page.reload()
    keyboard.follow(
        page.get_by_role("region", name="Revisions").get_by_role("link").first.inner_text()
    )
    keyboard.press("Switch to it")
    keyboard.choose("For usage", 1)
    keyboard.press("Switch")
    expect(keyboard.field("First instant, in UTC")).to_have_attribute("aria-invalid", "true")
    keyboard.refused(400)
    keyboard.reach(keyboard.field("For usage"))
    page.keyboard.press("ArrowUp")
    keyboard.looked_at()
    keyboard.press("Switch")
    expect(page.get_by_text("This revision is in force.")).to_be_visible(timeout=READ_MS)
    assert server.get(f"{API}/meters/revised").json["dimensions"] == {"model": "$.model"}
    # A comparison may be on its way as it is switched: the one in force is compared with none.
    keyboard.watched.forgive("status of 409")


def test_a_meter_is_ended_only_by_its_key(keyboard: Keyboard, server: Server) -> None:
    _made(server, "short_lived")
    page = keyboard.watched.open("/meters/short_lived", "short_lived")
    keyboard.press("End")
    dialog = page.get_by_role("alertdialog", name="End short_lived?")
    expect(dialog.get_by_role("button", name="End the meter")).to_be_disabled()
    keyboard.looked_at()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    keyboard.press("End")
    keyboard.write("Write short_lived to confirm", "short_lived")
    keyboard.press("End the meter")
    page.get_by_role("heading", level=1, name="Meters").wait_for()
    assert server.ask("GET", f"{API}/meters/short_lived").status == 404


def test_a_meter_of_a_sync_says_why_it_cannot_be_ended(keyboard: Keyboard) -> None:
    page = keyboard.watched.open("/meters/tokens", "Tokens used")
    keyboard.press("End")
    keyboard.write("Write tokens to confirm", "tokens")
    keyboard.press("End the meter")
    expect(page.get_by_role("alertdialog").get_by_role("alert")).to_contain_text("tokens-daily")
    keyboard.refused(409)


def test_a_meter_of_the_settings_file_is_changed_there(keyboard: Keyboard) -> None:
    watched = keyboard.watched
    page = watched.open("/meters/of_file", "of_file")
    expect(page.get_by_text("The settings file of the server defines this meter")).to_be_visible()
    for role in ("button", "link"):
        for name in ("Revise", "End"):
            assert page.get_by_role(role, name=name, exact=True).count() == 0, name
    keyboard.looked_at()
    watched.open("/meters/of_file/revise", "Revise of_file")
    expect(page.get_by_text("The settings file of the server defines this meter")).to_be_visible()
    assert page.locator("form").count() == 0
    keyboard.looked_at()


def test_a_page_that_stays_open_shows_newer_windows(keyboard: Keyboard, server: Server) -> None:
    meter = {"key": "moving", "name": "Moving", "aggregation": "count", "event_type": "moving"}
    server.made(f"{API}/meters", meter)

    def send(number: int, day: int) -> None:
        one = {**event(number, "acme", day, 1), "type": "moving"}
        assert server.ask("POST", f"{API}/events", [one], BATCH).status == 202
        until("it is counted", WITHIN_S, lambda: counted() == number - 599)

    def counted() -> int:
        answer = server.ask("POST", f"{API}/meters/moving/query", {})
        return sum(int(row["value"]) for row in answer.json["data"])

    send(600, 3)
    keyboard.page.clock.install()
    page = keyboard.watched.open("/meters/moving", "Moving")
    usage = page.get_by_role("region", name="Usage by window")
    expect(usage).to_contain_text("2026-01-03")
    send(601, 5)  # the page showed windows until the third
    page.clock.fast_forward(ASKED_AGAIN_MS)
    expect(usage).to_contain_text("2026-01-05")
    page.close()  # else it may ask once more, and be told 404
    server.ask("DELETE", f"{API}/meters/moving")
