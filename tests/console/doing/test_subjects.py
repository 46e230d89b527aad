"""A subject is erased, for who may: it is said what becomes of it, and how far that is."""

from urllib.parse import quote

from playwright.sync_api import expect

from tests.console.filling import API, BATCH, FILLED_WITHIN_S, LONG, event
from tests.console.keyboard import Keyboard
from tests.journey.client import Server
from tests.journey.deadline import until


def test_a_long_name_fits_in_a_dialog(keyboard: Keyboard) -> None:
    page = keyboard.watched.open(f"/subject?key={LONG}", LONG)
    keyboard.press("Erase")
    dialog = page.get_by_role("alertdialog", name=f"Erase {LONG}?")
    expect(dialog).to_be_visible()
    assert dialog.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    page.keyboard.press("Escape")


def test_a_subject_is_erased_only_by_its_key(keyboard: Keyboard, server: Server) -> None:
    subject = "leaving, one day"
    sent = server.ask("POST", f"{API}/events", [event(900, subject, 4, 1)], BATCH)
    assert sent.status == 202, sent.body

    def listed() -> bool:
        path = f"{API}/events/subjects?filter[key][contains]=leaving"
        return len(server.get(path).json["data"]) == 1

    until("the subject is listed", FILLED_WITHIN_S, listed)
    page = keyboard.watched.open(f"/subject?key={quote(subject)}", subject)
    keyboard.press("Erase")
    dialog = page.get_by_role("alertdialog", name=f"Erase {subject}?")
    expect(dialog.get_by_role("button", name="Erase the subject")).to_be_disabled()
    expect(keyboard.field("Write its key to confirm")).to_be_focused()
    keyboard.looked_at()
    keyboard.write("Write its key to confirm", subject)
    keyboard.press("Erase the subject")
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("This subject is erased")).to_be_visible()
    (asked,) = server.get(f"{API}/erasures").json["data"]
    assert asked["subject"] == subject
    keyboard.looked_at()

    keyboard.follow("Subjects")
    expect(page.get_by_role("region", name="Erasures")).to_contain_text(asked["pseudonym"])
    keyboard.looked_at()
