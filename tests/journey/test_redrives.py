"""What was refused is found, looked at, mended and sent anew; it counts once, on both set-ups."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tests.journey.deadline import until
from tests.journey.journey import METERS_PATH, Journey
from tests.journey.later import REDRIVEN
from tests.journey.setups import Servers
from tests.journey.test_inbox import produce

EVENTS = "/api/v3/metering/events"
REFUSALS = "/api/v3/metering/refusals"
MANY = "/api/v3/metering/refusal-redrives"
WITHIN_S = 180.0
TYPE = REDRIVEN["event_type"]


def event(name: str, value: object, **more: object) -> dict[str, object]:
    """An event of the meter."""
    return {
        "specversion": "1.0",
        "id": name,
        "source": "redrives",
        "type": TYPE,
        "subject": "s",
        "time": "2026-01-01T00:00:00Z",
        "data": {"value": value},
        **more,
    }


def sent(journey: Journey, *events: dict[str, object]) -> None:
    """Each in a request of its own, in this order."""
    for one in events:
        assert journey.setup.ingest.ask("POST", EVENTS, one).status == 202


def listed(journey: Journey, **conditions: str) -> list[Any]:
    """Refusals that meet these conditions."""
    asked = {f"filter[{name}]": value for name, value in conditions.items()}
    data: list[Any] = journey.api.get(f"{REFUSALS}?{urlencode(asked)}").json["data"]
    return data


def value(journey: Journey, subject: str) -> str:
    """What the meter says of a subject."""
    asked = {"filters": {"dimensions": {"subject": {"eq": subject}}}}
    data = journey.api.ask("POST", f"{METERS_PATH}/redriven/query", asked).json["data"]
    return str(data[0]["value"]) if data else ""


def redriven(journey: Journey, name: str, body: Mapping[str, object]) -> Any:
    """What the answer says: 202."""
    answer = journey.api.ask("POST", f"{REFUSALS}/{name}/redrive", body)
    assert answer.status == 202, answer.body
    return answer.json


def test_both_sides_of_a_conflict_and_the_mended_event(journey: Journey) -> None:
    mine = {"subject": "conflict"}
    sent(journey, event("c1", 5, **mine), event("c1", 7, **mine), event("c1", 5, **mine))
    asked = {"kind": "conflict", "subject": "conflict"}
    (one,) = until("the conflict is listed", WITHIN_S, lambda: listed(journey, **asked))
    whole = journey.api.get(f"{REFUSALS}/{one['id']}").json
    assert (whole["accepted"]["event"]["data"], whole["refused"]["data"]) == (
        {"value": 5},
        {"value": 7},
    )
    assert whole["differences"] == [{"path": "$.data.value", "accepted": 5, "refused": 7}]
    same = {"event": event("c1", 7, **mine)}
    assert journey.api.ask("POST", f"{REFUSALS}/{one['id']}/redrive", same).status == 409
    mended = {"event": event("c1-mended", 7, **mine)}
    for _ in range(2):
        assert redriven(journey, one["id"], mended)["state"] == "redriven"
    until("both count", WITHIN_S, lambda: value(journey, "conflict") == "12")
    assert listed(journey, **asked, state="open") == []
    assert [it["id"] for it in listed(journey, **asked, state="redriven")] == [one["id"]]
    trace = f"/api/v3/metering/event-trace?{urlencode({'source': 'redrives', 'id': 'c1-mended'})}"
    (found,) = journey.api.get(trace).json["events"]
    assert found["verdict"]["kind"] == "new"
    changes = journey.api.get("/api/v3/metering/changes?filter[kind]=refusal").json["data"]
    assert (changes[0]["action"], changes[0]["resource_id"]) == ("redrive", one["id"])


def test_a_value_that_no_meter_could_use(journey: Journey) -> None:
    sent(journey, event("v1", "many", subject="value"))

    def found() -> Any:
        data = journey.api.get(f"{METERS_PATH}/redriven/rejected").json["data"]
        return [one for one in data if one["subject"] == "value"]

    (one,) = until("the value is rejected", WITHIN_S, found)
    whole = journey.api.get(f"{REFUSALS}/{one['position']}").json
    assert (whole["kind"], whole["redrivable"], one["state"]) == ("value", "fixed", "open")
    assert [it["outcome"] for it in whole["meters"]] == ["rejected"]
    redriven(journey, one["position"], {"event": event("v1-mended", 9, subject="value")})
    until("it counts", WITHIN_S, lambda: value(journey, "value") == "9")
    (after,) = found()
    assert after["state"] == "redriven"


async def test_a_record_of_the_inbox_is_mended(
    distributed_journey: Journey, servers: Servers
) -> None:
    journey, setup = distributed_journey, distributed_journey.setup
    no_subject = {name: it for name, it in event("i1", 3).items() if name != "subject"}
    old = event("i2", 4, subject="inbox", time="2026-01-01T00:00:00")
    records = [json.dumps(no_subject).encode(), json.dumps(old).encode(), b"no event"]
    await produce(servers, setup.inbox_topic, records)
    asked = {"kind": "inbox", "source": setup.inbox_topic, "state": "open"}

    def refused() -> Any:
        mine = [one for one in listed(journey, **asked) if one.get("field") in ("subject", "time")]
        return {one["field"]: one for one in mine} if len(mine) == len(records) - 1 else None

    found = until("the records are refused", WITHIN_S, refused)
    one = journey.api.get(f"{REFUSALS}/{found['subject']['id']}").json
    assert json.loads(one["text"]) == no_subject
    assert (one["whole"], one["redrivable"]) == (True, "as_it_is")
    assert one["record"]["topic"] == setup.inbox_topic
    again = setup.control.ask("POST", f"{MANY}", {"filter": {"source": "none"}})
    assert again.json["found"] == 0
    dry = {"filter": {"source": setup.inbox_topic}, "dry_run": True}
    tried = setup.control.ask("POST", f"{MANY}", dry).json
    assert tried["accepted"] == 0
    assert {it["id"]: it.get("field") for it in tried["refused"]}[one["id"]] == "subject"
    as_it_is = journey.api.ask("POST", f"{REFUSALS}/{one['id']}/redrive", {})
    assert as_it_is.status == 400
    assert as_it_is.json["invalid_parameters"][0]["field"] == "subject"
    for _ in range(2):
        redriven(journey, one["id"], {"event": {**no_subject, "subject": "inbox"}})
    mended = event("i2", 4, subject="inbox")
    redriven(journey, found["time"]["id"], {"event": mended})
    until("each counts once", WITHIN_S, lambda: value(journey, "inbox") == "7")
    note = {"note": "nobody knows what it was"}
    for rest in listed(journey, **asked):
        answer = journey.api.ask("POST", f"{REFUSALS}/{rest['id']}/dismiss", note)
        assert answer.json["state"] == "dismissed"
    assert listed(journey, **asked) == []
