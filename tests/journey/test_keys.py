"""Mode `keys` as users meet it: who is let in, for how long, how often, and in whose name."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event

import pytest

from meterline.window import parse_instant
from tests.journey.client import Answer
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.keyed import (
    BATCH,
    CALLS,
    EVENTS,
    KEYS,
    KNOWN_WITHIN_S,
    METERS,
    SETTINGS,
    TIGHT,
    TRACED,
    V3,
    Caller,
    House,
    Keyed,
    event,
    houses,
    traced,
    unknown_token,
)
from tests.journey.outage import Outage, late_ingest, outage_of, visitors_of
from tests.journey.processes import run_command
from tests.journey.receiver import Receiver
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling
from tests.services.service import Service

pytestmark = pytest.mark.standard

COUNTED_WITHIN_S = 180.0
SHOWN_WITHIN_S = 60.0
FLOOD = 20_000  # `python -m tests.bench groups` sends 1,000,000


@dataclass(frozen=True, slots=True)
class Story:
    """A set-up with two namespaces; distributed, PostgreSQL was away from it for a while."""

    keyed: Keyed
    houses: tuple[House, House]
    outage: Outage | None = None

    @property
    def admin(self) -> Caller:
        """Whoever has all rights in the first namespace."""
        return self.houses[0].admin


@pytest.fixture(scope="module")
def stories(
    tmp_path_factory: pytest.TempPathFactory,
    receiver: Receiver,
    servers: Servers,
    postgres_service: Service,
) -> Iterator[Mapping[str, Future[Story]]]:
    """Both set-ups: while PostgreSQL is away from one, the other is started and tested."""
    together = embedded(tmp_path_factory.mktemp("keyed"), SETTINGS)
    apart = distributed(tmp_path_factory.mktemp("keyed"), servers, SETTINGS)
    enough = {name: one for name, one in apart.processes.items() if name != "aggregate-2"}
    apart = replace(apart, processes=enough)
    late = late_ingest(apart)
    is_quiet = Event()

    def lived_in(setup: SetUp) -> Story:
        setup.start()
        keyed = Keyed(setup)
        return Story(keyed, houses(keyed, receiver))

    def went_together() -> Story:
        is_quiet.wait()
        with telling(together):
            return lived_in(together)

    def went_apart() -> Story:
        try:
            with telling(apart):
                story = lived_in(apart)
                visitors = visitors_of(story.keyed, story.admin)
                is_quiet.set()  # from here on it is waited for most of the time
                outage = outage_of(story.admin, visitors, postgres_service, late)
                return replace(story, outage=outage)
        finally:
            is_quiet.set()

    try:
        with ThreadPoolExecutor(2) as threads:
            went = {"embedded": went_together, "distributed": went_apart}
            yield {name: threads.submit(go) for name, go in went.items()}
    finally:
        for setup in (together, apart):
            setup.kill()
        late.kill()


@pytest.fixture(scope="module", params=SETUPS)
def story(request: pytest.FixtureRequest, stories: Mapping[str, Future[Story]]) -> Story:
    return stories[request.param].result()


@pytest.fixture(scope="module")
def outage(stories: Mapping[str, Future[Story]]) -> Outage:
    seen = stories["distributed"].result().outage
    assert seen is not None
    return seen


def assert_problem(answer: Answer, name: str, status: int) -> None:
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["type"] == f"urn:meterline:problem:{name}"
    assert answer.json["instance"] == f"urn:request:{answer.headers['x-request-id']}"


def counted(caller: Caller, subject: str, calls: int, meter: str = "calls") -> None:
    """Wait until the meter says so many calls of a subject, each worth 1; never more."""

    def so_many() -> bool:
        value, number = caller.totals(meter).get(subject, ("0", 0))
        assert number <= calls
        return (value, number) == (str(calls), calls)

    until(f"the calls of {subject} count", COUNTED_WITHIN_S, so_many)


def test_without_a_good_key_nobody_passes(story: Story) -> None:
    setup = story.keyed.setup
    stranger = story.keyed.caller(unknown_token().text)
    wrong = replace(unknown_token(), key_id=story.admin.token.key_id)
    for server, method, path in ((setup.ingest, "POST", EVENTS), (setup.control, "GET", METERS)):
        for words in ("", "Bearer mtl_x", f"Bearer {stranger.token.text}", f"Bearer {wrong.text}"):
            headers = {**BATCH, "Authorization": words} if words else BATCH
            answer = server.ask(method, path, b"[]" if method == "POST" else None, headers)
            assert_problem(answer, "unauthenticated", 401)
            assert answer.headers["www-authenticate"] == 'Bearer realm="meterline"'


def test_a_key_does_what_its_scopes_say(story: Story) -> None:
    reader = story.keyed.given(story.admin, ["meters:read"])
    sender = story.keyed.given(story.admin, ["events:write"])

    def known_at_both_doors() -> bool:
        answers = [ask() for who in (reader, sender) for ask in (who.send, who.asked)]
        return 401 not in [answer.status for answer in answers]

    until("they are known", KNOWN_WITHIN_S, known_at_both_doors)
    assert_problem(reader.send(event(0, "scopes")), "forbidden", 403)
    assert_problem(sender.asked(), "forbidden", 403)
    assert [one["key"] for one in reader.asked().json["data"]] == ["calls"]
    assert sender.send(event(1, "scopes")).status == 202
    counted(story.admin, "scopes", 1)


@pytest.mark.parametrize("story", ["embedded"], indirect=True)
def test_the_sender_shows_its_key(story: Story) -> None:
    setup = story.keyed.setup
    caller = story.keyed.given(story.admin, ["events:write", "status:read"])
    until("it is known", KNOWN_WITHIN_S, caller.is_let_in)
    file = setup.folder / "sent.ndjson"
    file.write_text("".join(f"{json.dumps(event(number, 'file'))}\n" for number in range(10)))
    to = ("--to", setup.ingest.url, "--status", setup.control.url, "--wait")
    run_command(["send", str(file), *to], setup.folder, {"METERLINE_API_KEY": caller.token.text})
    counted(story.admin, "file", 10)


def test_each_namespace_counts_its_own(story: Story) -> None:
    for house in story.houses:
        until("both count", COUNTED_WITHIN_S, house.has_counted)
    for house in story.houses:
        events = house.admin.listed("/events", "filter[subject]=acme")
        assert sorted(one["event"]["id"] for one in events) == [f"acme-{n}" for n in range(CALLS)]
        assert {one["event"]["data"]["value"] for one in events} == {house.worth}
        assert {one["verdict"]["kind"] for one in events} == {"new"}


def test_what_is_in_another_namespace_is_not_there(story: Story) -> None:
    one, other = (house.admin for house in story.houses)
    for path in ("/meters", "/reports", "/changes", "/api-keys"):
        seen, unseen = ({each["id"] for each in who.listed(path)} for who in (one, other))
        assert seen
        assert unseen
        assert seen.isdisjoint(unseen), path
    for path in ("/meters", "/reports", "/api-keys"):
        foreign = f"{V3}{path}/{other.listed(path)[0]['id']}"
        for method in ("GET", "DELETE"):
            hidden = one.control.ask(method, foreign)
            nothing = one.control.ask(method, f"{V3}{path}/01M7ZMF4YA7D2SQ292V0W9JPT8")
            assert_problem(hidden, "not-found", 404)
            assert nothing.status == 404
        assert other.control.get(foreign).status == 200
    authors = {change["author"] for change in other.listed("/changes")}
    assert authors == {"command", f"key:{other.token.key_id}"}


@pytest.mark.parametrize("story", ["embedded"], indirect=True)
def test_a_flood_of_group_values_is_the_sender_s_own(story: Story) -> None:
    one, other = (house.admin for house in story.houses)
    other.made("/meters", TRACED)
    for first in range(0, FLOOD, 1_000):
        events = [traced(number, "flood") for number in range(first, first + 1_000)]
        assert other.send(*events).status == 202
        assert one.totals()["acme"] == (str(CALLS), CALLS)
    counted(other, "flood", FLOOD, "traced")
    grouped = {"group_by_dimensions": ["trace"]}
    answer = other.control.ask("POST", f"{METERS}/traced/query", grouped)
    assert len({row["dimensions"]["trace"] for row in answer.json["data"]}) == FLOOD
    assert one.send(event(0, "beside")).status == 202
    counted(one, "beside", 1)


def test_each_namespace_has_its_own_report(story: Story) -> None:
    for house in story.houses:
        until("the report arrives", COUNTED_WITHIN_S, house.has_mail)
        assert house.mailbox.refused == []
        (delivered,) = house.mailbox.delivered
        (entry,) = json.loads(delivered.body)["usage"]
        assert (entry["subject"], entry["valueText"]) == ("acme", str(house.worth * CALLS))


def test_a_revoked_key_is_refused_at_every_door(
    story: Story, record_property: Callable[[str, object], None]
) -> None:
    admin, keyed = story.admin, story.keyed
    by_api, by_command = (keyed.given(admin, ["events:write"]) for _ in range(2))
    for caller in (by_api, by_command):
        until("it is known", KNOWN_WITHIN_S, caller.is_let_in)
    ids = [caller.token.key_id for caller in (by_api, by_command)]
    with ThreadPoolExecutor(3) as threads:
        refusals = [threads.submit(refused_at_ms, caller) for caller in (by_api, by_command)]
        command = threads.submit(keyed.command, "revoke", ids[1])
        assert admin.control.ask("DELETE", f"{KEYS}/{ids[0]}").status == 204
        assert command.result() == ""
        for key_id, refusal in zip(ids, refusals, strict=True):
            took_ms = refusal.result() - revoked_at_ms(admin, key_id)
            record_property("refused_after_ms", round(took_ms))
            assert took_ms > 0
    for caller in (by_api, by_command):
        answer = caller.send(event(0, "revoked"))
        assert_problem(answer, "unauthenticated", 401)
        assert "revoked" in answer.json["detail"]


def refused_at_ms(caller: Caller) -> float:
    """When the door first refused a key that it knew."""

    def refused() -> float | None:
        status = caller.send().status
        assert status in (202, 401)
        return time.time() * 1_000 if status == 401 else None

    return until("it is refused", 120, refused)


def revoked_at_ms(admin: Caller, key_id: str) -> int:
    """When a key was revoked, by the record of changes."""
    (change,) = [
        one for one in admin.listed("/changes")
        if (one["resource_id"], one["action"]) == (key_id, "revoke")
    ]  # fmt: skip
    return parse_instant(change["at"])


@pytest.mark.parametrize("story", ["embedded"], indirect=True)
def test_a_plan_limits_a_key_and_only_that(story: Story) -> None:
    caller = story.keyed.given(story.admin, ["events:write"], plan="tight")
    first = until("it is known", KNOWN_WITHIN_S, lambda: unless_refused(caller))
    assert first.headers["ratelimit-policy"] == '"requests";q=8;w=8, "events";q=10;w=10'
    batch = [event(number, "limits") for number in range(10)]
    assert caller.send(*batch).status == 202
    more = [event(number, "limits") for number in range(10, 12)]
    wait(caller.send(*more), "events")
    assert caller.send(*more).status == 202
    assert_problem(caller.send(*batch, *more), "body-too-large", 413)
    answer = caller.send()
    while answer.status == 202:  # until its requests are used up
        answer = caller.send()
    wait(answer, "requests")
    assert caller.send().status == 202
    assert "ratelimit" not in story.admin.send().headers
    counted(story.admin, "limits", len(batch) + len(more))


def wait(refused: Answer, name: str) -> None:
    """Wait as long as a refusal by a limit says."""
    assert_problem(refused, "rate-limited", 429)
    wait_s = int(refused.headers["retry-after"])
    assert 1 <= wait_s <= 10
    assert f'"{name}";r=' in refused.headers["ratelimit"]
    assert f";t={wait_s}" in refused.headers["ratelimit"]
    time.sleep(wait_s)


def unless_refused(caller: Caller) -> Answer | None:
    """The answer to nothing at all, unless the key is not known."""
    answer = caller.send()
    return None if answer.status == 401 else answer


def test_known_keys_are_let_in_while_the_control_store_is_away(outage: Outage) -> None:
    for name in ("known", "current"):
        said = outage.visitors[name].said
        assert {one.status for one in said} == {202}, name
        assert said[-1].before_ms - said[0].after_ms >= 15_000
    assert {one.status for one in outage.visitors["unknown"].said} == {401}
    assert outage.ready.status == 200
    assert_problem(outage.not_made, "unavailable", 503)
    assert int(outage.not_made.headers["retry-after"]) >= 1


def test_limits_hold_meanwhile(outage: Outage) -> None:
    visitor = outage.visitors["limited"]
    assert {one.status for one in visitor.said} == {202, 429}
    lasted_s = (visitor.said[-1].before_ms - visitor.said[0].after_ms) / 1_000
    quota = TIGHT["requests"]["quota"]
    assert quota < visitor.accepted <= quota + lasted_s + 1, "it fills again, and no faster"


@pytest.mark.parametrize("name", ["replaced", "brief"])
def test_what_ends_meanwhile_ends(outage: Outage, name: str) -> None:
    visitor = outage.visitors[name]
    assert visitor.ends_ms is not None
    before = [one.status for one in visitor.said if one.before_ms < visitor.ends_ms]
    after = [one.status for one in visitor.said if one.after_ms >= visitor.ends_ms]
    assert set(before) == {202}
    assert set(after) == {401}


def test_a_door_that_was_opened_meanwhile_says_why_it_is_closed(outage: Outage) -> None:
    late = outage.latecomer
    assert late.alive.status == 200
    assert_problem(late.ready, "unavailable", 503)
    (part,) = late.ready.json["invalid_parameters"]
    assert part["field"] == "keys"
    assert part["reason"].startswith("API keys were not read yet: control store: ")
    assert_problem(late.refused, "unavailable", 503)
    assert int(late.refused.headers["retry-after"]) >= 1
    assert (late.accepted.status, late.ready_then.status) == (202, 200)


@pytest.mark.parametrize("story", ["distributed"], indirect=True)
def test_what_was_let_in_meanwhile_counts_once(story: Story, outage: Outage) -> None:
    for visitor in outage.visitors.values():
        accepted = [
            one for one, said in zip(visitor.sent, visitor.said, strict=True) if said.status == 202
        ]
        assert story.admin.send(*accepted).status == 202, "sent again, as a careful sender does"
    for name, visitor in outage.visitors.items():
        counted(story.admin, name, visitor.accepted)
    counted(story.admin, "late", 1)


@pytest.mark.parametrize("story", ["distributed"], indirect=True)
def test_last_use_is_shown_also_if_it_was_meanwhile(story: Story, outage: Outage) -> None:
    for name in ("known", "replaced", "brief"):
        visitor = outage.visitors[name]
        last = [said for said in visitor.said if said.status == 202][-1]
        path = f"{KEYS}/{visitor.caller.token.key_id}"

        def shown(path: str = path, last_ms: float = last.after_ms) -> bool:
            used = story.admin.control.get(path).json.get("last_used_at")
            return used is not None and parse_instant(used) >= int(last_ms)

        until("last use is shown", SHOWN_WITHIN_S, shown)


def test_no_secret_is_told_in_any_log(story: Story) -> None:
    setup = story.keyed.setup
    logs = list(setup.folder.rglob("output.log"))
    assert {log.parent.name for log in logs} >= set(setup.processes)
    secrets = {*story.keyed.told}
    assert len(secrets) >= 10
    for log in logs:
        text = log.read_text()
        assert "ready" in text, f"{log} tells something"
        assert not [secret for secret in secrets if secret in text]
        assert not [line for line in text.splitlines() if "bearer" in line.lower()]


@pytest.mark.parametrize("story", ["embedded"], indirect=True)
def test_no_secret_lies_in_the_data_folder(story: Story) -> None:
    files = [file for file in (story.keyed.setup.folder / "data").rglob("*") if file.is_file()]
    assert any(file.name == "control.db" for file in files)
    for file in files:
        content = file.read_bytes()
        assert not [secret for secret in story.keyed.told if secret.encode() in content], file
