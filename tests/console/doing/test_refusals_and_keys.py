"""Refusals are mended and dismissed; keys are made, rotated and revoked."""

from urllib.parse import urlencode

from playwright.sync_api import expect

from meterline.access import parse_token
from tests.console.filling import API, BATCH, FILLED_WITHIN_S, event
from tests.console.keyboard import Keyboard
from tests.journey.client import Server
from tests.journey.deadline import until


def _conflict(server: Server, number: int) -> None:
    """An event that came twice, the second time with other contents."""
    for tokens in (1, 2):
        events = [event(number, "acme", 4, tokens)]
        assert server.ask("POST", f"{API}/events", events, BATCH).status == 202

    def listed() -> bool:
        found = server.get(f"{API}/refusals?{urlencode({'filter[state]': 'open'})}").json["data"]
        return any(one["event"]["id"] == f"r-{number}" for one in found)

    until("it is refused", FILLED_WITHIN_S, listed)


def test_an_event_without_a_time_counts_when_it_was_received(
    keyboard: Keyboard, server: Server
) -> None:
    sent = event(710, "acme", 4, 1) | {"type": "without-time"}  # no meter's: it is of now
    del sent["time"]
    assert server.ask("POST", f"{API}/events", [sent], BATCH).status == 202
    query = urlencode({"source": "chat-api", "id": "r-710"})

    def listed() -> bool:
        return server.ask("GET", f"{API}/event-trace?{query}").status == 200

    until("it is listed", FILLED_WITHIN_S, listed)
    page = keyboard.watched.open(f"/event?{query}", "Event r-710")
    expect(page.get_by_role("main")).to_contain_text("when it was received")
    expect(page.get_by_role("main")).not_to_contain_text("never")


def test_a_refusal_is_mended_before_it_is_sent_anew(keyboard: Keyboard, server: Server) -> None:
    _conflict(server, 700)
    page = keyboard.watched.open("/refusals", "Refusals")
    row = page.get_by_role("region", name="Refusals").get_by_role("row").filter(has_text="r-700")
    keyboard.reach(row.get_by_role("button", name="Compare"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("An event with this id is stored already.")).to_be_visible()
    keyboard.looked_at()

    keyboard.write("Data", "{")
    expect(keyboard.field("Data")).to_have_attribute("aria-invalid", "true")
    keyboard.write("Data", '{"tokens": 2.000000000000000001, "model": "large"}')
    keyboard.write("Time", "yesterday")
    keyboard.press("Send the mended event")
    expect(keyboard.field("Time")).to_have_attribute("aria-invalid", "true")
    expect(keyboard.field("Time")).to_be_focused()
    keyboard.looked_at()
    keyboard.refused(400)

    keyboard.write("Time", "2026-01-04T10:00:00Z")
    keyboard.write("Id", "r-700-mended")
    keyboard.press("Send the mended event")
    expect(page.get_by_text("A mended event was sent.")).to_be_visible()

    def counted() -> bool:
        query = urlencode({"source": "chat-api", "id": "r-700-mended"})
        return server.ask("GET", f"{API}/event-trace?{query}").status == 200

    until("it counts", FILLED_WITHIN_S, counted)
    keyboard.follow("See what became of it")
    expect(page.get_by_text("The event that counts")).to_be_visible()
    expect(page.get_by_label("The event", exact=True)).to_contain_text("2.000000000000000001")


def test_a_refusal_is_dismissed_with_a_note(keyboard: Keyboard, server: Server) -> None:
    _conflict(server, 701)
    page = keyboard.watched.open("/refusals", "Refusals")
    row = page.get_by_role("region", name="Refusals").get_by_role("row").filter(has_text="r-701")
    keyboard.reach(row.get_by_role("button", name="Compare"))
    page.keyboard.press("Enter")
    keyboard.press("Dismiss")
    keyboard.looked_at()
    keyboard.write("Note for the record", "sent twice by a test")
    keyboard.press("Dismiss it")
    expect(page.get_by_text("sent twice by a test")).to_be_visible()
    expect(row).to_be_hidden()


def test_a_key_is_made_rotated_and_revoked(keyboard: Keyboard, server: Server) -> None:
    page = keyboard.watched.open("/keys", "Keys")
    keyboard.press("Create the key")
    expect(keyboard.field("Name")).to_have_attribute("aria-invalid", "true")
    expect(keyboard.field("Name")).to_be_focused()
    keyboard.looked_at()
    keyboard.refused(400)
    keyboard.write("Name", "gateway")
    keyboard.check("events:write")
    keyboard.press("Create the key")
    made = page.get_by_label("The new key")
    expect(made).to_contain_text("mtl_")
    first = parse_token(made.inner_text().strip())
    keyboard.looked_at()
    keyboard.press("Create the key")  # once more by mistake: what is shown once stays
    expect(keyboard.field("Name")).to_have_attribute("aria-invalid", "true")
    keyboard.refused(400)
    assert parse_token(made.inner_text().strip()) == first

    row = page.get_by_role("region", name="Keys").get_by_role("row").filter(has_text="gateway")
    keyboard.reach(row.get_by_role("button", name="Rotate"))
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Rotate the secret of gateway?")
    keyboard.looked_at()
    keyboard.reach(dialog.get_by_role("button", name="Rotate"))
    page.keyboard.press("Enter")
    secret = dialog.get_by_label("The new key")
    expect(secret).to_contain_text("mtl_")
    second = parse_token(secret.inner_text().strip())
    assert first is not None
    assert second is not None
    assert (first.key_id, first.secret != second.secret) == (second.key_id, True)
    keyboard.looked_at()
    keyboard.press("Close")
    expect(dialog).to_be_hidden()
    expect(row).to_contain_text("the previous one until")

    keyboard.reach(row.get_by_role("button", name="Revoke"))
    page.keyboard.press("Enter")
    keyboard.looked_at()
    keyboard.reach(page.get_by_role("alertdialog").get_by_role("button", name="Revoke"))
    page.keyboard.press("Enter")
    expect(row).to_contain_text("revoked")
    state = server.get(f"{API}/api-keys/{first.key_id}").json["state"]
    assert state == "revoked"
