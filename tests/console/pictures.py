"""`python -m tests.console.pictures [PART]`: make the pictures of docs/console anew, from a server
with flights and with each kind of trouble. Only those whose name has PART in it, if it is given.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from demo.flights import METERS, TYPE, write_ndjson
from tests.console.filling import API, fill
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.receiver import Receiver, receiving
from tests.journey.setups import embedded, started

PICTURES: Final = Path(__file__).resolve().parents[2] / "docs/console"
FLIGHTS: Final = 28_000  # all of January's are among them
BATCH: Final = 1_000
MEDIA: Final = {"Content-Type": "application/cloudevents-batch+json"}
COUNTED_WITHIN_S: Final = 120.0
SHOWN_MS: Final = 60_000
JANUARY: Final = "from=2013-01-01T00:00:00Z&to=2013-02-01T00:00:00Z&by=P1D"
ONE_DAY: Final = "from=2013-01-01T00:00:00Z&to=2013-01-02T00:00:00Z&by=P1D"
FIRST: Final = {"from": "2013-01-01T00:00:00Z", "to": "2013-01-02T00:00:00Z"}
# One machine has one clock, so a run need not wait as long as the defaults say.
QUICK: Final = {"METERLINE_PRODUCE_DEADLINE_MS": "3000", "METERLINE_CLOCK_SKEW_MS": "0"}


@dataclass(frozen=True, slots=True)
class Picture:
    """What is seen: a page, what is done on it, and the window that it is seen in."""

    path: str
    acts: Callable[[Page], None]
    height: int = 860
    width: int = 1280
    theme: Literal["light", "dark"] = "light"

    def take(self, browser: Browser, url: str, into: Path) -> None:
        """Write it."""
        size = ViewportSize(width=self.width, height=self.height)
        context = browser.new_context(
            color_scheme=self.theme,
            viewport=size,
            timezone_id="UTC",
        )
        page = context.new_page()
        page.set_default_timeout(SHOWN_MS)
        page.goto(f"{url}/console{self.path}")
        self.acts(page)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=into)
        context.close()


def _overview(page: Page) -> None:
    expect(page.get_by_text("of sync tokens-daily is down")).to_be_visible(timeout=SHOWN_MS)
    expect(page.get_by_role("region", name="Partitions")).to_be_visible(timeout=SHOWN_MS)
    expect(page.locator(".tile").first).not_to_contain_text("…")  # the rate, by its second answer


def _usage(page: Page) -> None:
    expect(page.get_by_role("region", name="Usage by window")).to_contain_text("EWR")


def _why(page: Page) -> None:
    rows = page.get_by_role("region", name="Usage by window").get_by_role("row")
    rows.filter(has_text="AS").get_by_role("button").click()  # two flights a day: all is in sight
    why = page.get_by_role("dialog")
    expect(why.get_by_text("delivered").first).to_be_visible(timeout=SHOWN_MS)
    expect(why.get_by_role("region", name="Cells of the number")).to_be_visible()


def _sync(page: Page) -> None:
    expect(page.get_by_text("Connection refused").first).to_be_visible(timeout=SHOWN_MS)


def _new_meter(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("Tokens by model")
    page.get_by_label("Type of the events").fill("completion")
    page.get_by_label("Path to the value").fill("tokens")
    expect(page.get_by_text("A JSON path starts with $")).to_be_visible(timeout=SHOWN_MS)


def _revision(page: Page) -> None:
    subjects = page.get_by_role("region", name="Subjects of both revisions")
    expect(subjects).to_contain_text("globex", timeout=SHOWN_MS)
    expect(page.get_by_role("button", name="Switch to it")).to_be_visible(timeout=SHOWN_MS)


def _tour(page: Page) -> None:
    page.get_by_role("button", name="Make the meter").click()
    page.get_by_role("tab", name="Python").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("first-event")


EMPTY: Final = {"tour": Picture("/", _tour, height=960)}
FULL: Final = {
    "overview": Picture("/", _overview),
    "phone-dark": Picture("/", _overview, height=844, width=390, theme="dark"),
    "meter-dark": Picture(f"/meters/flights?{JANUARY}&group=origin", _usage, theme="dark"),
    "why": Picture(f"/meters/distance?{ONE_DAY}&group=subject", _why, height=1000),
    "sync-failing": Picture("/syncs/tokens-daily", _sync, height=860),
    "new-meter": Picture("/new/meters", _new_meter, height=900),
    "revision-dark": Picture("/meters/tokens/revisions/{}", _revision, height=900, theme="dark"),
}


def _fly(server: Server, folder: Path, receiver: Receiver) -> None:
    """January's flights, and a report of a day that arrives."""
    for meter in METERS[:2]:
        server.made(f"{API}/meters", {**meter, "event_type": TYPE})
    file = folder / "flights.ndjson"
    write_ndjson(file, 0, FLIGHTS)
    lines = file.read_text().splitlines()
    for at in range(0, len(lines), BATCH):
        batch = f"[{','.join(lines[at : at + BATCH])}]".encode()
        assert server.ask("POST", f"{API}/events", batch, MEDIA).status == 202
    status = partial(server.get, f"{API}/status")
    until("all is counted", COUNTED_WITHIN_S, lambda: status().json["caught_up"])
    box = receiver.mailbox("flights")
    report = {
        "slug": "distance-daily",
        "meter_id_or_key": "distance",
        "type": "webhook",
        "schedule": {"interval": "1d"},
        "endpoint": {"url": box.url},
    }
    box.secret = server.made(f"{API}/reports", report)["signing_secret"]
    asked = server.ask("POST", f"{API}/reports/distance-daily/runs", FIRST)
    assert asked.status in {200, 201, 202}, asked.body
    until("it arrives", COUNTED_WITHIN_S, lambda: len(box.delivered) > 10)


def _revised(server: Server) -> int:
    """A revision that waits, with a path that finds nothing; its number."""
    body = {"value_property": "$.tokenz", "dimensions": {"model": "$.model", "tier": "$.tier"}}
    number: int = server.made(f"{API}/meters/tokens/revisions", body)["revision"]
    return number


@contextmanager
def _launched() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "the pictures need Chromium: apt install chromium"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        yield playwright.chromium.launch(executable_path=path, args=arguments)


def main(part: str = "") -> None:
    """Take all of them, or some."""
    with (
        tempfile.TemporaryDirectory(prefix="pictures-") as place,
        receiving() as receiver,
        started(embedded(Path(place), QUICK)) as setup,
        _launched() as browser,
    ):
        server = setup.control
        _take(EMPTY, part, browser, server.url)
        # The tour has made the meter that `fill` makes.
        if server.ask("GET", f"{API}/meters/tokens").status == 200:
            assert server.ask("DELETE", f"{API}/meters/tokens").status == 204
        _fly(server, Path(place), receiver)
        fill(server)
        number = _revised(server)
        pictures = {
            name: Picture(one.path.format(number), one.acts, one.height, one.width, one.theme)
            for name, one in FULL.items()
        }
        _take(pictures, part, browser, server.url)


def _take(pictures: dict[str, Picture], part: str, browser: Browser, url: str) -> None:
    for name, one in pictures.items():
        if part in name:
            one.take(browser, url, PICTURES / f"{name}.png")
            sys.stderr.write(f"{name}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
