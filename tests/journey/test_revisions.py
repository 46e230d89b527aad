"""A meter is tried on what was sent, changed beside itself, compared, and switched from a date on:
every total is that of a count by hand.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.journey.client import Server
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

EVENTS = 600
WITHIN_S = 90.0
V3 = "/api/v3/metering"
METER = {
    "key": "tokens",
    "name": "Tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
    "dimensions": {"model": "$.model"},
}
BILLED = {"value_property": "$.billed", "dimensions": {"region": "$.region"}}
START, BORDER, END = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"
BATCH = {"Content-Type": "application/cloudevents-batch+json"}

Groups = tuple[str, ...]


def _event(number: int) -> dict[str, Any]:
    """Two days of events in turn, one of 50 without the value that is to be billed."""
    data: dict[str, Any] = {
        "tokens": number % 13,
        "model": "large" if number % 3 else "small",
        "region": "eu" if number % 4 else "us",
    }
    if number % 50:
        data["billed"] = number % 7
    return {
        "specversion": "1.0",
        "id": str(number),
        "source": "revisions",
        "type": "prompt",
        "subject": f"customer-{number % 5}",
        "time": f"2026-01-{1 + number % 2:02d}T{number % 24:02d}:{number % 60:02d}:00Z",
        "data": data,
    }


def by_hand(
    events: list[dict[str, Any]], key_of: Callable[[dict[str, Any]], Groups], value: str
) -> dict[Groups, int]:
    """Sums of a value by what an event is counted under; without what has no such value."""
    sums: dict[Groups, int] = defaultdict(int)
    for event in events:
        if value in event["data"]:
            sums[key_of(event)] += event["data"][value]
    return dict(sums)


def told(rows: list[Any], *names: str) -> dict[Groups, int]:
    """The same of an answer."""
    return {tuple(row["dimensions"][n] for n in names): int(row["value"]) for row in rows}


@pytest.fixture(scope="module", params=SETUPS)
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SetUp]:
    folder = tmp_path_factory.mktemp(f"revisions-{request.param}")
    if request.param == "embedded":
        made = embedded(folder)
    else:
        servers: Servers = request.getfixturevalue("servers")
        made = distributed(folder, servers)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def send(setup: SetUp, events: list[dict[str, Any]]) -> None:
    answer = setup.ingest.ask("POST", f"{V3}/events", json.dumps(events).encode(), BATCH)
    assert answer.status == 202, answer.body
    until("all is counted", WITHIN_S, lambda: setup.status["caught_up"])


def query(api: Server, meter: str, **asked: Any) -> Any:
    answer = api.ask("POST", f"{V3}/meters/{meter}/query", {"from": START, "to": END, **asked})
    assert answer.status == 200, answer.body
    return answer.json


def propose(api: Server) -> str:
    """A revision that is filled in; where it is."""
    made = api.made(f"{V3}/meters/tokens/revisions", BILLED)
    path = f"{V3}/meters/tokens/revisions/{made['revision']}"
    until(
        "the proposal is filled in",
        WITHIN_S,
        lambda: api.get(path).json["progress"]["complete_until"],
    )
    return path


def compare(api: Server, path: str, events: list[dict[str, Any]]) -> None:
    """The comparison tells of each subject what a count by hand does."""
    shown = api.get(f"{path}/comparison?include_equal=true&page[size]=100").json
    before = by_hand(events, lambda e: (e["subject"],), "tokens")
    after = by_hand(events, lambda e: (e["subject"],), "billed")
    assert {one["subject"]: one["value_before"] for one in shown["data"]} == {
        subject: str(value) for (subject,), value in before.items()
    }
    for one in shown["data"]:
        subject = one["subject"]
        assert int(one["value_after"]) == after[(subject,)]
        assert int(one["difference"]) == after[(subject,)] - before[(subject,)]
        without = [e for e in events if e["subject"] == subject and "billed" not in e["data"]]
        assert one["rejected_after"] == len(without)
        assert one["rejected_before"] == 0


def switch(api: Server, path: str) -> None:
    answer = api.ask("POST", f"{path}/switch", {"effective_from": BORDER})
    assert answer.status == 200, answer.body
    until("it is in force", WITHIN_S, lambda: api.get(path).json["state"] == "in_force")
    meter = api.get(f"{V3}/meters/tokens").json
    assert (meter["effective_from"], meter["dimensions"]) == (BORDER, BILLED["dimensions"])


def agree(api: Server, events: list[dict[str, Any]]) -> None:
    """Before the border the old revision answers, from it on the new one."""
    old = [event for event in events if event["time"] < BORDER]
    new = [event for event in events if event["time"] >= BORDER]
    expected = by_hand(old, lambda e: (e["subject"], e["data"]["model"], ""), "tokens")
    expected |= by_hand(new, lambda e: (e["subject"], "", e["data"]["region"]), "billed")
    names = ["subject", "model", "region"]
    rows = query(api, "tokens", group_by_dimensions=names)["data"]
    assert told(rows, *names) == expected
    hours = query(api, "tokens", granularity="PT1H")["data"]
    assert sum(int(row["value"]) for row in hours) == sum(expected.values())
    (day,) = query(api, "tokens", **{"from": START, "to": BORDER})["data"]
    assert int(day["value"]) == sum(event["data"]["tokens"] for event in old)


def test_a_meter_is_tried_changed_compared_and_switched(setup: SetUp) -> None:
    with telling(setup):
        api, events = setup.control, [_event(number) for number in range(EVENTS)]
        api.made(f"{V3}/meters", METER)
        send(setup, events[: EVENTS // 2])
        path = propose(api)
        compare(api, path, events[: EVENTS // 2])
        switch(api, path)
        agree(api, events[: EVENTS // 2])
        send(setup, events[EVENTS // 4 :])  # some of them again
        agree(api, events)
        tried = preview(api)
        definition = {**METER, **BILLED, "key": "billed"}
        api.made(f"{V3}/meters", definition)
        until("it is filled in", WITHIN_S, lambda: query(api, "billed")["complete_until"])
        answered = query(
            api, "billed", granularity="P1D", group_by_dimensions=["subject", "region"]
        )
        assert tried["data"] == answered["data"]
        assert tried["matched"] == EVENTS
        assert tried["rejected"] == EVENTS // 50


def preview(api: Server) -> Any:
    names = ("aggregation", "event_type")
    meter = {**{name: METER[name] for name in names}, **BILLED}
    asked = {
        "meter": meter,
        "from": START,
        "to": END,
        "granularity": "P1D",
        "group_by_dimensions": ["subject", "region"],
    }
    answer = api.ask("POST", f"{V3}/meter-preview", asked)
    assert answer.status == 200, answer.body
    return answer.json
