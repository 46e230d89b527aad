"""A sync is changed: what changes, and from when, stands there before it is saved."""

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect

from tests.console.filling import API, AWAY
from tests.console.keyboard import Keyboard
from tests.journey.client import Server
from tests.journey.receiver import Receiver

READ_MS = 60_000


def _start_at() -> str:
    """Days begin half a day from now: in the first hour of one, it would take over at once."""
    begin = datetime.now(UTC) + timedelta(hours=12)
    return f"2026-01-01T{begin:%H}:00:00Z"


def _sync(server: Server, slug: str) -> None:
    server.made(
        f"{API}/reports",
        {
            "slug": slug,
            "meter_id_or_key": "tokens",
            "type": "webhook",
            "schedule": {"interval": "1h", "start_at": _start_at()},
            "endpoint": {"url": AWAY, "headers": {"X-Api-Key": "of-before"}},
        },
    )


def test_what_changes_and_from_when_is_told_before_it_is_saved(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    _sync(server, "edited")
    page = keyboard.watched.open("/syncs/edited", "edited")
    keyboard.follow("Edit")
    page.get_by_role("heading", level=1, name="Edit edited").wait_for()
    expect(page.get_by_text("Nothing is changed yet")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("make another sync")  # its name and meter stay
    keyboard.looked_at()

    changes = page.get_by_role("region", name="Changes")
    keyboard.reach(page.get_by_label("Sends", exact=True))
    page.keyboard.press("ArrowUp")  # every day
    schedule = changes.get_by_role("row").filter(has_text="every hour")
    expect(schedule).to_contain_text("every day", timeout=READ_MS)
    expect(schedule).to_contain_text(re.compile(r"Windows from \d{4}-\d\d-\d\d \d\d:00:00 on"))
    keyboard.check("model")
    body = page.get_by_label("The exact body")
    expect(body).to_contain_text('"groupBy":["model"]', timeout=READ_MS)
    address = receiver.mailbox("edited").url
    keyboard.write("Address of the receiver", address)
    expect(changes).to_contain_text("Headers are not sent to another address", timeout=READ_MS)
    keyboard.looked_at()
    assert server.get(f"{API}/reports/edited").json["endpoint"]["url"] == AWAY, "nothing is saved"

    keyboard.press("Save the changes")
    page.get_by_role("heading", level=1, name="edited", exact=True).wait_for()
    expect(page.get_by_role("main")).to_contain_text("every hour, counted from")
    expect(page.get_by_role("main")).to_contain_text(re.compile("until .* then every day"))
    sync = server.get(f"{API}/reports/edited").json
    assert sync["endpoint"] == {"url": address}
    assert sync["query"] == {"group_by_dimensions": ["model"]}
    assert sync["schedule"]["interval"] == "1d"
    assert sync["ending_schedule"]["interval"] == "1h"


def test_what_cannot_be_is_told_at_its_field_and_a_filter_is_replaced(
    keyboard: Keyboard, server: Server
) -> None:
    _sync(server, "refiltered")
    page = keyboard.watched.open("/syncs/refiltered/edit", "Edit refiltered")
    keyboard.choose("Filter", 1)
    keyboard.write("Only entries with more than", "much")
    over = keyboard.field("Only entries with more than")
    expect(over).to_have_attribute("aria-invalid", "true", timeout=READ_MS)
    expect(page.get_by_text("The preview waits").first).to_be_visible()
    keyboard.press("Save the changes")
    expect(over).to_be_focused()
    keyboard.looked_at()
    keyboard.refused(400)
    keyboard.write("Only entries with more than", "500")
    changes = page.get_by_role("region", name="Changes")
    expect(changes).to_contain_text('{"usage":{"$gt":"500"}}', timeout=READ_MS)
    keyboard.choose("Headers", 1)
    keyboard.write("Name of the header", "Authorization")
    keyboard.write("Value of the header", "Bearer of-now")
    expect(changes).to_contain_text("Authorization, with a new value", timeout=READ_MS)
    assert "of-now" not in page.url
    keyboard.press("Save the changes")
    page.get_by_role("heading", level=1, name="refiltered", exact=True).wait_for()
    keyboard.may_be_refused(400)
    sync = server.get(f"{API}/reports/refiltered").json
    assert sync["filter"] == {"usage": {"$gt": "500"}}
    assert sync["endpoint"]["header_names"] == ["Authorization"]
