"""Very much of everything: lists are paged by the server, answers stay small, nothing hangs.

METERLINE_TEST_CROWD=50 makes it a million subjects and a hundred thousand deliveries,
METERLINE_TEST_METERS=10000 as many meters as a setting allows.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Response, expect

from meterline.limits import METERS_MAX
from tests.console.filling import API, AWAY, BATCH
from tests.console.watched import Watched
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.setups import embedded, started

FACTOR = int(os.environ.get("METERLINE_TEST_CROWD", "1"))
METERS = int(os.environ.get("METERLINE_TEST_METERS", str(METERS_MAX)))
SUBJECTS, DELIVERIES = 20_000 * FACTOR, 2_000 * FACTOR
BATCH_EVENTS = 1_000
WITHIN_S = 60.0 + 30.0 * FACTOR
ANSWER_BYTES_MAX = 200_000
ROWS_MAX = 250
METERS_SHOWN = 25  # on a page
IN_ALL = f"Page 1 of {METERS // METERS_SHOWN:,}, {METERS:,} in all"
METER_PUT_S = 0.05  # each meter of a settings file is a transaction of its own, before it serves
QUICK = {"METERLINE_PRODUCE_DEADLINE_MS": "3000", "METERLINE_CLOCK_SKEW_MS": "0"}


def send(server: Server, kind: str, subjects: int) -> None:
    """One event for each of so many subjects; the later ones use more."""
    for first in range(0, subjects, BATCH_EVENTS):
        events = [
            {
                "specversion": "1.0",
                "id": f"{kind}-{number}",
                "source": "crowd",
                "type": kind,
                "subject": f"{kind}-{number:07}",
                "time": "2026-01-01T10:00:00Z",
                "data": {"value": number},
            }
            for number in range(first, min(first + BATCH_EVENTS, subjects))
        ]
        answer = server.ask("POST", f"{API}/events", events, BATCH)
        assert answer.status == 202, answer.body


def meters_file(folder: Path) -> Path:
    """Settings with all meters: the API would take so many over minutes."""
    lines = [f"meters_max = {METERS}"]
    for number in range(METERS):
        kind = {0: "many", 1: "reported"}.get(number, f"kind-{number}")
        meter = {"key": f"m_{number:04}", "name": f"Meter {number}", "aggregation": "sum"}
        meter |= {"event_type": kind, "value_property": "$.value"}
        lines += ["[[meters]]", *(f'{name} = "{value}"' for name, value in meter.items())]
    path = folder / "meters.toml"
    path.write_text("\n".join(lines))
    return path


def fill(server: Server) -> None:
    send(server, "many", SUBJECTS)
    send(server, "reported", DELIVERIES)
    report: dict[str, Any] = {"slug": "crowded", "meter_id_or_key": "m_0001", "type": "webhook"}
    report |= {"schedule": {"interval": "1d"}, "endpoint": {"url": AWAY}}
    server.made(f"{API}/reports", report)
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    server.ask("POST", f"{API}/reports/crowded/runs", window)

    def delivering() -> bool:
        (run,) = server.get(f"{API}/reports/crowded/runs").json["data"]
        return bool(run["state"] == "delivering")

    until("its deliveries are made", WITHIN_S, delivering)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("crowd")
    settings = {**QUICK, "METERLINE_CONFIG": str(meters_file(folder))}
    own = embedded(folder, settings)
    own.processes["up"].start_within_s += METERS * METER_PUT_S
    with started(own) as setup:
        fill(setup.control)
        yield setup.control.url


@pytest.fixture
def small(browser: Browser, crowded: str) -> Iterator[Watched]:
    """A page whose every answer of the API has to be small."""
    context = browser.new_context()
    watched = Watched(context.new_page(), crowded)
    large: list[str] = []

    def weigh(response: Response) -> None:
        size = int(response.headers.get("content-length", "0"))
        if API in response.url and size > ANSWER_BYTES_MAX:
            large.append(f"{response.url}: {size} bytes")

    watched.page.on("response", weigh)
    yield watched
    rows = watched.page.get_by_role("row").count()
    context.close()
    assert (large, watched.complaints) == ([], [])
    assert rows <= ROWS_MAX


def test_meters_are_paged(small: Watched) -> None:
    page = small.open("/meters", "Meters")
    expect(page.get_by_text(IN_ALL)).to_be_visible()
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("link", name="Meter 25", exact=True)).to_be_visible()
    page.get_by_label("Key contains").fill(f"m_{METERS - 1:04}")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 in all")).to_be_visible()


def test_usage_is_asked_for_rows_in_view(small: Watched) -> None:
    page = small.page
    page.set_viewport_size({"width": 1280, "height": 500})
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/query" in one.url else None)
    for path, heading, label in (
        ("/meters", "Meters", "Meters"),
        ("/subject?key=many-0000001", "many-0000001", "Usage"),
    ):
        asked.clear()
        small.open(path, heading)
        rows = page.get_by_role("region", name=label, exact=True).get_by_role("row")
        expect(rows.nth(1)).to_contain_text("why?")
        page.wait_for_load_state("networkidle")
        assert 0 < len(asked) < METERS_SHOWN - 5, asked
        assert not any("m_0024" in one for one in asked)
        rows.nth(METERS_SHOWN).scroll_into_view_if_needed()
        expect(rows.nth(METERS_SHOWN)).to_contain_text(re.compile("no usage|none"))


def test_subjects_are_paged_and_found(small: Watched) -> None:
    page = small.open("/subjects", "Subjects")
    expect(page.get_by_role("link", name="many-0000000")).to_be_visible()
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("link", name="many-0000050")).to_be_visible()
    last = f"many-{SUBJECTS - 1:07}"
    page.get_by_label("Key contains").fill(last)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=last).click()
    expect(page.get_by_role("region", name="Usage")).to_contain_text("why?")


def test_the_subjects_with_most_usage_are_chosen_by_the_server(small: Watched) -> None:
    span = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&by=PT1H"
    page = small.open(f"/meters/m_0000?{span}&group=subject", "Meter 0")
    top = page.get_by_role("region", name="Top subjects").get_by_role("row")
    expect(top.nth(1)).to_contain_text(f"many-{SUBJECTS - 1:07}")
    expect(top).to_have_count(11)
    expect(page.get_by_text("these are the 20 with most usage")).to_be_visible()
    windows = page.get_by_role("region", name="Usage by window").get_by_role("row")
    expect(windows).to_have_count(21)


def test_deliveries_are_paged(small: Watched) -> None:
    page = small.open("/syncs/crowded", "crowded")
    deliveries = page.get_by_role("region", name="Deliveries")
    expect(deliveries.get_by_role("row")).to_have_count(26)
    first = deliveries.get_by_role("link").first.inner_text()
    page.get_by_role("button", name="Next page").click()
    expect(deliveries.get_by_role("link").first).not_to_have_text(first)
    page.get_by_label("Subject").fill(f"reported-{DELIVERIES - 1:07}")
    page.keyboard.press("Enter")
    expect(deliveries.get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("region", name="Runs")).to_contain_text("delivering")


def test_events_are_paged_and_the_overview_stays_quick(small: Watched) -> None:
    page = small.open("/events", "Events")
    events = page.get_by_role("region", name="Events")
    expect(events.get_by_role("row")).to_have_count(51)
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("button", name="First page")).to_be_enabled()
    page = small.open("/", "Overview")
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()


def test_a_meter_among_very_many_is_chosen_for_a_sync(small: Watched) -> None:
    page = small.open("/new/syncs", "New sync")
    page.get_by_role("combobox", name="Meter").fill("m_0001")
    body = page.get_by_label("The exact body")
    expect(body).to_contain_text('"subject":"reported-0000000"')
    page = small.open("/subject?key=reported-0000001", "reported-0000001")
    expect(page.get_by_text(IN_ALL)).to_be_visible()
    expect(page.get_by_role("region", name="Usage")).to_contain_text("why?")
