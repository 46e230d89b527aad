"""A page that is worked by keyboard alone."""

import re
from dataclasses import dataclass
from typing import Final

from playwright.sync_api import Locator, Page

from tests.console.watched import Watched

STEPS_MAX: Final = 150  # of Tab, from anywhere on a page to anywhere


@dataclass(frozen=True, slots=True)
class Keyboard:
    """What a person does who has no mouse: Tab, keys, Enter, Escape."""

    watched: Watched

    @property
    def page(self) -> Page:
        """The page that has the focus."""
        return self.watched.page

    def reach(self, goal: Locator) -> None:
        """Tab until something has the focus."""
        goal.wait_for()
        for _ in range(STEPS_MAX):
            if goal.evaluate("one => one === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        message = f"Tab does not reach {goal}"
        raise AssertionError(message)

    def field(self, label: str) -> Locator:
        """The field with a label; where it need not be filled in, the label says so."""
        return self.page.get_by_label(re.compile(f"^{re.escape(label)}( optional)?$"))

    def write(self, label: str, text: str) -> None:
        """Write into the field with a label, over what is there."""
        self.reach(self.field(label))
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.type(text)

    def choose(self, label: str, steps: int) -> None:
        """Go so many options down in a list."""
        self.reach(self.page.get_by_role("combobox", name=label, exact=True))
        for _ in range(steps):
            self.page.keyboard.press("ArrowDown")

    def check(self, label: str) -> None:
        """Check a box."""
        self.reach(self.page.get_by_role("checkbox", name=re.compile(f"^{re.escape(label)}")))
        self.page.keyboard.press("Space")

    def press(self, name: str) -> None:
        """Press the button with a name."""
        self.reach(self._open().get_by_role("button", name=name, exact=True))
        self.page.keyboard.press("Enter")

    def _open(self) -> Locator:
        """The dialog, where one is open: nothing else can be reached then."""
        dialog = self.page.get_by_role("dialog").or_(self.page.get_by_role("alertdialog"))
        return dialog if dialog.count() else self.page.locator("body")

    def follow(self, name: str) -> None:
        """Follow the link with a name."""
        self.reach(self.page.get_by_role("link", name=name, exact=True))
        self.page.keyboard.press("Enter")

    def looked_at(self) -> None:
        """Axe finds nothing on the page as it is, and it is not wider than its window."""
        assert self.watched.violations() == []
        assert self.watched.overflow() <= 0

    def refused(self, status: int) -> None:
        """The server refused something as it should; Chromium notes the answer itself."""
        assert any(_told(status) in one for one in self.watched.complaints)
        self.may_be_refused(status)

    def may_be_refused(self, status: int) -> None:
        """So may be what was half written when it was asked about: a busy machine writes slowly."""
        there = self.watched.complaints
        there[:] = [one for one in there if _told(status) not in one]


def _told(status: int) -> str:
    return f"status of {status}"
