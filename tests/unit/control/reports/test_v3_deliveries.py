"""Runs, deliveries and secrets in v3, over real SQLite stores; and the walls between namespaces."""

import base64
from typing import Any

import pytest

from meterline.backends.secrets import FernetSecretBox
from meterline.delivery import (
    Attempt,
    AttemptEnd,
    AttemptOutcome,
    DeliveryMove,
    SendGrant,
    digest_of,
)
from tests.unit.control.conftest import NOW_MS
from tests.unit.control.reports.conftest import V3, WINDOW, ReportsApi, body_of

ONE = f"{V3}/reports/daily-tokens"
RUNS = f"{ONE}/runs"
DELIVERIES = f"{V3}/deliveries"


async def run_of(served: ReportsApi, hour: int = 0) -> Any:
    window = {"from": f"2023-11-01T{hour:02}:00:00Z", "to": f"2023-11-01T{hour + 1:02}:00:00Z"}
    return await served.api.json("POST", RUNS, 201, json=window)


async def test_a_run_is_asked_for_once(served: ReportsApi) -> None:
    report = await served.made_v3()
    run = await served.api.json("POST", RUNS, 201, json=WINDOW)
    assert run == {
        "id": run["id"],
        "report_id": report["id"],
        **WINDOW,
        "revision": 1,
        "trigger": "manual",
        "state": "waiting",
        "asked_at": "2023-11-14T22:13:20Z",
        "delivered": 0,
        "failed": 0,
    }
    assert await served.api.json("POST", RUNS, 200, json=WINDOW) == run
    receiver = {"state": "untried", "retrying_deliveries": 0}
    assert await served.api.json("GET", f"{RUNS}/{run['id']}") == {**run, "receiver": receiver}
    assert (await served.api.json("GET", ONE))["last_run"] == run
    assert (await served.api.json("GET", RUNS))["data"] == [run]
    faults = await served.api.faults("POST", RUNS, json={**WINDOW, "to": WINDOW["from"]})
    assert faults == {"from": "maximum"}
    await served.api.json("GET", f"{RUNS}/run_{'a' * 32}", 404)
    await served.api.json("GET", f"{RUNS}/nothing", 404)


async def test_runs_come_in_pages_newest_window_first(served: ReportsApi) -> None:
    await served.made_v3()
    made = [await run_of(served, hour) for hour in range(5)]
    first = await served.api.json("GET", f"{RUNS}?page[size]=3")
    after = first["meta"]["page"]["next"]
    rest = await served.api.json("GET", f"{RUNS}?page[size]=3&page[after]={after}")
    assert first["data"] + rest["data"] == made[::-1]
    assert rest["meta"]["page"]["next"] is None
    for cursor in ("x", "run_" + "a" * 32):
        faults = await served.api.faults("GET", f"{RUNS}?page[after]={cursor}")
        assert faults == {"page[after]": "matches_regex"}


async def test_a_decided_run_has_its_manifest_and_its_deliveries_are_listed(
    served: ReportsApi,
) -> None:
    report = await served.made_v3()
    run = await run_of(served)
    ids = await served.delivered(run)
    shown = await served.api.json("GET", f"{RUNS}/{run['id']}")
    assert shown["manifest"] == {
        "deliveries": 2,
        "entries": 2,
        "filtered_out": 1,
        "total": "1.000000000000000005",
        "total_filtered_out": "-1.000000000000000005",
        "complete_until": "2023-11-14T22:13:20Z",
        "digest": "d1" * 32,
        "sequence_first": 1,
        "sequence_last": 2,
    }
    page = await served.api.json("GET", f"{DELIVERIES}?filter[run]={run['id']}")
    assert [it["id"] for it in page["data"]] == ids
    one = await served.api.json("GET", f"{DELIVERIES}/{ids[0]}")
    assert one == {
        **page["data"][0],
        "attempts": [
            {
                "number": 1,
                "started_at": "2023-11-14T22:13:20Z",
                "duration_ms": 7,
                "outcome": "refused",
                "url": report["endpoint"]["url"],
                "status": 500,
                "reason": "no",
                "answer": "a\ufffd",
                "next_attempt_at": "2023-11-14T22:13:20.005Z",
            }
        ],
    }
    assert page["data"][0] == {
        "id": ids[0],
        "report": {"id": report["id"], "slug": "daily-tokens"},
        "run_id": run["id"],
        "from": run["from"],
        "to": run["to"],
        "subject": "s1",
        "number": 1,
        "sequence": 1,
        "revision": 1,
        "state": "retrying",
        "attempt_count": 1,
        "digest": digest_of(body_of(0)).hex(),
        "created_at": "2023-11-14T22:13:20Z",
        "next_attempt_at": "2023-11-14T22:13:20.005Z",
    }
    async with served.api.client.get(f"{DELIVERIES}/{ids[0]}/body") as response:
        assert (response.status, response.content_type) == (200, "application/json")
        assert await response.read() == body_of(0)


async def test_deliveries_are_found_by_each_filter_and_in_pages(served: ReportsApi) -> None:
    report = await served.made_v3()
    runs = [await run_of(served, hour) for hour in range(3)]
    for run in runs:
        await served.delivered(run)

    async def found(query: str) -> list[tuple[int, str]]:
        page = await served.api.json("GET", f"{DELIVERIES}?{query}")
        assert page["meta"]["page"]["next"] is None
        numbers = {run["id"]: place for place, run in enumerate(runs)}
        return [(numbers[it["run_id"]], it["subject"]) for it in page["data"]]

    every = await found("")
    assert len(every) == 6
    assert await found("filter[report]=daily-tokens") == every
    assert await found(f"filter[report]={report['id'].lower()}") == every
    assert await found("filter[report]=none") == []
    assert sorted(await found("filter[subject]=s1")) == [(0, "s1"), (1, "s1"), (2, "s1")]
    assert await found(f"filter[run]={runs[1]['id']}&filter[state]=delivered") == [(1, "s2")]
    assert len(await found("filter[state]=delivered,retrying")) == 6
    assert await found("filter[state]=failed") == []
    window = "filter[from][gte]=2023-11-01T01:00:00Z&filter[to][lte]=2023-11-01T02:00:00Z"
    assert await found(window) == [(1, "s1"), (1, "s2")]
    pages: list[Any] = []
    after = ""
    while True:
        page = await served.api.json("GET", f"{DELIVERIES}?page[size]=4{after}")
        pages += page["data"]
        if page["meta"]["page"]["next"] is None:
            break
        after = f"&page[after]={page['meta']['page']['next']}"
    assert len({it["id"] for it in pages}) == 6


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("filter[state]=gone", "filter[state]"),
        ("filter[run]=1", "filter[run]"),
        ("filter[from][gte]=now", "filter[from][gte]"),
        ("filter[from]=2023-11-01T00:00:00Z", "filter[from]"),
        ("filter[owner]=a", "filter[owner]"),
        ("page[after]=1", "page[after]"),
        ("page[size]=101", "page[size]"),
        ("limit=1", "limit"),
        ("filter[subject]=%00", "filter[subject]"),
    ],
)
async def test_odd_questions_are_refused(served: ReportsApi, query: str, field: str) -> None:
    assert list(await served.api.faults("GET", f"{DELIVERIES}?{query}")) == [field]


async def test_a_delivery_is_sent_again_on_request(served: ReportsApi) -> None:
    await served.made_v3()
    run = await run_of(served)
    retrying, delivered = await served.delivered(run)
    wakes = served.wakes.count
    served.api.clock.at_ms = NOW_MS + 1
    shown: Any = None
    for name in (retrying, delivered):
        shown = await served.api.json("POST", f"{DELIVERIES}/{name}/replay", 202)
        assert (shown["state"], shown["replayed_at"]) == ("pending", "2023-11-14T22:13:20.001Z")
        assert "ended_at" not in shown
    assert served.wakes.count == wakes + 2
    found = await served.api.json("GET", f"{RUNS}/{run['id']}")
    assert (found["state"], found["delivered"]) == ("delivering", 0)
    again = await served.api.json("POST", f"{DELIVERIES}/{delivered}/replay", 202)
    assert again == shown
    (report,) = await served.reports.reports("default")
    claimed_deliveries = await served.reports.claim_deliveries(
        [SendGrant(report.id, 9)], NOW_MS + 1, NOW_MS + 9
    )
    assert {claimed.delivery_id for claimed in claimed_deliveries} == {retrying, delivered}
    problem = await served.api.json("POST", f"{DELIVERIES}/{delivered}/replay", 409)
    assert problem["type"] == "urn:meterline:problem:conflict"
    fine = [
        AttemptEnd(
            Attempt(it.delivery_id, 2, NOW_MS, AttemptOutcome.DELIVERED), DeliveryMove.CONFIRM
        )
        for it in claimed_deliveries
    ]
    await served.reports.record(fine, NOW_MS + 2)
    assert (await served.api.json("GET", f"{RUNS}/{run['id']}"))["state"] == "succeeded"
    one = await served.api.json("GET", f"{DELIVERIES}/{delivered}")
    assert [it["number"] for it in one["attempts"]] == [1, 2]
    await served.api.json("DELETE", ONE, 204)
    await served.api.json("POST", f"{DELIVERIES}/{delivered}/replay", 409)
    gone = await served.api.json("GET", f"{DELIVERIES}?filter[report]={report.id}")
    assert len(gone["data"]) == 2


async def test_a_secret_is_rotated_with_an_overlap(served: ReportsApi) -> None:
    made = await served.made_v3()
    path = f"{ONE}/secret"
    async with served.api.client.post(f"{path}/rotate", json={}) as response:
        assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
        shown = await response.json()
    fresh = shown["signing_secret"]
    assert len(base64.b64decode(fresh.removeprefix("whsec_"), validate=True)) == 24
    old = {"signing_secret": made["signing_secret"], "signs_until": "2023-11-15T22:13:20Z"}
    assert shown["previous"] == [old]
    assert await served.api.json("GET", path) == shown
    assert await served.api.json("GET", "/api/v1/reports/daily-tokens/secret") == {
        "signingSecret": fresh
    }
    served.api.clock.at_ms += 24 * 3_600_000
    assert await served.api.json("GET", path) == {"signing_secret": fresh, "previous": []}
    last = await served.api.json("POST", f"{path}/rotate", json={"overlap_seconds": 0})
    assert last["previous"] == []
    assert last["signing_secret"] != fresh
    for number in range(5):
        last = await served.api.json("POST", f"{path}/rotate", json={"overlap_seconds": 60})
        assert len(last["previous"]) == number + 1
    await served.api.json("POST", f"{path}/rotate", 409, json={"overlap_seconds": 60})
    for wrong in (-1, 604_801, "60", 1.5):
        faults = await served.api.faults("POST", f"{path}/rotate", json={"overlap_seconds": wrong})
        assert list(faults) == ["overlap_seconds"]


async def test_a_secret_under_a_lost_key_is_told_so_and_can_be_replaced(
    served: ReportsApi,
) -> None:
    report = await served.made_v3()
    path, other = f"{ONE}/secret", FernetSecretBox("another key")
    lost = other.seal("whsec_c2VjcmV0")
    await served.reports.rotate_secret(report["id"], lost, 0, NOW_MS)
    for method, where, body in [
        ("GET", path, None),
        ("GET", f"{ONE}/pull", None),
        ("GET", "/api/v1/reports/daily-tokens/secret", None),
        ("POST", f"{path}/rotate", {"overlap_seconds": 60}),
    ]:
        problem = await served.api.json(method, where, 503, json=body)
        assert "`secret_key`" in problem["detail"], where
    fresh = await served.api.json("POST", f"{path}/rotate", json={"overlap_seconds": 0})
    assert fresh["previous"] == []
    assert await served.api.json("GET", path) == fresh

    found = await served.reports.report("default", report["id"])
    assert found is not None
    for sealed, overlap_ms in ((lost, 0), (found.signing_secret_sealed, 60_000)):
        await served.reports.rotate_secret(report["id"], sealed, overlap_ms, NOW_MS)
    await served.api.json("POST", f"{path}/rotate", 503, json={"overlap_seconds": 60})
    assert len(await served.reports.retired_secrets(report["id"], NOW_MS)) == 1, "nothing was done"


async def test_namespaces_are_walls(served: ReportsApi) -> None:
    report = await served.made_v3()
    run = await run_of(served)
    ids = await served.delivered(run)
    other = served.other
    for path in ("reports", "deliveries", f"deliveries?filter[report]={report['id']}"):
        assert (await other.json("GET", f"{V3}/{path}"))["data"] == []
    assert (await other.json("GET", f"{DELIVERIES}?filter[run]={run['id']}"))["data"] == []
    assert await other.json("GET", "/api/v1/reports") == []
    for name in ("daily-tokens", report["id"]):
        base, old = f"{V3}/reports/{name}", f"/api/v1/reports/{name}"
        for method, path in [
            ("GET", base),
            ("PUT", base),
            ("DELETE", base),
            ("POST", f"{base}/pause"),
            ("POST", f"{base}/resume"),
            ("GET", f"{base}/secret"),
            ("POST", f"{base}/secret/rotate"),
            ("GET", f"{base}/runs"),
            ("GET", f"{base}/runs/{run['id']}"),
            ("GET", old),
            ("PUT", old),
            ("DELETE", old),
            ("GET", f"{old}/secret"),
            ("POST", f"{old}/resume"),
            ("GET", f"{old}/runs"),
            ("GET", f"{old}/runs/{run['id']}"),
        ]:
            body: dict[str, Any] | None = {} if method in ("PUT", "POST") else None
            await other.json(method, path, 404, json=body)
        for path in (f"{base}/runs", f"{old}/runs"):
            await other.json("POST", path, 404, json=WINDOW)
    for method, path in (("GET", ""), ("GET", "/body"), ("POST", "/replay")):
        theirs = await other.json(method, f"{DELIVERIES}/{ids[0]}{path}", 404)
        never = await other.json(method, f"{DELIVERIES}/dlv_{'a' * 32}{path}", 404)
        assert theirs["detail"].replace(ids[0], "") == never["detail"].replace(
            f"dlv_{'a' * 32}", ""
        )
    # the meter of another namespace cannot be reported on
    faults = await other.faults(
        "POST",
        f"{V3}/reports",
        json={
            "slug": "x",
            "meter_id_or_key": served.meter_id,
            "type": "webhook",
            "schedule": {"interval": "1d"},
            "endpoint": {"url": "https://example.com/"},
        },
    )
    assert faults == {"meter_id_or_key": "not_found"}
    assert (await served.api.json("GET", ONE))["state"] == "active"
    # nor does a cursor of one open another
    await served.api.json("POST", RUNS, 200, json={"from": run["from"], "to": run["to"]})
