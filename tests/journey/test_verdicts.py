"""The list of events: what became of each, on both set-ups. After all that counts events there."""

import json
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import pytest

from tests.journey.deadline import until
from tests.journey.journey import Journey
from tests.journey.later import LISTED
from tests.journey.oracle import table

EVENTS = "/api/v3/metering/events"
COUNTED_WITHIN_S = 180.0
SOURCE = "verdicts"


def event(name: str, value: object, type_: str = LISTED["event_type"]) -> dict[str, Any]:
    """An event of the list."""
    return {
        "specversion": "1.0",
        "id": name,
        "source": SOURCE,
        "type": type_,
        "subject": "s",
        "time": "2026-03-01T10:00:30.5Z",
        "traceparent": "00-ab",
        "data": {"value": value, "colour": "red"},
    }


SENT = [
    event("good", 1),
    event("good", 1),
    event("good", 2),
    event("odd", "many"),
    event("unmatched", 1, "nobody-counts-this"),
]


def asked(journey: Journey, **parameters: str) -> Any:
    """A page of the list."""
    return journey.api.get(f"{EVENTS}?{urlencode(parameters)}").json


@pytest.fixture
def listed(journey: Journey) -> dict[tuple[str, str], Any]:
    """The events of this file, sent once and listed by id and verdict."""
    of_these = {"filter[source]": SOURCE, "filter[verdict][oeq]": "new,duplicate,conflict"}
    if not asked(journey, **of_these)["data"]:
        for one in SENT:
            assert journey.setup.ingest.ask("POST", EVENTS, one).status == 202

    def all_listed() -> Any:
        data = asked(journey, **of_these)["data"]
        return data if len(data) == len(SENT) else None

    data = until("the events are listed", COUNTED_WITHIN_S, all_listed)
    return {(entry["event"]["id"], entry["verdict"]["kind"]): entry for entry in data}


def test_each_event_has_its_verdict(listed: dict[tuple[str, str], Any]) -> None:
    first = listed["good", "new"]
    assert first["event"] == SENT[0], "it is shown as it was sent"
    (counted,) = first["verdict"]["meters"]
    assert counted.pop("id")
    assert counted == {
        "key": "listed",
        "outcome": "counted",
        "from": "2026-03-01T10:00:00Z",
        "to": "2026-03-01T10:01:00Z",
        "dimensions": {"colour": "red"},
    }
    again = listed["good", "duplicate"]["verdict"]
    assert again == {
        "kind": "duplicate",
        "of": {name: first[name] for name in ("position", "ingested_at", "stored_at")},
    }
    changed = listed["good", "conflict"]
    assert changed["verdict"]["of"] == again["of"] | {"differs": ["data"]}
    assert changed["event"]["data"]["value"] == 2
    (rejected,) = listed["odd", "new"]["verdict"]["meters"]
    assert (rejected["outcome"], rejected["reason"]) == ("rejected", "not_a_number")
    assert (rejected["field"], rejected["value"]) == ("$.value", '"many"')
    assert listed["unmatched", "new"]["verdict"]["meters"] == []
    assert len(listed["unmatched", "new"]["validation_errors"]) == 1


def test_older_versions_list_what_is_new(
    journey: Journey, listed: dict[tuple[str, str], Any]
) -> None:
    conditions = json.dumps({"source": {"$eq": SOURCE}})
    page = journey.api.get(f"/api/v2/events?{urlencode({'filter': conditions})}").json
    names = {"good", "odd", "unmatched"}
    assert {item["event"]["id"] for item in page["items"]} == names
    wrong = {
        i["event"]["id"]: i["validationError"] for i in page["items"] if "validationError" in i
    }
    assert wrong.keys() == {"odd", "unmatched"}

    def subjects() -> Any:
        return journey.api.get("/api/v1/meters/listed/subjects").json

    # An event is listed when it is flushed; the subjects of its meter may take a moment longer.
    assert until("the subject has usage", COUNTED_WITHIN_S, subjects) == ["s"]
    assert len(listed) == len(SENT)


def test_a_years_flights_are_listed_by_their_time(journey: Journey) -> None:
    of_flights = {"filter[type]": "flight", "page[size]": "100"}
    times: list[str] = []
    after: dict[str, str] = {}
    for _ in range(3):
        page = asked(journey, **of_flights, **after)
        times += [entry["event"]["time"] for entry in page["data"]]
        after = {"page[after]": page["meta"]["page"]["next"]}
    latest = table()["time"].sort_values(ascending=False)[:300]
    assert pd.to_datetime(times, format="ISO8601").tolist() == latest.tolist()


def test_what_was_sent_twice_is_listed_twice(journey: Journey) -> None:
    first = asked(journey, **{"filter[type]": "flight", "page[size]": "1"})["data"][0]
    of_it = {"filter[id]": first["event"]["id"], "filter[verdict]": "duplicate"}
    (again,) = asked(journey, **of_it)["data"]
    assert again["event"] == first["event"]
    assert again["verdict"]["of"]["position"] == first["position"]
