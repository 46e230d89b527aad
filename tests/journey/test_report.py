"""January's report: once per carrier, signed, with the numbers that pandas has."""

import json

from tests.journey.journey import SLUG, Journey, reported
from tests.journey.oracle import Asked, carriers, expected
from tests.journey.questions import JANUARY, ROUTE

START, END = (f"{instant.removesuffix('Z')}.000Z" for instant in JANUARY)


def test_it_arrives_once_per_carrier_and_is_verified(journey: Journey) -> None:
    flew = list(carriers(*JANUARY))
    assert len(flew) == 16
    box = journey.mailbox
    assert box.refused == []
    bodies = [json.loads(one.body) for one in box.delivered]
    assert sorted(body["query"]["subject"] for body in bodies) == flew
    assert len({one.id for one in box.delivered}) == len(flew)
    assert {one.content_type for one in box.delivered} == {"application/json"}


def test_its_values_equal_pandas(journey: Journey) -> None:
    rows = expected(Asked("distance", *JANUARY, keys=("subject", *ROUTE)))
    for one in journey.mailbox.delivered:
        body = json.loads(one.body, parse_int=str, parse_float=str)
        subject = body["query"]["subject"]
        assert body["query"] == {
            "from": START,
            "to": END,
            "subject": subject,
            "groupBy": list(ROUTE),
        }
        assert {entry["subject"] for entry in body["usage"]} == {subject}
        assert all(entry["value"] == entry["valueText"] for entry in body["usage"])
        assert {(e["windowStart"], e["windowEnd"]) for e in body["usage"]} == {(START, END)}
    assert reported(journey.mailbox.delivered) == sorted((*row.groups, row.value) for row in rows)


def test_the_body_is_the_one_of_the_contract(journey: Journey) -> None:
    for one in journey.mailbox.delivered:
        body = json.loads(one.body)
        assert body["type"] == "report.meter"
        assert body["report"] == {"slug": SLUG}
        meter = body["meter"]
        assert meter.pop("id")
        assert meter == {
            "slug": "distance",
            "description": "",
            "aggregation": "SUM",
            "windowSize": "MINUTE",
            "eventType": "flight",
            "valueProperty": "$.distance",
            "groupBy": {"origin": "$.origin", "dest": "$.dest"},
        }
        assert body["run"]["id"] == journey.run["id"]
        assert body["run"]["trigger"] == "manual"


def test_run_and_deliveries_are_listed(journey: Journey) -> None:
    run = journey.run
    assert (run["state"], run["delivered"], run["failed"]) == ("succeeded", 16, 0)
    assert [one["state"] for one in run["deliveries"]] == ["delivered"] * 16
    assert all([a["status"] for a in one["attempts"]] == [200] for one in run["deliveries"])
    by_id = {one["id"]: one["subject"] for one in run["deliveries"]}
    assert by_id == {
        one.id: json.loads(one.body)["query"]["subject"] for one in journey.mailbox.delivered
    }
    january = expected(Asked("distance", *JANUARY))
    assert str(run["manifest"]["total"]) == str(sum(int(row.value) for row in january))
    listed = journey.api.get(f"/api/v1/reports/{SLUG}/runs").json
    assert [one["id"] for one in listed] == [run["id"]]
    asked_again = {"from": JANUARY[0], "to": JANUARY[1]}
    same = journey.api.ask("POST", f"/api/v1/reports/{SLUG}/runs", asked_again)
    assert (same.status, same.json["id"]) == (200, run["id"])
