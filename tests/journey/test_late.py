"""Late usage on both set-ups: a run, events that come for its window afterwards, and a revision
that is recorded or sent.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from meterline.delivery import digest_of
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.receiver import Delivered, Mailbox, Receiver
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

V3 = "/api/v3/metering"
METER = {
    "key": "tokens",
    "name": "Tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
    "dimensions": {"model": "$.model"},
}
WINDOW = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
FIRST = [("acme", "large", "0.1"), ("acme", "small", "5"), ("zeta", "large", "7")]
LATE = [("acme", "large", "0.2"), ("new", "small", "3")]
REVISED_WITHIN_S = 120.0
SOON = {"METERLINE_REVISION_PAUSE_S": "1"}


def _send(setup: SetUp, usage: list[tuple[str, str, str]], first: int) -> None:
    events = [
        {
            "specversion": "1.0",
            "id": str(first + place),
            "source": "late",
            "type": "prompt",
            "subject": subject,
            "time": "2026-01-31T09:00:00Z",
            "data": {"tokens": tokens, "model": model},
        }
        for place, (subject, model, tokens) in enumerate(usage)
    ]
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    body = json.dumps(events).encode()
    answer = setup.ingest.ask("POST", f"{V3}/events", body, headers)
    assert answer.status in (202, 204), answer


class Reported:
    """A product with two reports on one meter, one that records and one that sends."""

    def __init__(self, setup: SetUp, receiver: Receiver) -> None:
        self.setup = setup
        self.boxes = {
            name: receiver.mailbox(f"late-{setup.name}-{name}") for name in ("record", "send")
        }

    def go(self) -> None:
        """The way up to the revisions."""
        api = self.setup.control
        api.made(f"{V3}/meters", METER)
        for name, box in self.boxes.items():
            made = api.made(f"{V3}/reports", _report(name, box))
            box.secret = made["signing_secret"]
        _send(self.setup, FIRST, 1)
        for name, box in self.boxes.items():
            api.made(f"{V3}/reports/{name}/runs", WINDOW)
            _arrived(box, 2)
        _send(self.setup, LATE, 100)

    def runs(self, name: str) -> list[Any]:
        """Runs of the window, the newest revision first."""
        listed = self.setup.control.get(f"{V3}/reports/{name}/runs").json["data"]
        return [run for run in listed if run["from"] == WINDOW["from"]]

    def revised(self, name: str) -> Any:
        """The second revision, decided."""

        def found() -> Any:
            newest = self.runs(name)[0]
            return newest if newest["revision"] == 2 and "decided_at" in newest else None

        return until("the window is revised", REVISED_WITHIN_S, found)

    def corrections(self, name: str, run: Any) -> Any:
        """What a run corrects."""
        path = f"{V3}/reports/{name}/runs/{run['id']}/corrections"
        return self.setup.control.get(f"{path}?{urlencode({'page[size]': 100})}").json["data"]


def _arrived(box: Mailbox, count: int) -> None:
    until("deliveries arrive", 180, lambda: len(box.delivered) == count)


def _report(name: str, box: Mailbox) -> dict[str, Any]:
    return {
        "slug": name,
        "meter_id_or_key": "tokens",
        "type": "webhook",
        "schedule": {"interval": "1d"},
        "query": {"group_by_dimensions": ["model"]},
        "endpoint": {"url": box.url},
        "revisions": name,
    }


@pytest.fixture(scope="module", params=SETUPS)
def reported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[Reported]:
    folder = tmp_path_factory.mktemp("late")
    if request.param == "embedded":
        setup = embedded(folder, SOON)
    else:
        servers: Servers = request.getfixturevalue("servers")
        setup = distributed(folder, servers, SOON)
    made = Reported(setup, receiver)
    try:
        with telling(setup):
            setup.start()
            made.go()
            yield made
    finally:
        setup.kill()


def _by_subject(box: Mailbox) -> dict[str, list[Delivered]]:
    found: dict[str, list[Delivered]] = {}
    for one in box.delivered:
        found.setdefault(json.loads(one.body)["query"]["subject"], []).append(one)
    return found


@pytest.mark.parametrize("name", ["record", "send"])
def test_corrections_tell_old_new_difference_cause_and_what_they_replace(
    reported: Reported, name: str
) -> None:
    run = reported.revised(name)
    assert (run["trigger"], run["corrections"]) == ("late", 2)
    (acme, *_) = _by_subject(reported.boxes[name])["acme"]
    assert reported.corrections(name, run) == [
        {
            "number": 1,
            "subject": "acme",
            "dimensions": {"model": "large"},
            "old_value": "0.1",
            "new_value": "0.3",
            "difference": "0.2",
            "cause": "late_usage",
            "replaces": acme.id,
            "replaced_digest": digest_of(acme.body).hex(),
        },
        {
            "number": 2,
            "subject": "new",
            "dimensions": {"model": "small"},
            "new_value": "3",
            "difference": "3",
            "cause": "first_seen",
        },
    ]


def test_what_is_sent_is_verified_and_names_what_it_replaces(reported: Reported) -> None:
    box = reported.boxes["send"]
    run = reported.revised("send")
    _arrived(box, 4)
    assert box.refused == []
    by_subject = _by_subject(box)
    first, second = by_subject["acme"]
    body = json.loads(second.body, parse_float=str, parse_int=str)
    assert body["run"]["id"] == run["id"]
    assert (body["run"]["trigger"], body["run"]["revision"]) == ("late", "2")
    assert body["run"]["supersedes"] == first.id
    usage = {entry["groupBy"]["model"]: entry["value"] for entry in body["usage"]}
    assert usage == {"large": "0.3", "small": "5"}
    (new,) = by_subject["new"]
    assert json.loads(new.body)["run"]["supersedes"] is None
    assert len(by_subject["zeta"]) == 1


def test_what_is_recorded_is_not_sent_until_somebody_asks(reported: Reported) -> None:
    api, box = reported.setup.control, reported.boxes["record"]
    run = reported.revised("record")
    assert (run["state"], run["delivered"]) == ("recorded", 0)
    assert len(box.delivered) == 2
    asked = api.made(f"{V3}/reports/record/runs", {**WINDOW, "revise": True})
    assert (asked["revision"], asked["trigger"]) == (3, "manual")
    _arrived(box, 4)
    assert set(_by_subject(box)) == {"acme", "zeta", "new"}
    assert len(reported.runs("record")) == 3
