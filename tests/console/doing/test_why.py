"""From a number to its cells, its slices and its events."""

import re

from playwright.sync_api import expect

from tests.console.keyboard import Keyboard

JANUARY = "from=2026-01-01T00:00:00Z&to=2026-01-06T00:00:00Z&by=P1D"


def test_a_number_leads_to_cells_slices_and_events(keyboard: Keyboard) -> None:
    page = keyboard.watched.open(f"/meters/tokens?{JANUARY}&group=subject", "Tokens used")
    top = page.get_by_role("region", name="Usage by window")
    row = top.get_by_role("row").filter(has_text="2026-01-05").filter(has_text="globex")
    keyboard.reach(row.get_by_role("button"))
    page.keyboard.press("Enter")
    why = page.get_by_role("dialog", name="Why 10?")
    cells = why.get_by_role("region", name="Cells of the number")
    expect(why.get_by_text("Subject", exact=True).first.locator("..")).to_contain_text("globex")
    expect(cells).to_contain_text("model=small")
    expect(cells).not_to_contain_text("subject=")  # which is said above
    expect(cells.get_by_role("row")).to_have_count(2)  # with the head
    slices = why.get_by_role("region", name="Slices of the log")
    checksum = re.compile("[0-9a-f]{32}")
    expect(slices).to_contain_text(checksum)
    told = slices.get_by_role("row").nth(1).inner_text()
    found = checksum.search(told)
    assert found is not None
    expect(why).to_contain_text(f"1 event, checksum {found[0][:16]}")  # one slice: the same
    keyboard.looked_at()
    keyboard.reach(cells.get_by_role("button"))
    page.keyboard.press("Enter")  # the cell is a number, too
    expect(why.get_by_text("2026-01-05 11:00:00")).to_be_visible()
    expect(why.get_by_role("link", name="r-15")).to_be_visible()
    expect(why.get_by_text(re.compile("by minute"))).to_be_visible()


def test_a_number_of_one_dimension_leads_to_the_events_of_that_one(keyboard: Keyboard) -> None:
    page = keyboard.watched.open(
        f"/meters/tokens?{JANUARY}&dimension=model&is=small", "Tokens used"
    )
    usage = page.get_by_role("region", name="Usage by window")
    keyboard.reach(usage.get_by_role("row").filter(has_text="2026-01-02").get_by_role("button"))
    page.keyboard.press("Enter")
    why = page.get_by_role("dialog", name="Why 10?")
    expect(why.get_by_text("1 event, checksum")).to_be_visible()  # and none of the large model
    expect(why.get_by_role("link", name="r-12")).to_be_visible()
