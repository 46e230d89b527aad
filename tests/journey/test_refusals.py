"""Bad input at the real door: the answer names event and field, and nothing is counted."""

import gzip
import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.journey.deadline import until
from tests.journey.journey import Journey

ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
V3 = "/api/v3/metering/events"
V1 = "/api/v1/events"
COUNTED_WITHIN_S = 180.0
MEGABYTE = 1024 * 1024
GOOD = {
    "specversion": "1.0",
    "id": "refused-1",
    "source": "journey",
    "type": "refused",
    "subject": "someone",
    "data": {"tokens": 1},
}


def event(**members: Any) -> bytes:
    """A good event but for these members."""
    return json.dumps(GOOD | members).encode()


def batch(*events: bytes) -> bytes:
    return b"[" + b",".join(events) + b"]"


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request, and what its refusal must name: (place in the batch, field) of each fault."""

    name: str
    media: str
    body: bytes
    faults: tuple[tuple[int | None, str], ...]
    problem: str = "invalid-event"
    status: int = 400
    encoding: str = "identity"


REFUSED = [
    Refused("not JSON", ONE, b'{"id": "refused-1", ', ((None, ""),)),
    Refused("not JSON in a batch", BATCH, batch(event(), b'{"id": x}'), ((1, ""),)),
    Refused("no event", ONE, b'"event"', ((None, ""),)),
    Refused("wrong type", ONE, event(id=7, time=1), ((None, "id"), (None, "time"))),
    Refused("string data", ONE, event(data="1"), ((None, "data"),)),
    Refused(
        "XML data",
        ONE,
        event(data="<tokens>1</tokens>", datacontenttype="application/xml"),
        ((None, "data"), (None, "datacontenttype")),
    ),
    Refused("XML", "application/cloudevents+xml", b"<event/>", (), "unsupported-content-type"),
    Refused("unknown content type", "text/plain", event(), (), "unsupported-content-type"),
    Refused("empty id", ONE, event(id=""), ((None, "id"),)),
    Refused("no subject", ONE, without("subject"), ((None, "subject"),)),
    Refused("no offset", ONE, event(time="2026-01-31T00:00:00"), ((None, "time"),)),
    Refused("its own namespace", ONE, event(namespace="mine"), ((None, "namespace"),)),
    Refused("NaN", ONE, event(data={"tokens": float("nan")}), ((None, "data.tokens"),)),
    Refused("event too large", ONE, event(data={"text": "x" * 300_000}), ((None, ""),)),
    Refused(
        "one bad event", BATCH, batch(event(id="a"), event(id="b", subject=""), event(id="c")),
        ((1, "subject"),),
    ),
    Refused(
        "11 MB", BATCH, batch(*[event(id=str(n), data={"text": "x" * 99_000}) for n in range(116)]),
        (), "body-too-large", 413,
    ),
    Refused(
        "11 MB in gzip", ONE, gzip.compress(event() + b" " * 11 * MEGABYTE),
        (), "body-too-large", 413, "gzip",
    ),
]  # fmt: skip


def post(journey: Journey, refused: Refused, path: str = V3) -> Any:
    """The problem that answers it."""
    headers = {"Content-Type": refused.media, "Content-Encoding": refused.encoding}
    answer = journey.setup.ingest.ask("POST", path, refused.body, headers)
    assert answer.status == refused.status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert problem["status"] == refused.status
    assert problem["type"] == f"urn:meterline:problem:{refused.problem}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == f"urn:request:{answer.headers['x-request-id']}"
    return problem


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.name)
def test_it_is_told_which_event_and_which_field(journey: Journey, refused: Refused) -> None:
    problem = post(journey, refused)
    named = [(one.get("index"), one["field"]) for one in problem.get("invalid_parameters", [])]
    assert sorted(named, key=str) == sorted(refused.faults, key=str)
    assert all(one["reason"] for one in problem.get("invalid_parameters", []))


def test_version_1_tells_it_in_its_own_words(journey: Journey) -> None:
    one_bad = next(refused for refused in REFUSED if refused.name == "one bad event")
    (error,) = post(journey, one_bad, V1)["extensions"]["validationErrors"]
    assert error == {"field": "[1].subject", "code": "min_length", "message": "must not be empty"}


def test_nothing_of_them_is_counted(journey: Journey) -> None:
    def settled() -> Any:
        status = journey.setup.status
        return status["account"] if status["caught_up"] else None

    # others have sent events of their own
    before = until("what was sent before counts", COUNTED_WITHIN_S, settled)
    for refused in REFUSED:
        post(journey, refused)
    # Whatever had come into the log before this event would be counted before it or with it.
    names = [f"accepted-{number}" for number in range(64)]  # every partition gets some
    body = batch(*(event(id=name) for name in names))
    answer = journey.setup.ingest.ask("POST", V3, body, {"Content-Type": BATCH})
    assert (answer.status, answer.body) == (202, b"")

    def counted() -> Any:
        status = journey.setup.status
        enough = status["account"]["new"] >= before["new"] + len(names)
        return status["account"] if enough and status["caught_up"] else None

    account = until("the good events count", COUNTED_WITHIN_S, counted)
    more = {"received": len(names), "new": len(names)}
    assert account == {name: before[name] + more.get(name, 0) for name in before}
