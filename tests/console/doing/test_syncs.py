"""Syncs are made, tested, paused, resumed, replayed and corrected, and their secrets rotated."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.filling import API, BATCH, event
from tests.console.keyboard import Keyboard
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.receiver import Mailbox, Receiver

READ_MS = 60_000
WITHIN_S = 120.0
WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}


def _sync(server: Server, receiver: Receiver, slug: str) -> Mailbox:
    """A sync that has delivered the first of January to a mailbox."""
    box = receiver.mailbox(slug)
    made = server.made(
        f"{API}/reports",
        {
            "slug": slug,
            "meter_id_or_key": "tokens",
            "type": "webhook",
            "schedule": {"interval": "1d"},
            "endpoint": {"url": box.url},
        },
    )
    box.secret = made["signing_secret"]
    server.made(f"{API}/reports/{slug}/runs", WINDOW)
    until("it is delivered", WITHIN_S, lambda: len(box.delivered) >= 2)
    return box


def test_a_sync_may_have_the_name_of_a_page(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    report: dict[str, object] = {"slug": "overview", "meter_id_or_key": "tokens"}
    report |= {"type": "webhook", "endpoint": {"url": receiver.mailbox("page").url}}
    report |= {"schedule": {"interval": "1d"}}
    server.made(f"{API}/reports", report)
    page = keyboard.watched.open("/", "Overview")
    expect(page.get_by_role("region", name="Syncs")).to_be_visible()
    keyboard.follow("Syncs")
    keyboard.follow("overview")
    page.get_by_role("heading", level=1, name="overview").wait_for()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.close()  # else it may ask once more, and be told 404
    server.ask("DELETE", f"{API}/reports/overview")


def test_a_preview_is_of_windows_that_the_sync_has(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    report: dict[str, object] = {"slug": "from-five", "meter_id_or_key": "tokens"}
    report |= {"type": "webhook", "endpoint": {"url": receiver.mailbox("from-five").url}}
    report |= {"schedule": {"interval": "1d", "start_at": "2026-01-01T05:00:00Z"}}
    server.made(f"{API}/reports", report)
    page = keyboard.watched.open("/syncs/from-five", "from-five")
    keyboard.press("Preview a window")
    window = page.get_by_role("combobox", name="Window", exact=True)
    expect(window).to_contain_text(re.compile("05:00 .* 05:00"))
    page.close()  # else it may ask once more, and be told 404
    server.ask("DELETE", f"{API}/reports/from-five")


def test_a_sync_is_made_with_a_preview_and_a_test(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    box = receiver.mailbox("by-hand")
    page = keyboard.watched.open("/syncs", "Syncs")
    keyboard.follow("New sync")
    page.get_by_role("heading", level=1, name="New sync").wait_for()
    keyboard.write("Name", "by-hand")
    keyboard.write("Meter", "tokens")
    body = page.get_by_label("The exact body")
    expect(body).to_contain_text('"slug":"by-hand"', timeout=READ_MS)
    keyboard.check("model")
    expect(body).to_contain_text('"groupBy":["model"]', timeout=READ_MS)
    keyboard.looked_at()

    keyboard.write("Address of the receiver", "nowhere")
    keyboard.press("Create the sync")
    address = keyboard.field("Address of the receiver")
    expect(address).to_have_attribute("aria-invalid", "true")
    expect(address).to_be_focused()
    keyboard.looked_at()
    keyboard.refused(400)

    keyboard.write("Address of the receiver", box.url)
    previewed = body.inner_text()
    keyboard.press("Create the sync")
    secret = page.get_by_label("Signing secret")
    expect(secret).to_contain_text("whsec_")
    box.secret = secret.inner_text().strip()
    keyboard.looked_at()
    keyboard.press("Send a test delivery")
    expect(page.get_by_text("The receiver took it.")).to_be_visible(timeout=READ_MS)
    assert len(box.delivered) == 1, "one test, and the signature was right"
    assert box.secret not in page.url
    keyboard.looked_at()
    keyboard.follow("Go to the sync")
    page.get_by_role("heading", level=1, name="by-hand").wait_for()
    window = re.search(r'"from":"([^"]+)","to":"([^"]+)"', previewed)
    assert window is not None
    asked = {"from": window[1], "to": window[2]}
    server.made(f"{API}/reports/by-hand/runs", asked)
    sent = until("acme's is delivered", WITHIN_S, lambda: _body_of(box, "acme"))
    assert previewed.startswith(sent.partition(',"run":')[0]), "previewed is what was sent"


def _body_of(box: Mailbox, subject: str) -> str | None:
    """Deliveries of a run come in any order."""
    bodies = (one.body.decode() for one in box.delivered)
    return next((it for it in bodies if f'"subject":"{subject}"' in it), None)


def test_what_is_owed_is_told_before_a_sync_is_resumed(keyboard: Keyboard, server: Server) -> None:
    page = keyboard.watched.open("/syncs/tokens-daily", "tokens-daily")
    keyboard.press("Pause")
    page.get_by_role("alertdialog", name="Pause tokens-daily?").wait_for()
    keyboard.looked_at()
    keyboard.press("Pause")
    expect(page.get_by_text("This sync is paused.")).to_be_visible()
    keyboard.press("Resume")
    dialog = page.get_by_role("dialog", name="Resume tokens-daily?")
    owed = server.get(f"{API}/reports/tokens-daily").json["status"]["owed_deliveries"]
    assert owed > 0
    expect(dialog).to_contain_text(f"It owes {owed} deliver")
    keyboard.looked_at()
    keyboard.reach(dialog.get_by_role("radio", name=re.compile("^All of it")))
    page.keyboard.press("ArrowDown")
    expect(dialog.get_by_role("radio", name=re.compile("^Only the newest"))).to_be_checked()
    page.keyboard.press("ArrowUp")
    keyboard.press("Resume")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_deliveries_are_counted_before_they_are_sent_again(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    box = _sync(server, receiver, "replayed")
    before = len(box.delivered)
    page = keyboard.watched.open("/syncs/replayed", "replayed")
    keyboard.press("Replay")
    dialog = page.get_by_role("dialog", name="Send deliveries again")
    expect(dialog.get_by_role("status")).to_contain_text("0 deliveries", timeout=READ_MS)
    expect(dialog.get_by_role("button", name="Send again")).to_be_disabled()
    keyboard.choose("Which", 1)
    expect(dialog.get_by_role("status")).to_contain_text(f"{before} deliveries", timeout=READ_MS)
    keyboard.looked_at()
    keyboard.write("How many a second", "0")
    keyboard.press(f"Send {before} deliveries again")
    expect(keyboard.field("How many a second")).to_have_attribute("aria-invalid", "true")
    keyboard.refused(400)
    keyboard.write("How many a second", "20")
    keyboard.press(f"Send {before} deliveries again")
    expect(dialog).to_be_hidden()
    replays = page.get_by_role("region", name="Replays")
    expect(replays).to_contain_text(str(before))
    until("all come again", WITHIN_S, lambda: len(box.delivered) == 2 * before)
    keyboard.looked_at()


def test_replays_of_a_sync_have_pages(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    _sync(server, receiver, "often")
    _sync(server, receiver, "once")

    def replay(slug: str) -> None:
        made = server.made(f"{API}/replays", {"report": slug, "subject": "acme"})
        path = f"{API}/replays/{made['id']}"
        until("it is done", WITHIN_S, lambda: server.get(path).json["state"] == "done")

    for _ in range(12):
        replay("often")
    replay("once")
    page = keyboard.watched.open("/syncs/often", "often")
    rows = page.get_by_role("region", name="Replays", exact=True).get_by_role("row")
    expect(rows).to_have_count(11)
    keyboard.press("Next page")
    expect(rows).to_have_count(3)
    keyboard.looked_at()


def test_a_secret_is_rotated_with_an_overlap(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    box = _sync(server, receiver, "rotated")
    page = keyboard.watched.open("/syncs/rotated", "rotated")
    keyboard.press("Show it")
    secret = page.get_by_label("Signing secret")
    expect(secret).to_contain_text(box.secret)
    keyboard.press("Hide it")
    expect(secret).to_be_hidden()
    keyboard.press("Rotate it")
    keyboard.looked_at()
    keyboard.press("Rotate")
    expect(page.get_by_label("Earlier secret")).to_contain_text(box.secret)
    expect(secret).not_to_contain_text(box.secret)
    keyboard.looked_at()
    assert server.get(f"{API}/reports/rotated/secret").json["signing_secret"] in secret.inner_text()


@pytest.fixture
def corrected(server: Server, receiver: Receiver) -> str:
    """A sync whose first window got late usage after its run."""
    _sync(server, receiver, "corrected")
    late = [event(500, "acme", 1, 7), event(501, "late-comer", 1, 3)]
    answer = server.ask("POST", f"{API}/events", late, BATCH)
    assert answer.status == 202, answer.body

    def revised() -> bool:
        runs = server.get(f"{API}/reports/corrected/runs").json["data"]
        return any(run["revision"] == 2 and "decided_at" in run for run in runs)

    until("the window is revised", WITHIN_S, revised)
    return "corrected"


def test_late_usage_shows_as_a_difference(keyboard: Keyboard, corrected: str) -> None:
    page = keyboard.watched.open(f"/syncs/{corrected}", corrected)
    keyboard.press("Corrections")
    table = page.get_by_role("region", name="Corrections", exact=True)
    acme = table.get_by_role("row").filter(has_text="acme")
    expect(acme).to_contain_text("1,001")
    expect(acme).to_contain_text("1,008")
    expect(acme).to_contain_text("+7")
    expect(acme).to_contain_text("events came late")
    expect(table.get_by_role("row").filter(has_text="late-comer")).to_contain_text("nothing")
    keyboard.looked_at()


def test_a_window_of_a_sync_is_previewed(keyboard: Keyboard) -> None:
    page = keyboard.watched.open("/syncs/tokens-daily", "tokens-daily")
    keyboard.press("Preview a window")
    expect(page.get_by_label("The exact body")).to_contain_text(
        '"slug":"tokens-daily"', timeout=READ_MS
    )
    keyboard.looked_at()


def test_a_sync_is_ended_only_by_its_name(
    keyboard: Keyboard, server: Server, receiver: Receiver
) -> None:
    _sync(server, receiver, "ended")
    page = keyboard.watched.open("/syncs/ended", "ended")
    keyboard.press("End")
    expect(page.get_by_role("button", name="End the sync")).to_be_disabled()
    keyboard.looked_at()
    keyboard.write("Write ended to confirm", "ended")
    keyboard.press("End the sync")
    page.get_by_role("heading", level=1, name="Syncs").wait_for()
    assert server.ask("GET", f"{API}/reports/ended").status == 404
