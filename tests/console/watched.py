"""A page of the console with everything noted that a user's browser would complain of."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from playwright.sync_api import ConsoleMessage, Error, Locator, Page, Request, expect

from clients.openapi.tools import ROOT, npm_packages

CONSOLE: Final = ROOT / "console"
WITHIN_MS: Final = 60_000
TABS_MAX: Final = 80
FOCUSED: Final = "(one) => one === document.activeElement"


@dataclass
class Watched:
    """A page. Violations of the policy come as errors of the browser's console."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(WITHIN_MS)
        expect.set_options(timeout=WITHIN_MS)  # a machine may do much else
        self.page.on("console", self._said)
        self.page.on("pageerror", self._broke)
        self.page.on("request", self._asked)

    def open(self, path: str, heading: str) -> Page:
        """Go to a page below `/console` and wait for its heading."""
        self.page.goto(f"{self.url}/console{path}")
        self.page.get_by_role("heading", level=1, name=heading).wait_for()
        return self.page

    def violations(self) -> list[str]:
        """What axe finds on the page as it is now."""
        axe = npm_packages(CONSOLE).parent / "axe-core" / "axe.min.js"
        found: dict[str, Any] = self.page.evaluate(f"{axe.read_text()};axe.run()")
        assert len(found["passes"]) > 10, "axe looked at a page that is nearly empty"
        return [
            f"{one['id']}: {json.dumps([node['html'] for node in one['nodes']])}"
            for one in found["violations"]
        ]

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return width

    def forgive(self, *words: str) -> None:
        """Forget what Chromium itself notes of answers that a test wants, known by their words.
        Anything else stays, and fails the test.
        """
        self.complaints = [one for one in self.complaints if not any(word in one for word in words)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _broke(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"asked another host: {request.url}")


def reach(watched: Watched, target: Locator) -> None:
    """Press Tab until a control has the focus; it has to be seen that it has."""
    for _ in range(TABS_MAX):
        watched.page.keyboard.press("Tab")
        if target.evaluate(FOCUSED):
            ring = target.evaluate("(one) => getComputedStyle(one).outlineStyle")
            assert ring != "none", "the focus cannot be seen"
            return
    message = f"Tab does not lead to {target}"
    raise AssertionError(message)
