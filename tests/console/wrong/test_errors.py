"""The server is away or slow, the key is gone, narrow or used up."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect

from tests.console.filling import API, fill
from tests.console.watched import Watched
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.keyed import OPERATOR, SETTINGS, known
from tests.journey.processes import role_process, run_command
from tests.journey.setups import SetUp, embedded, started
from tests.services.local import LocalService, free_port

SIGN_IN = "Sign in to Meterline"
PATIENCE_MS = 60_000
WITHIN_S = 60.0
RETRIES = 2  # before the page says that something failed
USE_UP = """async path => {
    window.others = setInterval(() => fetch(path), 100);
    while ((await fetch(path)).status !== 429);
}"""


def _holding(held: list[Route]) -> Callable[[Route], None]:
    """Keeps what is asked, and answers nothing yet."""

    def hold(route: Route) -> None:
        held.append(route)

    return hold


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalService]:
    """A server that a test may end."""
    settings = {"METERLINE_DATA_DIR": str(tmp_path / "data")}
    server = role_process("up", ["up"], tmp_path / "up", free_port(), settings)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def test_a_server_that_is_gone_and_back(own: LocalService, browser: Browser) -> None:
    fill(Server(own.url))
    context = browser.new_context()
    watched = Watched(context.new_page(), own.url)
    page = watched.open("/", "Overview")
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()
    page.get_by_role("link", name="Subjects").click()  # a page that does not ask again by itself
    expect(page.get_by_role("link", name="globex")).to_be_visible()
    own.kill()
    page.get_by_role("link", name="Overview").click()
    away = page.get_by_role("alert").filter(has_text="The server does not answer")
    expect(away).to_be_visible()
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()  # as it was
    assert away.count() == 1, "that it is away is said once"
    page.get_by_role("link", name="Changes").click()  # not even its files are here yet
    expect(page.get_by_role("button", name="Reload the page")).to_be_visible()
    own.start()
    expect(page.get_by_role("region", name="Changes")).to_be_visible(timeout=PATIENCE_MS)
    expect(away).to_be_hidden()
    context.close()
    watched.forgive("net::ERR_", "dynamically imported module")
    assert watched.complaints == []


def _failing(route: Route, detail: str) -> None:
    problem = {"type": "about:blank", "status": 503, "title": "Unavailable", "detail": detail}
    route.fulfill(status=503, json=problem | {"instance": f"urn:request:{id(route)}"})


def test_a_reason_for_which_much_of_a_page_fails_is_said_once(watched: Watched) -> None:
    page, asked = watched.page, re.compile(rf"{API}/(status|accounts|reports)")
    times: Counter[str] = Counter()

    def fail(route: Route) -> None:
        (part,) = re.findall(r"status|accounts|reports", route.request.url)
        times[part] += 1
        _failing(route, "Syncs are out." if part == "reports" else "A store does not respond.")

    def tried() -> bool:
        page.wait_for_timeout(100)  # that is when `fail` is called
        return len(times) == 3 and min(times.values()) > RETRIES + 1

    page.route(asked, fail)
    watched.open("/", "Overview")
    told = page.get_by_role("alert")
    expect(told.filter(has_text="Syncs are out.")).to_have_count(1)
    until("the page has asked again for all", WITHIN_S, tried)
    expect(told.filter(has_text="A store does not respond.")).to_have_count(1)
    expect(told).to_have_count(2)
    expect(told.first).to_contain_text("If this goes on, give the request id to whoever runs")
    page.unroute(asked)
    told.first.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()
    watched.forgive("status of 503")


def test_a_page_that_opens_while_the_server_is_away_says_so_once(watched: Watched) -> None:
    page, asked = watched.page, re.compile(f"{API}/")
    signed_in: list[Route] = []

    def leave(route: Route) -> None:
        if route.request.url.endswith("/session") and not signed_in:
            signed_in.append(route)
            route.continue_()
        else:
            route.abort()

    page.route(asked, leave)
    watched.open("/meters", "Meters")
    expect(page.get_by_text("This is shown as soon as the server answers.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(1)
    page.unroute(asked)
    expect(page.get_by_role("link", name="Tokens used")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    watched.forgive("net::ERR_")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    with started(embedded(tmp_path_factory.mktemp("errors"), SETTINGS)) as setup:
        yield setup


Enter = Callable[..., tuple[Watched, str]]


@pytest.fixture
def enter(keyed: SetUp, browser: Browser) -> Iterator[Enter]:
    """Who signs in with a new key that may so much: the page, and the key."""
    contexts: list[BrowserContext] = []

    def act(path: str, heading: str, *options: str) -> tuple[Watched, str]:
        command = ["keys", "create", "--name", "of-a-test", *options]
        key = run_command(command, keyed.folder, keyed.processes["up"].environment).split()[-1]
        known(Server(keyed.control.url, key))
        contexts.append(browser.new_context())
        watched = Watched(contexts[-1].new_page(), keyed.control.url)
        page = watched.open(path, SIGN_IN)
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
        return watched, key

    yield act
    for context in contexts:
        context.close()


def test_a_key_that_is_revoked_ends_the_page_and_a_new_one_goes_on(
    keyed: SetUp, enter: Enter
) -> None:
    watched, key = enter("/", "Overview", *OPERATOR)
    page = watched.page
    expect(page.get_by_role("button", name="Dismiss the tour")).to_be_visible()
    run_command(
        ["keys", "revoke", key.split("_")[1]], keyed.folder, keyed.processes["up"].environment
    )
    page.get_by_role("heading", level=1, name=SIGN_IN).wait_for(timeout=PATIENCE_MS)
    assert watched.violations() == []
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Sign in with a key that is valid")
    watched.forgive("401")
    assert watched.complaints == []


def test_who_signs_in_is_not_shown_what_another_key_was(keyed: SetUp, enter: Enter) -> None:
    watched, key = enter("/keys", "Keys", *OPERATOR)
    page, environment = watched.page, keyed.processes["up"].environment
    expect(page.get_by_role("region", name="Keys")).to_be_visible()
    run_command(["keys", "revoke", key.split("_")[1]], keyed.folder, environment)
    server = Server(keyed.control.url, key)
    until("it is refused", 60, lambda: server.ask("GET", f"{API}/meters").status == 401)
    page.get_by_role("link", name="Changes").click()
    page.get_by_role("heading", level=1, name=SIGN_IN).wait_for()
    narrow = ["keys", "create", "--name", "narrow", "--scope=changes:read"]
    other = run_command(narrow, keyed.folder, environment).split()[-1]
    known(Server(keyed.control.url, other))
    page.get_by_role("textbox", name="API key").fill(other)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("region", name="Changes")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("keys:read")
    expect(page.get_by_role("region", name="Keys")).to_be_hidden()
    watched.forgive("401", "403")
    assert watched.complaints == []


def test_what_a_key_may_not_do_is_not_offered_and_says_what_is_missing(enter: Enter) -> None:
    watched, _ = enter("/meters", "Meters", "--scope=meters:read")
    page = watched.page
    assert page.get_by_role("navigation", name="Main").get_by_role("link").all_inner_texts() == [
        "Meters"
    ]
    page.goto(f"{watched.url}/console/keys")
    refused = page.get_by_role("alert")
    expect(refused).to_contain_text("keys:read")
    expect(refused).to_contain_text("Ask for a key with the scope that is named")
    expect(page.get_by_role("button", name="Make it")).to_be_hidden()
    page.goto(f"{watched.url}/console/")
    expect(page.get_by_role("alert").first).to_contain_text("status:read")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(7000)  # else two polls of the status
    assert [url for url in asked if url.endswith("/status")] == []
    watched.forgive("403")
    assert watched.complaints == []


def test_subjects_are_offered_to_who_may_see_usage(enter: Enter) -> None:
    watched, _ = enter("/subjects", "Subjects", "--scope=usage:read")
    page = watched.page
    assert page.get_by_role("navigation", name="Main").get_by_role("link").all_inner_texts() == [
        "Subjects"
    ]
    expect(page.get_by_text("No subject yet")).to_be_visible()
    assert watched.complaints == []


def test_a_plan_that_is_used_up_says_so_and_the_page_goes_on(enter: Enter) -> None:
    watched, _ = enter("/meters", "Meters", *OPERATOR, "--plan=tight")
    page = watched.page
    # The plan allows 8 requests in 8 seconds: however slow the page is, nothing is left of them.
    page.evaluate(USE_UP, f"{API}/meters")
    page.get_by_role("link", name="Syncs", exact=True).click()
    waiting = page.get_by_text("Asking again").or_(page.get_by_text("allows no more requests"))
    expect(waiting.first).to_be_visible()
    page.evaluate("clearInterval(window.others)")
    expect(waiting).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.get_by_role("alert")).to_have_count(0)
    watched.forgive("429")
    assert watched.complaints == []


def test_a_slow_answer_is_awaited_and_other_pages_work(watched: Watched) -> None:
    held: list[Route] = []
    asked = re.compile(rf"{API}/meters\?")

    def hold(route: Route) -> None:
        held.append(route)

    watched.page.route(asked, hold)
    page = watched.open("/meters", "Meters")
    told = "The server takes long to answer"
    expect(page.get_by_role("status")).to_contain_text(told, timeout=PATIENCE_MS)
    page.get_by_role("link", name="Subjects").click()
    expect(page.get_by_role("link", name="globex")).to_be_visible()
    page.get_by_role("link", name="Meters").click()
    page.wait_for_timeout(100)
    for route in held:
        route.continue_()
    page.unroute(asked)
    expect(page.get_by_role("link", name="Tokens used")).to_be_visible()


def test_what_is_sent_while_nobody_answers_is_told_where_it_was_sent(watched: Watched) -> None:
    page = watched.open("/syncs/tokens-daily", "tokens-daily")
    sent = re.compile("/pause$")
    page.route(sent, lambda route: route.abort())
    page.get_by_role("button", name="Pause").click()
    asked = page.get_by_role("alertdialog", name="Pause tokens-daily?")
    asked.get_by_role("button", name="Pause").click()
    expect(asked.get_by_role("alert")).to_contain_text("look before you send it again")
    page.unroute(sent)
    asked.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").filter(has_text="No answer")).to_have_count(0)
    expect(page.get_by_role("button", name="Pause")).to_be_visible()  # it was not done
    watched.forgive("net::ERR_FAILED")


def test_what_is_pressed_twice_is_sent_once(watched: Watched) -> None:
    page = watched.open("/syncs/tokens-daily", "tokens-daily")
    held: list[Route] = []
    sent = re.compile("/pause$")
    page.route(sent, _holding(held))
    page.get_by_role("button", name="Pause").click()
    asked = page.get_by_role("alertdialog", name="Pause tokens-daily?")
    for _ in range(2):
        asked.get_by_role("button", name="Pause").click()
    page.keyboard.press("Escape")
    expect(asked).to_be_visible()  # so that what comes of it is told
    assert len(held) == 1
    held[0].abort()
    expect(asked.get_by_role("alert")).to_be_visible()
    page.unroute(sent)
    asked.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").filter(has_text="No answer")).to_have_count(0)
    watched.forgive("net::ERR_FAILED")


def test_why_a_page_failed_stays_while_it_is_asked_for_again(watched: Watched) -> None:
    page = watched.open("/event?source=nowhere&id=none", "Event none")
    copy = page.get_by_role("button", name="Copy request id")
    copy.focus()
    held: list[Route] = []
    asked = re.compile(r"/event-trace\?")
    page.route(asked, _holding(held))
    with page.expect_request(asked):  # by itself
        pass
    page.wait_for_timeout(100)
    expect(copy).to_be_focused()
    with page.expect_response(asked):
        held[0].continue_()
    page.wait_for_timeout(100)
    watched.forgive("404")


def test_what_is_not_known_of_syncs_is_not_called_well(watched: Watched) -> None:
    page = watched.page
    held: list[Route] = []
    page.route(re.compile(rf"{API}/reports\?"), _holding(held))
    page.route(
        re.compile(rf"{API}/accounts\?"),
        lambda route: route.fulfill(json=_well(route.fetch().json())),
    )
    watched.open("/", "Overview")
    expect(page.get_by_text("Counting is well.")).to_be_visible()
    expect(page.get_by_text("no delivery")).to_be_hidden()
    expect(page.get_by_role("link", name="deliveries")).to_be_hidden()
    for route in held:
        route.continue_()
    expect(page.get_by_text("The receiver of sync tokens-daily is down.")).to_be_visible()


def _well(accounts: Any) -> Any:
    """As if nothing had been refused."""
    return accounts | {"total": accounts["total"] | {"conflict": 0, "invalid": 0}}


def test_a_table_that_is_not_saved_says_why(watched: Watched) -> None:
    page = watched.open("/meters/tokens", "Tokens used")
    save = page.get_by_role("button", name="Save as CSV")
    expect(save).to_be_enabled()

    def refuse(route: Route) -> None:
        problem = {"type": "about:blank", "status": 503, "title": "Unavailable"}
        problem |= {"detail": "A store does not respond.", "instance": "urn:request:of-a-test"}
        if route.request.headers["accept"] == "text/csv":
            route.fulfill(status=503, json=problem)
        else:
            route.fallback()

    page.route(re.compile("/query$"), refuse)
    save.click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("A store does not respond.")
    expect(told).to_contain_text("urn:request:of-a-test")
    expect(save).to_be_enabled()
    watched.forgive("status of 503")


def test_what_cannot_be_copied_says_so(watched: Watched) -> None:
    # A page over http from another machine has no clipboard.
    watched.page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined })"
    )
    page = watched.open("/syncs/tokens-daily", "tokens-daily")
    page.get_by_role("button", name="Copy", exact=True).first.click()
    expect(page.get_by_role("button", name="Not copied: select it")).to_be_visible()


def test_a_tab_that_nobody_sees_asks_for_nothing(watched: Watched) -> None:
    page = watched.open("/", "Overview")
    expect(page.get_by_role("region", name="Partitions")).to_be_visible()

    def seen(state: str) -> None:
        page.evaluate(
            f"Object.defineProperty(document, 'visibilityState',"
            f" {{ get: () => '{state}', configurable: true }});"
            "document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))"
        )

    seen("hidden")
    page.wait_for_timeout(1000)  # what was asked before is answered
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(7000)  # else two polls of the status
    assert asked == []
    with page.expect_request(f"**{API}/status"):
        seen("visible")
