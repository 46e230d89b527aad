"""Fixtures of the console's tests: a server with data, and a browser that notes what is wrong."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.chromium import ARGUMENTS, installed
from tests.console.filling import fill
from tests.console.keyboard import Keyboard
from tests.console.watched import Watched
from tests.journey.setups import SetUp, embedded, started

SAID_CHARS = 12_000  # an answer 500 leaves a traceback there


@pytest.fixture(scope="package")
def chromium() -> str:
    """The path of Chromium."""
    return installed()


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
        yield playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)


@pytest.fixture
def watched(browser: Browser, console: str, product: SetUp) -> Iterator[Watched]:
    """A page of the console. What it complains of, or asks of others, fails the test, and what the
    server said last is told.
    """
    context = browser.new_context(timezone_id="Europe/Berlin")
    one = Watched(context.new_page(), console)
    yield one
    if not one.page.is_closed():  # a test may have closed it
        one.page.unroute_all(behavior="ignoreErrors")  # what is still asked of a handler
    context.close()
    assert one.complaints == [], product.logs(SAID_CHARS)


@pytest.fixture
def keyboard(watched: Watched) -> Keyboard:
    """The page without a mouse."""
    return Keyboard(watched)
