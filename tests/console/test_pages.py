"""Each page does its main job, without a complaint of the browser."""

import hashlib
import json
import re
from urllib.parse import urlencode

from playwright.sync_api import Route, expect

from tests.console.filling import API, ARABIC, LONG, SCRIPT
from tests.console.watched import Watched
from tests.journey.client import Server

JANUARY = "from=2026-01-01T00:00:00Z&to=2026-01-06T00:00:00Z&by=P1D"


def test_the_address_alone_shows_the_overview(watched: Watched) -> None:
    watched.page.goto(watched.url)
    watched.page.get_by_role("heading", level=1, name="Overview").wait_for()
    assert watched.page.url == f"{watched.url}/console/"


def test_the_overview_says_what_is_wrong_first(watched: Watched) -> None:
    page = watched.open("/", "Overview")
    troubles = page.get_by_role("list", name="What is wrong").get_by_role("listitem")
    expect(troubles.first).to_contain_text("The receiver of sync tokens-daily is down.")
    expect(troubles.nth(1)).to_contain_text("1 event came again with other contents")
    expect(page.get_by_role("link", name=re.compile("^1 duplicate"))).to_be_visible()
    bars = page.get_by_role("img", name=re.compile("^Events received by hour. Most in an hour: "))
    expect(bars).to_be_visible()
    page.get_by_role("link", name=re.compile("^1 conflict")).click()
    expect(page.get_by_role("table").get_by_role("link", name="r-2")).to_be_visible()
    assert "verdict=conflict" in page.url


def test_a_meter_shows_its_usage_and_why(watched: Watched) -> None:
    watched.open("/meters", "Meters").get_by_role("link", name="Tokens used").click()
    page = watched.open(f"/meters/tokens?{JANUARY}&group=subject", "Tokens used")
    usage = page.get_by_role("region", name="Usage by window")
    row = usage.get_by_role("row").filter(has_text="2026-01-05").filter(has_text="acme")
    expect(row).to_contain_text("1,005")
    row.get_by_role("button", name="1,005").click()
    why = page.get_by_role("dialog", name="Why 1,005?")
    expect(why.get_by_role("link", name="r-5")).to_be_visible()
    expect(why).to_contain_text(re.compile("1 event, checksum [0-9a-f]{16}"))
    page.reload()  # the question lies in the URL
    expect(why.get_by_role("link", name="r-5")).to_be_visible()
    page.keyboard.press("Escape")
    expect(why).to_be_hidden()


def test_a_range_and_a_zone_are_taken_as_people_write_them(watched: Watched) -> None:
    page = watched.open(
        "/meters/tokens?from=2026-01-01&to=2026-01-06&by=P1D&zone=Atlantis", "Tokens used"
    )
    usage = page.get_by_role("region", name="Usage by window")
    expect(usage.get_by_role("row").filter(has_text="2026-01-05")).to_contain_text("1,015")
    expect(page.get_by_label("Zone of days")).to_have_value("UTC")
    half = urlencode({"why": '{"meter":"tokens","from":"2026-01-01"}'})
    page = watched.open(f"/meters?{half}", "Meters")
    expect(page.get_by_role("link", name="Tokens used")).to_be_visible()
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_what_is_closed_takes_its_place_in_a_list_with_it(watched: Watched) -> None:
    question = '{"meter":"tokens","from":"2026-01-01T00:00:00Z","to":"2026-01-06T00:00:00Z"}'
    asked = urlencode({"why": question, "why_after": "1.0.0.0"})
    page = watched.open(f"/meters/tokens?{asked}", "Tokens used")
    expect(page.get_by_role("button", name="First events")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert "why" not in page.url
    (run,) = Server(watched.url).get(f"{API}/reports/tokens-daily/runs").json["data"]
    asked = urlencode({"run": run["id"], "after": f"0.{run['id']}.1"})
    page = watched.open(f"/syncs/tokens-daily?{asked}", "tokens-daily")
    manifest = page.get_by_role("region", name="Manifest of the run")
    manifest.get_by_role("button", name="Close").click()
    expect(page.get_by_role("region", name="Deliveries")).to_contain_text("acme")


def test_what_an_answer_lacks_is_told(watched: Watched) -> None:
    since = "2026-01-02T00:00:00Z"

    def cut(route: Route) -> None:
        found = route.fetch().json()
        if "/query" in route.request.url:
            found["complete_from"] = since
        else:
            found["meta"]["kept_from"] = since
        route.fulfill(json=found)

    watched.page.route(re.compile(rf"{API}/(meters/tokens/query|events\?|refusals\?)"), cut)
    page = watched.open(f"/meters/tokens?{JANUARY}", "Tokens used")
    expect(page.get_by_text("Before 2026-01-02 00:00:00 it may lack events")).to_be_visible()
    for path, heading in (("/events", "Events"), ("/refusals?state=any", "Refusals")):
        page = watched.open(path, heading)
        told = page.get_by_text("What arrived before 2026-01-02 00:00:00 is not kept any more.")
        expect(told).to_be_visible()


def test_rejected_values_and_programs_are_shown(watched: Watched) -> None:
    page = watched.open(f"/meters/tokens?{JANUARY}&compare=before", "Tokens used")
    expect(page.get_by_role("region", name="Rejected values")).to_contain_text("many")
    page.get_by_role("tab", name="TypeScript").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("createClient")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert saved.value.path().read_text().startswith("from,to,")


def test_a_duplicate_that_did_not_count_is_part_of_why(watched: Watched) -> None:
    page = watched.open(f"/meters/tokens?{JANUARY}", "Tokens used")
    usage = page.get_by_role("region", name="Usage by window")
    usage.get_by_role("row").filter(has_text="2026-01-01").get_by_role("button").click()
    uncounted = page.get_by_role("region", name="Events that did not count")
    expect(uncounted).to_contain_text("duplicate")
    expect(page.get_by_role("region", name="Deliveries that reported it")).to_contain_text(
        "tokens-daily"
    )


def test_a_sync_shows_its_receiver_and_is_paused_and_resumed(watched: Watched) -> None:
    watched.open("/syncs", "Syncs").get_by_role("link", name="tokens-daily").click()
    page = watched.page
    expect(page.get_by_text("The last error")).to_be_visible()
    expect(page.get_by_role("region", name="Deliveries")).to_contain_text("acme")
    page.get_by_role("button", name="Open the run").click()
    expect(page.get_by_role("button", name="Copy digest")).to_be_visible()
    expect(page.get_by_text("Total of the values").locator("..")).to_contain_text("1,011")
    page.get_by_role("region", name="Runs").get_by_role("button", name="1,011").click()
    why = page.get_by_role("dialog", name="Why 1,011?")
    expect(why.get_by_role("link", name="r-11", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("This sync is paused.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_a_delivery_shows_attempts_bytes_and_why(watched: Watched) -> None:
    page = watched.open("/syncs/tokens-daily", "tokens-daily")
    page.get_by_role("region", name="Deliveries").get_by_role("link", name="acme").click()
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("unreached")
    expect(page.get_by_role("term").filter(has_text="Next attempt")).to_be_visible()
    body = page.get_by_label("Body", exact=True)
    expect(body).to_contain_text('"valueText":"1001"')
    digest = hashlib.blake2b(body.inner_text().encode(), digest_size=32).hexdigest()
    command = page.get_by_label("Command that computes the digest")
    expect(command).to_have_text(re.compile(rf"\| b2sum -l 256\s# {digest}$"))
    page.get_by_role("region", name="Entries").get_by_role("button", name="1,001").click()
    behind = page.get_by_role("region", name="Events behind the number")
    expect(behind.get_by_role("link", name="r-1")).to_be_visible()


def test_an_event_is_found_and_traced(watched: Watched) -> None:
    page = watched.open("/events", "Events")
    page.get_by_label("Id contains").fill("r-20")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="r-20").click()
    expect(page.get_by_text("The event that counts")).to_be_visible()
    expect(page.get_by_role("region", name="Meters")).to_contain_text("counted")


def test_a_refusal_is_compared_and_dismissed(watched: Watched) -> None:
    page = watched.open("/refusals?kind=conflict", "Refusals")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="Differences")).to_contain_text("77")
    page.get_by_role("button", name="Dismiss").click()
    page.get_by_label("Note for the record").fill("sent by a test")
    page.get_by_role("button", name="Dismiss it").click()
    expect(page.get_by_text("Nothing is refused")).to_be_visible()


def test_a_page_of_refusals_that_has_none_leads_on(watched: Watched) -> None:
    def none_yet(route: Route) -> None:
        page = {"size": 25, "next": "later", "previous": None}
        body = json.dumps({"data": [], "meta": {"page": page}})
        route.fulfill(body=body, content_type="application/json")

    listed = re.compile(rf"{API}/refusals\?")
    watched.page.route(listed, none_yet)
    page = watched.open("/refusals?state=any", "Refusals")
    expect(page.get_by_text("This page of the list has no entry")).to_be_visible()
    expect(page.get_by_text("Nothing is refused")).to_be_hidden()
    page.unroute(listed)
    page.route(listed, lambda route: route.continue_(url=f"{watched.url}{API}/refusals"))
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("region", name="Refusals")).to_contain_text("r-2")


def test_a_list_behind_its_end_leads_to_its_beginning(watched: Watched) -> None:
    page = watched.open(f"/changes?after={'0' * 26}", "Changes")
    expect(page.get_by_text("Nothing was changed yet")).to_be_hidden()
    page.get_by_role("button", name="First page").click()
    expect(page.get_by_role("region", name="Changes")).to_contain_text("tokens")


def test_names_of_any_kind_survive(watched: Watched) -> None:
    page = watched.open("/subjects", "Subjects")
    for name in (LONG, SCRIPT, ARABIC):
        page.get_by_role("link", name=name).click()
        page.get_by_role("heading", level=1, name=name).wait_for()
        expect(page.get_by_role("region", name="Usage")).to_contain_text("why?")
        page.go_back()
    assert page.title() == "Subjects · Meterline"


def test_a_key_is_made_and_recorded(watched: Watched) -> None:
    page = watched.open("/keys", "Keys")
    page.get_by_role("textbox", name="Name").fill("of-a-test")
    page.get_by_label("usage:read").check()
    page.get_by_role("button", name="Create the key").click()
    expect(page.get_by_label("The new key")).to_contain_text("mtl_")
    watched.open("/changes", "Changes")
    expect(page.get_by_role("region", name="Changes")).to_contain_text("of-a-test")


def test_how_long_ago_something_was_stays_true(watched: Watched) -> None:
    name = "of-an-hour-ago"
    Server(watched.url).made(f"{API}/api-keys", {"name": name, "scopes": ["usage:read"]})
    watched.page.clock.install()
    page = watched.open("/keys", "Keys")
    row = page.get_by_role("region", name="Keys").get_by_role("row").filter(has_text=name)
    expect(row).to_be_visible()
    page.clock.fast_forward("01:00:30")
    expect(row).to_contain_text("1 hour ago")


def test_an_error_says_what_to_do_and_has_its_request_id(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.url}/console/meters/no_such_meter")
    expect(page.get_by_role("alert")).to_contain_text(re.compile("Request .+"))
    expect(page.get_by_role("button", name="Copy request id")).to_be_visible()
    told = [one for one in watched.complaints if "404" in one]
    assert told == watched.complaints  # Chromium notes the answer itself
    watched.complaints.clear()
