"""Fixtures of the console's tests: a server with data, and a browser that notes what is wrong."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.console.filling import fill
from tests.console.keyboard import Keyboard
from tests.console.watched import Watched
from tests.journey.setups import SetUp, embedded, started

APT_WITHIN_S = 600
SAID_CHARS = 12_000  # an answer 500 leaves a traceback there
NEEDED = (
    "the tests of the console need Chromium. Debian and Ubuntu: apt install chromium; as root "
    "they install it themselves"
)


@pytest.fixture(scope="package")
def chromium() -> str:
    """The path of Chromium, installed by apt where we may and it is missing."""
    found = shutil.which("chromium")
    if found is None:
        apt = shutil.which("apt-get")
        assert apt is not None, NEEDED
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run([apt, "-qq", *command], check=True, timeout=APT_WITHIN_S)
        found = shutil.which("chromium")
    assert found is not None, NEEDED
    return found


@pytest.fixture(scope="package")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    """An embedded server with usage, refusals and a sync whose receiver is away."""
    with started(embedded(tmp_path_factory.mktemp("console"))) as setup:
        fill(setup.control)
        yield setup


@pytest.fixture(scope="package")
def console(product: SetUp) -> str:
    """Its address."""
    return product.control.url


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        yield playwright.chromium.launch(executable_path=chromium, args=arguments)


@pytest.fixture
def watched(browser: Browser, console: str, product: SetUp) -> Iterator[Watched]:
    """A page of the console. What it complains of, or asks of others, fails the test, and what the
    server said last is told.
    """
    context = browser.new_context(timezone_id="Europe/Berlin")
    one = Watched(context.new_page(), console)
    yield one
    context.close()
    assert one.complaints == [], product.logs(SAID_CHARS)


@pytest.fixture
def keyboard(watched: Watched) -> Keyboard:
    """The page without a mouse."""
    return Keyboard(watched)
