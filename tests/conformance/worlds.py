"""Namespaces full of things, with the same names in each: whose they are is all that differs."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from meterline.access import Scope
from tests.conformance.cases import request
from tests.conformance.installation import Caller
from tests.journey.client import Answer
from tests.journey.deadline import until
from tests.journey.receiver import Mailbox
from tests.openapi import Published, published

METER = "walls_meter"
REPORT = "walls-report"
SUBJECT = "walls-subject"
TYPE = "walls"
EVENTS = 40
EVENTS_AT = "2026-01-31T12:00:00Z"
RUN_WITHIN_S = 180.0
BUSY_TIMES_MAX = 10
V3 = "/api/v3/metering"
METER_BODY = {
    "key": METER,
    "name": METER,
    "aggregation": "sum",
    "event_type": TYPE,
    "value_property": "$.tokens",
    "dimensions": {"model": "$.model"},
}

ID = re.compile(r"\b(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[a-z]{3}_[a-z2-7]{32})\b")
# What differs between any two answers: when they were given, and by what id they are told apart.
PASSING = {
    "id": ID,
    "instant": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"),
    "key": re.compile(r"mtl_[A-Za-z0-9_-]+"),
    "secret": re.compile(r"whsec_[A-Za-z0-9+/=]+"),
    "revision": re.compile(r"(?<=/revisions/)[0-9]+|(?<=There is no meter revision ')[0-9]+"),
}
# Members that change by themselves, or by being asked for, or with the load of the installation.
RESTLESS = frozenset(
    {
        *("complete_until", "freshness_ms", "completeUntil", "last_used_at"),
        *("caught_up", "lag_records", "backfilling", "pending"),
        *("revision", "pending_revision", "progress"),
        "headers",  # of a pull: signed when it is asked
    }
)


@dataclass(slots=True)
class World:
    """A namespace, its owner, and the names of the things in it."""

    namespace: str
    owner: Caller
    mark: str = ""
    """A text that only this world's events hold."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """By the name of a path: an id first, and whatever else finds the same."""

    ids: set[str] = field(default_factory=set)
    """Every id in the answers to its owner, none of which is anybody else's business."""

    def everything(self) -> dict[str, str]:
        """What its owner reads, by operation; without what changes by itself, or by reading."""
        found = {
            one.id: json.dumps(_resting(answer.json), sort_keys=True) for one, answer in self.read()
        }
        return {**found, "list-changes": json.dumps(self.changes(), sort_keys=True)}

    def changes(self) -> list[Any]:
        """The newest changes, but for what reading a secret adds to them."""
        page = self.owner.wanted("GET", f"{V3}/changes?page[size]=100", 200)
        return [one for one in page["data"] if one["action"] != "show"][:50]

    def read(self) -> Iterator[tuple[Published, Answer]]:
        """The answer of each operation that only reads."""
        for api in published():
            for one in api.operations.values():
                if one.method == "GET":
                    names = self.by_id()
                    missing = set(one.names) - names.keys()
                    assert not missing, f"no world has {missing}: teach tests/conformance/worlds.py"
                    path = request(one, names)[1] if one.demanding else one.path(names)
                    answer = self._answered(path)
                    assert answer.status == 200, f"{one.id}: {answer.status} {answer.body!r}"
                    yield one, answer

    def _answered(self, path: str) -> Answer:
        """Asked again, as 503 says, where others keep the stores busy meanwhile."""
        for _ in range(BUSY_TIMES_MAX):
            answer = self.owner.ask("GET", path)
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
                return answer
            time.sleep(float(answer.headers["retry-after"]))
        return self.owner.ask("GET", path)

    def by_id(self) -> dict[str, str]:
        """What finds each thing: its id, where it has one."""
        return {name: found[0] for name, found in self.names.items()}

    def by_name(self) -> dict[str, str]:
        """What finds each thing: its key or slug, where it has one."""
        return {name: found[-1] for name, found in self.names.items()}


def ghosts(names: Mapping[str, str]) -> dict[str, str]:
    """Names of the same form that nothing has ever had: only the last four letters are others."""
    others = {n: found[:-4] + _ANOTHER.sub(_another, found[-4:]) for n, found in names.items()}
    return others | ({"revision": "999999999"} if "revision" in names else {})


_ANOTHER = re.compile("[A-Za-z0-9]")


def _another(letter: re.Match[str]) -> str:
    return "3" if letter[0] == "2" else "2"  # in every alphabet that ids are written in


def _resting(value: Any) -> Any:
    if isinstance(value, dict):
        # An erasure goes on by itself, from state to state.
        moving = {"state", "log_holds_until"} if "pseudonym" in value else set[str]()
        return {
            name: _resting(inner)
            for name, inner in value.items()
            if name not in RESTLESS and name not in moving
        }
    return [_resting(inner) for inner in value] if isinstance(value, list) else value


def masked(answer: Answer, names: Mapping[str, str]) -> tuple[int, str]:
    """Status and body of an answer without these names and without what differs between any two."""
    text = answer.body.decode()
    if answer.headers.get("content-type", "").endswith("json"):
        text = json.dumps(_resting(json.loads(text)))
    for kind, name in sorted(names.items(), key=lambda named: -len(named[1])):
        if kind != "revision":  # a number of one digit stands everywhere
            text = text.replace(name, f"<{kind}>")
    for kind, pattern in PASSING.items():
        text = pattern.sub(f"<{kind}>", text)
    return answer.status, text


def make_world(owner: Caller, namespace: str, mailbox: Mailbox) -> World:
    """A namespace with something of every kind, all of it done."""
    world = World(namespace, owner, f"mark-of-{namespace}")
    meter = owner.wanted("POST", f"{V3}/meters", 201, METER_BODY | {"name": world.mark})
    send(world, "walls")
    subjects = [{"key": SUBJECT, "displayName": world.mark}]
    (subject,) = owner.wanted("POST", "/api/v1/subjects", 200, subjects)
    key = {"name": world.mark, "scopes": [Scope.STATUS_READ]}
    helper = owner.wanted("POST", f"{V3}/api-keys", 201, key)
    report, run, delivery = make_report(owner, mailbox)
    world.names = {
        "meterId": [meter["id"], METER],
        "meterIdOrSlug": [meter["id"], METER],
        "groupByKey": ["model"],
        "dimension": ["model"],
        "subjectIdOrKey": [subject["id"], SUBJECT],
        "subjectId": [subject["id"], SUBJECT],
        "apiKeyId": [helper["id"]],
        "reportId": [report, REPORT],
        "reportIdOrSlug": [report, REPORT],
        "runId": [run],
        "deliveryId": [delivery],
        "replayId": [replayed(owner)],
        "erasureId": [erased(owner)],
        "refusalId": [refused(world)],
        "revision": [proposed(world)],
    }
    for answer in world.everything().values():
        world.ids |= set(ID.findall(answer))
    return world


def erased(owner: Caller) -> str:
    """The id of an erasure that has begun, of somebody who has no usage."""
    made = owner.wanted("POST", f"{V3}/erasures", 202, {"subject": "nobody-here"})

    def begun() -> bool:
        return "log_holds_until" in owner.get(f"{V3}/erasures/{made['id']}")

    until("the erasure has begun", RUN_WITHIN_S, begun)
    return str(made["id"])


def replayed(owner: Caller) -> str:
    """The id of a replay that is done, and whose delivery has arrived once more."""
    made = owner.wanted("POST", f"{V3}/replays", 201, {"report": REPORT})

    def done() -> bool:
        found = owner.get(f"{V3}/replays/{made['id']}")
        (delivery,) = owner.get(f"{V3}/deliveries?filter[report]={REPORT}")["data"]
        arrived = delivery["state"] == "delivered" and "replayed_at" in delivery
        return found["state"] == "done" and arrived

    until("the replay is done", RUN_WITHIN_S, done)
    return str(made["id"])


def send(world: World, source: str) -> None:
    """Events of this world: the identities are the same in each world, what is in them is not."""
    event = {"specversion": "1.0", "type": TYPE, "subject": SUBJECT, "time": EVENTS_AT}
    data = {"tokens": len(world.namespace), "model": world.mark}
    events = [
        event | {"id": str(number), "source": source, "data": data} for number in range(EVENTS)
    ]
    answer = world.owner.ask("POST", f"{V3}/events", events, "application/cloudevents-batch+json")
    assert answer.status == 202, answer.body


def proposed(world: World) -> str:
    """The number of a revision that is proposed and filled in."""
    path = f"{V3}/meters/{METER}/revisions"
    made = world.owner.wanted("POST", path, 201, {"value_property": "$.other"})

    def filled() -> bool:
        found = world.owner.get(f"{path}/{made['revision']}")
        return found["progress"]["complete_until"] is not None

    until("the revision is filled in", RUN_WITHIN_S, filled)
    return str(made["revision"])


def refused(world: World) -> str:
    """The id of a refusal: of an event that is there already, with other contents."""
    event = {"specversion": "1.0", "type": TYPE, "subject": SUBJECT, "time": EVENTS_AT}
    other = event | {"id": "0", "source": "walls", "data": {"tokens": 0, "model": world.mark}}
    media = "application/cloudevents+json"
    assert world.owner.ask("POST", f"{V3}/events", other, media).status == 202
    found = until(
        "the conflict is listed", RUN_WITHIN_S, lambda: world.owner.get(f"{V3}/refusals")["data"]
    )
    return str(found[0]["id"])


def make_report(owner: Caller, mailbox: Mailbox) -> tuple[str, str, str]:
    """A report, a run that has ended, and its delivery: their ids."""
    body = {
        "slug": REPORT,
        "meter_id_or_key": METER,
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
        "query": {"group_by_dimensions": ["model"]},
        "endpoint": {"url": mailbox.url},
    }
    made = owner.wanted("POST", f"{V3}/reports", 201, body)
    mailbox.secret = made["signing_secret"]
    asked = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
    run = owner.wanted("POST", f"{V3}/reports/{REPORT}/runs", 201, asked)

    def ended() -> bool:
        found = owner.get(f"{V3}/reports/{REPORT}/runs/{run['id']}")
        return found["state"] in ("succeeded", "failed", "partly_failed")

    until("the run has ended", RUN_WITHIN_S, ended)
    (delivery,) = owner.get(f"{V3}/deliveries?filter[run]={run['id']}")["data"]
    assert delivery["state"] == "delivered", delivery
    return made["id"], run["id"], delivery["id"]
