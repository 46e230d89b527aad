"""Revisions in both versions: what a report asks of them, and what they correct."""

from typing import Any

from meterline.report import Cause, Correction
from tests.unit.control.reports.conftest import V1, V3, WINDOW, ReportsApi

ONE = f"{V3}/reports/daily-tokens"
SENT = "dlv_wbi3n6gx75sb6wfyj4ccl2bvjfrhrvyh"
SAID = [
    Correction("s1", (("model", "a"),), 10**18, 10**18 + 5, Cause.LATE_USAGE, SENT, b"\xff" * 32),
    Correction("s1", (("model", "b"),), 5 * 10**18, None, Cause.FILTER, SENT, b"\xff" * 32),
    Correction("s2", (), None, 0, Cause.FIRST_SEEN),
]


async def test_corrections_are_recorded_unless_the_report_asks_for_them_to_be_sent(
    served: ReportsApi,
) -> None:
    made = await served.made_v3()
    assert made["revisions"] == "record"
    body = {"revisions": "send"}
    assert (await served.api.json("PUT", ONE, json=body))["revisions"] == "send"
    assert (await served.api.json("PUT", ONE, json={}))["revisions"] == "send"
    v1 = f"{V1}/daily-tokens"
    assert (await served.api.json("GET", v1))["revisions"] == "send"
    null = {"revisions": None}
    assert (await served.api.json("PUT", v1, json=null))["revisions"] == "send"
    assert (await served.api.json("PUT", v1, json={"revisions": "record"}))["revisions"] == "record"
    assert await served.faults(slug="other", revisions="never") == {"revisions": "enum"}
    faults = await served.api.faults("PUT", ONE, json=null)
    assert set(faults) == {"revisions"}
    assert (await served.made(slug="sends", revisions="send"))["revisions"] == "send"
    both = await served.made_v3(slug="both", revisions="send")
    assert both["revisions"] == "send"


async def revision(served: ReportsApi) -> Any:
    await served.made_v3()
    first = await served.api.json("POST", f"{ONE}/runs", 201, json=WINDOW)
    await served.delivered(first)
    asked = {**WINDOW, "revise": True}
    return await served.api.json("POST", f"{ONE}/runs", 201, json=asked)


async def test_a_revision_tells_how_much_it_corrects(served: ReportsApi) -> None:
    run = await revision(served)
    path = f"{ONE}/runs/{run['id']}"
    assert (await served.api.json("GET", f"{path}/corrections"))["data"] == []
    await served.recorded(run, SAID)
    shown = await served.api.json("GET", path)
    assert (shown["state"], shown["revision"], shown["corrections"]) == ("recorded", 2, 3)
    listed = (await served.api.json("GET", f"{ONE}/runs"))["data"]
    assert [it.get("corrections") for it in listed] == [3, None]
    old = await served.api.json("GET", f"{V1}/daily-tokens/runs")
    assert [it["corrections"] for it in old] == [3, None]
    found = await served.api.json("GET", f"{path}/corrections")
    replaces = {"replaces": SENT, "replaced_digest": "ff" * 32}
    assert found["data"] == [
        {
            "number": 1,
            "subject": "s1",
            "dimensions": {"model": "a"},
            "old_value": "1",
            "new_value": "1.000000000000000005",
            "difference": "0.000000000000000005",
            "cause": "late_usage",
            **replaces,
        },
        {
            "number": 2,
            "subject": "s1",
            "dimensions": {"model": "b"},
            "old_value": "5",
            "difference": "-5",
            "cause": "filter",
            **replaces,
        },
        {
            "number": 3,
            "subject": "s2",
            "dimensions": {},
            "new_value": "0",
            "difference": "0",
            "cause": "first_seen",
        },
    ]


async def test_corrections_come_in_pages(served: ReportsApi) -> None:
    run = await revision(served)
    await served.recorded(run, SAID)
    path = f"{ONE}/runs/{run['id']}/corrections"
    first = await served.api.json("GET", f"{path}?page[size]=2")
    after = first["meta"]["page"]["next"]
    rest = await served.api.json("GET", f"{path}?page[size]=2&page[after]={after}")
    assert [it["number"] for it in first["data"] + rest["data"]] == [1, 2, 3]
    assert rest["meta"]["page"]["next"] is None
    faults = await served.api.faults("GET", f"{path}?page[after]=x")
    assert faults == {"page[after]": "matches_regex"}
    await served.api.json("GET", f"{ONE}/runs/run_{'a' * 32}/corrections", 404)
    await served.other.json("GET", path, 404)
