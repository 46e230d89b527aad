"""From an empty folder to a verified delivery, by the tour of the page alone."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.watched import Watched, reach
from tests.journey.processes import PROGRAM, role_process
from tests.services.local import free_port

DELIVERED_WITHIN_MS = 120_000
# One machine has one clock, so the run of the tour need not wait as long as the defaults say.
QUICK = {"METERLINE_PRODUCE_DEADLINE_MS": "3000", "METERLINE_CLOCK_SKEW_MS": "0"}


@pytest.fixture
def empty(tmp_path: Path, browser: Browser) -> Iterator[Watched]:
    """The console of a server that has nothing."""
    settings = {**QUICK, "METERLINE_DATA_DIR": str(tmp_path / "data")}
    server = role_process("up", ["up"], tmp_path / "up", free_port(), settings)
    server.start()
    context = browser.new_context()
    try:
        one = Watched(context.new_page(), server.url)
        yield one
        assert one.complaints == []
    finally:
        context.close()
        server.kill()


@contextmanager
def receiving(command: str, out: Path) -> Iterator[None]:
    """Run the command of the page that receives, until the block ends."""
    program, *arguments = shlex.split(command.splitlines()[-1])
    assert program == PROGRAM.name
    process = subprocess.Popen([str(PROGRAM), *arguments, "--out", str(out)])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def bodies(out: Path) -> list[Any]:
    """What was received, without the test delivery."""
    all_of_it = [json.loads(line) for line in out.read_text().splitlines()]
    return [one for one in all_of_it if one["run"]["trigger"] != "test"]


def step(page: Page, title: str) -> Locator:
    return page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=title))


def test_the_tour_goes_from_nothing_to_a_verified_delivery(empty: Watched, tmp_path: Path) -> None:
    page = empty.open("/", "Overview")
    reach(empty, page.get_by_role("button", name="Make the meter"))
    page.keyboard.press("Enter")
    expect(step(page, "Make a meter")).to_contain_text("Tokens used counts events")
    expect(page.get_by_role("heading", name="Send an event")).to_be_focused()
    reach(empty, page.get_by_role("tab", name="curl"))
    for language in ("curl", "Python", "TypeScript", "Go"):
        expect(page.get_by_role("tab", name=language)).to_be_focused()
        expect(page.get_by_role("tabpanel")).to_contain_text("first-event")
        assert empty.violations() == []
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # from the first to the second again
    program = page.get_by_label("Send an event with Python").inner_text()
    for _ in range(2):  # the second counts not
        sent = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
        assert sent.stdout == b"202\n"
    expect(step(page, "Watch it appear")).to_contain_text("1,250")
    expect(step(page, "Watch it appear")).to_contain_text("from 1 event")

    reach(empty, page.get_by_label("Address"))
    page.keyboard.press("Control+a")
    page.keyboard.type(f"http://127.0.0.1:{free_port()}/")
    page.keyboard.press("Enter")
    reach(empty, page.get_by_role("button", name="Send the usage"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("did not take a test delivery")
    command = page.get_by_label("Command that receives deliveries").inner_text()
    out = tmp_path / "out.ndjson"
    with receiving(command, out):
        for _ in range(100):  # it takes a moment to listen
            reach(empty, page.get_by_role("button", name="Send the usage"))
            with page.expect_response(re.compile("/test$")) as answer:
                page.keyboard.press("Enter")
            if answer.value.json()["delivered"]:
                break
            page.wait_for_timeout(200)
        done = step(page, "See it arrive, signed and verified").get_by_text("1 delivery arrived")
        done.wait_for(timeout=DELIVERED_WITHIN_MS)
    assert [one["usage"][0]["valueText"] for one in bodies(out)] == ["1250"]
    assert empty.violations() == []
    page.emulate_media(color_scheme="dark")
    assert empty.violations() == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert empty.overflow() <= 0
    page.reload()  # what is done stays done
    reach(empty, page.get_by_role("button", name="Show the overview"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Tour")).to_be_hidden()
    page.reload()
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()
    expect(page.get_by_role("region", name="Tour")).to_be_hidden()


def test_who_dismisses_the_tour_may_take_it_later(empty: Watched) -> None:
    page = empty.open("/", "Overview")
    reach(empty, page.get_by_role("button", name="Dismiss the tour"))
    page.keyboard.press("Enter")
    page.reload()
    expect(page.get_by_role("link", name="Make a meter")).to_be_visible()
    expect(page.get_by_role("region", name="Tour")).to_be_hidden()
    reach(empty, page.get_by_role("button", name="Take the tour"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Make the meter")).to_be_visible()
