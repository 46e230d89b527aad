"""The docs as a site: every page is on it, and every link of it leads somewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.exceptions import Abort
from playwright.sync_api import expect, sync_playwright

from docs import site
from docs.site_diagrams import SCRIPT
from docs.site_reference import reference
from tests.chromium import ARGUMENTS, installed

pytestmark = pytest.mark.standard

HOSTS = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//""")

DRAWN_WITHIN_MS = 60_000
SEEN_PX = 40


class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.names: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as it is called
        given = dict(attrs)
        self.names |= {given[key] or "" for key in ("id", "name") if key in given}
        for key in ("href", "src"):
            if given.get(key):
                self.links.add(given[key] or "")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.make(folder)
    return folder


def test_every_page_is_on_it_and_in_the_table_of_contents(built: Path) -> None:
    index = Page((built / "index.html").read_text())
    for place in site.pages().values():
        page = Path(place).with_suffix(".html").as_posix()
        assert (built / page).is_file()
        assert page in index.links


def test_every_link_of_it_leads_somewhere(built: Path) -> None:
    pages = {path: Page(path.read_text()) for path in built.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are from the root of a host
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (known and unquote(parts.fragment) not in known.names):
                broken.append(f"{path.relative_to(built)}: {link}")
    assert broken == []


def test_a_page_asks_no_other_host(built: Path) -> None:
    for path in built.rglob("*.html"):
        assert not HOSTS.search(path.read_text()), path


def test_diagrams_are_drawn_and_ask_no_other_host(built: Path) -> None:
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(), args=ARGUMENTS)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        for place in sorted(built.rglob("*.html")):
            diagrams = place.read_text().count('<pre class="mermaid">')
            if diagrams:
                page.goto(place.as_uri())
                drawn = page.locator("div.mermaid")  # in the place of the text
                expect(drawn).to_have_count(diagrams, timeout=DRAWN_WITHIN_MS)
                boxes = [one.bounding_box() for one in drawn.all()]
                assert all(box and box["height"] > SEEN_PX for box in boxes), place
        browser.close()
    assert any(url.endswith(SCRIPT) for url in asked)
    assert [url for url in asked if urlsplit(url).scheme != "file"] == []


def test_every_operation_is_on_it(built: Path) -> None:
    lines = re.findall(r"^(?:GET|POST|PUT|PATCH|DELETE) /\S+$", reference(), re.MULTILINE)
    assert len(lines) == len(set(lines)) >= 70
    text = (built / site.REFERENCE).with_suffix(".html").read_text()
    assert all(line.split()[1] in text for line in lines)


@pytest.mark.parametrize("link", ["nowhere", "api.md#nowhere"])
def test_a_link_that_leads_nowhere_fails(tmp_path: Path, link: str) -> None:
    with pytest.raises((SystemExit, Abort)):
        site.make(tmp_path, {"glossary.md": f"\n[a page]({link})\n"})
