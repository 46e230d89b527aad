"""What the console takes from its viewer and from the server.

In one run, on one machine: how much the first page loads and when it shows data; how long an
interaction waits for its paint; and the server's share of a core and the time of a 202, without and
with ten open tabs. Figures come from Chromium itself, by its protocol and its own timings.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import psutil
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.bench.bench_aggregator import say
from tests.bench.bench_answers import answering
from tests.bench.bench_idle import worked_s
from tests.console.filling import BATCH, event, fill
from tests.journey.client import Server
from tests.journey.setups import SetUp, embedded, started

VISITS: Final = 5
TABS: Final = 10
LOOK_S: Final = 15.0
SEND_EVERY_S: Final = 0.05
REST_S: Final = 3.0
ROUNDS: Final = 2
# Where people leave a tab open: most of them at what is live.
OPEN: Final = (
    *("/", "/", "/", "/", "/syncs", "/syncs/tokens-daily", "/events?live=1", "/events?live=1"),
    *("/meters", "/meters/tokens?from=2026-01-01T00:00:00Z&to=2026-01-06T00:00:00Z"),
)
# When the first table of the overview stands there, and each interaction until its next paint.
NOTE: Final = """
window.noted = { shown: null, interactions: [], largest: 0, blocked: 0 };
new MutationObserver((_, observer) => {
  if (!document.querySelector('[aria-label="Partitions"] td')) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.noted.shown = performance.now(); });
}).observe(document, { childList: true, subtree: true });
new PerformanceObserver((list) => {
  for (const one of list.getEntries())
    if (one.interactionId) window.noted.interactions.push([one.duration, one.name]);
}).observe({ type: "event", durationThreshold: 16, buffered: true });
new PerformanceObserver((list) => {
  window.noted.largest = list.getEntries().at(-1).startTime;
}).observe({ type: "largest-contentful-paint", buffered: true });
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.noted.blocked += Math.max(0, one.duration - 50);
}).observe({ type: "longtask", buffered: true });
"""


# Of what the first view asks for: from when to when it was on its way, by the name of the path.
ON_ITS_WAY: Final = """
performance.getEntriesByType("resource").map((one) => [
  new URL(one.name).pathname.split("/").at(-1).replace(/-.{8}[.]/, "."),
  one.startTime,
  one.responseEnd,
])
"""
PARTS: Final = ("early.js", "index.css", "index.js", "session", "status", "accounts", "reports")


@dataclass(frozen=True, slots=True)
class View:
    """The first view of a browser that was never here."""

    shown_ms: float  # until data stands there
    painted_ms: float  # the largest contentful paint, as Chromium has it
    blocked_ms: float  # of long tasks what is over 50 ms each: the total blocking time
    size: int  # bytes as they came over the network
    requests: int
    parts: dict[str, tuple[float, float]]  # by name, ms when it was asked for, and was there


def first_view(browser: Browser, url: str) -> View:
    """Open the overview in a browser that was never here."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(NOTE)
    protocol = context.new_cdp_session(page)
    protocol.send("Network.enable")
    sizes: list[int] = []
    protocol.on("Network.loadingFinished", lambda it: sizes.append(int(it["encodedDataLength"])))
    page.goto(f"{url}/console/")
    page.get_by_role("region", name="Partitions").get_by_role("cell").first.wait_for()
    page.wait_for_timeout(200)
    noted: dict[str, float] = page.evaluate("window.noted")
    found: list[tuple[str, float, float]] = page.evaluate(ON_ITS_WAY)
    context.close()
    parts: dict[str, tuple[float, float]] = {}
    for name, begun, ended in found:
        parts.setdefault(name, (begun, ended))
    shown, painted, blocked = (noted[name] for name in ("shown", "largest", "blocked"))
    return View(shown, painted, blocked, sum(sizes), len(sizes), parts)


def interactions(browser: Browser, url: str) -> list[tuple[float, str]]:
    """Milliseconds from each of a few dozen interactions to its paint, with its event, as Event
    Timing has them: in steps of 8, and only those of 16 or more.
    """
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(NOTE)
    page.goto(f"{url}/console/")
    page.get_by_role("region", name="Partitions").get_by_role("cell").first.wait_for()
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    for _ in range(2):
        for number in range(links.count()):
            links.nth(number).click()
            page.wait_for_load_state("networkidle" if number else "load")
            page.wait_for_timeout(100)
    page.get_by_role("link", name="Meters").click()
    page.get_by_role("link", name="Tokens used").click()
    page.get_by_label("Group by").select_option("subject")
    page.get_by_role("tab", name="Go").click()
    page.get_by_role("button", name="why?").first.click()
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_label("Theme").select_option("dark")
    page.wait_for_timeout(300)
    found: list[tuple[float, str]] = page.evaluate("window.noted.interactions")
    context.close()
    return sorted((duration, name) for duration, name in found)


@contextmanager
def tabs(browser: Browser, url: str, asked: list[str]) -> Iterator[BrowserContext]:
    """Ten open tabs, all of them seen; what they ask for is noted."""
    context = browser.new_context()

    def note(request: Request) -> None:
        asked.append(request.url.removeprefix(url).partition("?")[0])

    for path in OPEN:
        page: Page = context.new_page()
        page.on("request", note)
        page.goto(f"{url}/console{path}")
    yield context
    context.close()


def looked(server: Server, process: psutil.Process, idle: Page, first: int) -> tuple[float, float]:
    """The share of a core of the server, and the median of milliseconds until a 202."""
    took: list[float] = []
    idle.wait_for_timeout(REST_S * 1000)
    before_s, begun = worked_s(process), time.perf_counter()
    number = first
    while time.perf_counter() - begun < LOOK_S:
        body = json.dumps([event(number, "acme", 5, 1)]).encode()
        at = time.perf_counter()
        answer = server.ask("POST", "/api/v3/metering/events", body, BATCH)
        took.append((time.perf_counter() - at) * 1000)
        assert answer.status == 202, answer.body
        number += 1
        idle.wait_for_timeout(SEND_EVERY_S * 1000)  # events of the tabs are heard meanwhile
    return (worked_s(process) - before_s) / (time.perf_counter() - begun), median(took)


def measured(setup: SetUp, browser: Browser) -> None:
    """Print the figures of one server."""
    server, process = setup.control, answering(setup)
    fill(server)
    first_view(browser, server.url)  # the server compresses its files once
    views = [first_view(browser, server.url) for _ in range(VISITS)]
    shown = sorted(one.shown_ms for one in views)
    say(
        f"first view with data: {median(shown):,.0f} ms (of {VISITS}; {shown[0]:,.0f} to"
        f" {shown[-1]:,.0f}), {views[0].size / 1000:,.1f} kB in {views[0].requests} requests"
    )
    say(
        f"  largest paint {median(one.painted_ms for one in views):,.0f} ms, blocked"
        f" {median(one.blocked_ms for one in views):,.0f} ms"
    )
    for name in PARTS:
        there = [one.parts[name] for one in views if name in one.parts]
        if there:
            begun, ended = (median(times) for times in zip(*there, strict=True))
            say(f"  {name}: from {begun:,.0f} to {ended:,.0f} ms")
    waits = interactions(browser, server.url)
    worst_ms, kind = waits[-1]
    say(
        f"interaction to paint: median {median(took for took, _ in waits):,.0f} ms, worst"
        f" {worst_ms:,.0f} ms ({kind}; {len(waits)} of 16 ms or more)"
    )
    idle = browser.new_page()
    number = 1_000_000
    for _ in range(ROUNDS):
        share, took = looked(server, process, idle, number)
        asked: list[str] = []
        with tabs(browser, server.url, asked):
            idle.wait_for_timeout(REST_S * 1000)
            asked.clear()
            share_with, took_with = looked(server, process, idle, number + 100_000)
        say(
            f"without tabs {share:.3f} of a core, 202 in {took:.2f} ms; with {TABS} tabs"
            f" {share_with:.3f} of a core, 202 in {took_with:.2f} ms;"
            f" {len(asked) / (LOOK_S + REST_S):.1f} requests a second"
        )
        number += 200_000


def main() -> None:
    """Print the figures; takes about three minutes. Chromium has to be installed."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("this benchmark needs Chromium: apt install chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        started(embedded(Path(folder))) as setup,
        sync_playwright() as playwright,
    ):
        arguments = ["--no-sandbox", "--disable-background-networking"]
        measured(setup, playwright.chromium.launch(executable_path=chromium, args=arguments))
