"""Replays of many deliveries, and pulls of them, in v3."""

from typing import Any

import pytest
from svix.webhooks import Webhook

from meterline.backends.clock import SystemClock
from meterline.delivery import digest_of
from tests.unit.control.conftest import NOW_MS
from tests.unit.control.reports.conftest import V3, WINDOW, ReportsApi, body_of

REPLAYS = f"{V3}/replays"
ONE = f"{V3}/reports/daily-tokens"
PULL = f"{ONE}/pull"
NO_STATES = dict.fromkeys(("pending", "sending", "retrying", "delivered", "failed", "cancelled"), 0)


async def filled(served: ReportsApi, **window: str) -> tuple[Any, Any, list[str]]:
    """A report, a run and its two deliveries: one waits for a retry, one arrived."""
    report = await served.made_v3()
    run = await served.api.json("POST", f"{ONE}/runs", 201, json={**WINDOW, **window})
    return report, run, await served.delivered(run)


async def test_a_dry_run_counts_and_changes_nothing(served: ReportsApi) -> None:
    _, run, ids = await filled(served)
    expected = {
        "dry_run": True,
        "counted": 2,
        "by_state": {**NO_STATES, "retrying": 1, "delivered": 1},
    }
    for condition in ({"report": "daily-tokens"}, {"run": run["id"]}, WINDOW):
        asked = {**condition, "dry_run": True}
        assert await served.api.json("POST", REPLAYS, 200, json=asked) == expected
    for condition, counted in [
        ({"subject": "s1"}, 1),
        ({"subject": "s1", "failed_since": "2023-11-01T00:00:00Z"}, 0),
        ({"from": "2023-11-01T00:00:01Z"}, 0),
        ({"run": f"run_{'a' * 32}"}, 0),
    ]:
        asked = {**condition, "dry_run": True}
        assert (await served.api.json("POST", REPLAYS, 200, json=asked))["counted"] == counted
    assert (await served.api.json("GET", REPLAYS))["data"] == []
    assert (await served.api.json("GET", f"{V3}/deliveries/{ids[1]}"))["state"] == "delivered"


async def test_a_replay_is_made_worked_off_and_shown(served: ReportsApi) -> None:
    report, _, ids = await filled(served)
    asked = {"report": report["id"], **WINDOW, "subject": "s2", "per_second": 5}
    made = await served.api.json("POST", REPLAYS, 201, json=asked)
    assert made == {
        "id": made["id"],
        "state": "running",
        "asked": {"report_id": report["id"], **WINDOW, "subject": "s2"},
        "per_second": 5,
        "created_at": "2023-11-14T22:13:20Z",
        "counted": 1,
        "replayed": 0,
        "in_flight": 0,
        "refused": 0,
    }
    path = f"{REPLAYS}/{made['id']}"
    assert await served.api.json("GET", path.lower()) == made
    for now_ms in (NOW_MS, NOW_MS + 200):
        await served.replays.work(now_ms)
    done = {**made, "state": "done", "replayed": 1, "ended_at": "2023-11-14T22:13:20.200Z"}
    assert await served.api.json("GET", path) == done
    assert (await served.api.json("GET", REPLAYS))["data"] == [done]
    assert await served.api.json("POST", f"{path}/cancel") == done
    states = [(await served.api.json("GET", f"{V3}/deliveries/{it}"))["state"] for it in ids]
    assert states == ["retrying", "pending"]
    (change, *_) = (await served.api.json("GET", f"{V3}/changes"))["data"]
    assert (change["kind"], change["action"], change["name"]) == (
        "replay",
        "create",
        "1 delivery",
    )


async def test_replays_of_a_report_are_listed(served: ReportsApi) -> None:
    report, run, _ = await filled(served)
    whole = await served.api.json("POST", REPLAYS, 201, json={"report": "daily-tokens"})
    await served.api.json("POST", REPLAYS, 201, json={"run": run["id"]})
    for name in ("daily-tokens", report["id"], report["id"].lower()):
        listed = await served.api.json("GET", f"{REPLAYS}?filter[report]={name}")
        assert listed["data"] == [whole]
    await served.api.json("DELETE", ONE, 204)
    of_deleted = f"{REPLAYS}?filter[report]={report['id'].lower()}"
    assert [one["id"] for one in (await served.api.json("GET", of_deleted))["data"]] == [
        whole["id"]
    ]
    assert (await served.api.json("GET", f"{REPLAYS}?filter[report]=nothing"))["data"] == []
    assert (await served.other.json("GET", of_deleted))["data"] == []
    assert await served.api.faults("GET", f"{REPLAYS}?filter[report]=a%20b") == {
        "filter[report]": "matches_regex"
    }


async def test_a_replay_is_cancelled(served: ReportsApi) -> None:
    await filled(served)
    made = await served.api.json("POST", REPLAYS, 201, json={"report": "daily-tokens"})
    assert made["per_second"] == 20
    cancelled = await served.api.json("POST", f"{REPLAYS}/{made['id']}/cancel")
    assert cancelled == {**made, "state": "cancelled", "ended_at": "2023-11-14T22:13:20Z"}
    for method, path in (("GET", ""), ("POST", "/cancel")):
        await served.api.json(method, f"{REPLAYS}/{'0' * 26}{path}", 404)
        await served.other.json(method, f"{REPLAYS}/{made['id']}{path}", 404)
    assert (await served.other.json("GET", REPLAYS))["data"] == []


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, {"": "required"}),
        ({"per_second": 5}, {"": "required"}),
        ({"report": "a b"}, {"report": "matches_regex"}),
        ({"run": "x"}, {"run": "matches_regex"}),
        ({"subject": "a", "per_second": 0}, {"per_second": "minimum"}),
        ({"subject": "a", "per_second": 1_001}, {"per_second": "maximum"}),
        ({**WINDOW, "to": WINDOW["from"]}, {"from": "maximum"}),
        ({"failed_since": "yesterday"}, {"failed_since": "is_date_time"}),
    ],
)
async def test_what_cannot_be_is_refused(
    served: ReportsApi, body: dict[str, Any], faults: dict[str, str]
) -> None:
    assert await served.api.faults("POST", REPLAYS, json=body) == faults


async def test_a_replay_of_a_report_that_is_not_there_is_not_found(served: ReportsApi) -> None:
    await filled(served)
    await served.api.json("POST", REPLAYS, 404, json={"report": "nothing"})
    await served.other.json("POST", REPLAYS, 404, json={"report": "daily-tokens"})
    counts = await served.other.json("POST", REPLAYS, json={**WINDOW, "dry_run": True})
    assert counts["counted"] == 0


async def test_a_pull_has_bytes_and_headers_that_verify_as_a_push(served: ReportsApi) -> None:
    report, _, ids = await filled(served)
    served.api.clock.at_ms = SystemClock().now_ms()
    rotated = await served.api.json("POST", f"{ONE}/secret/rotate", json={})
    async with served.api.client.get(PULL) as response:
        assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
        page = await response.json()
    assert [it["id"] for it in page["data"]] == ids
    assert page["meta"]["page"]["next"] is None
    for place, one in enumerate(page["data"]):
        body = one.pop("body").encode()
        headers = one.pop("headers")
        assert body == body_of(place)
        assert digest_of(body).hex() == one["digest"]
        for secret in (rotated["signing_secret"], report["signing_secret"]):
            for family in ("svix", "webhook"):
                named = {name: it for name, it in headers.items() if name.startswith(family)}
                assert named[f"{family}-id"] == one["id"]
                Webhook(secret).verify(body, named)
        reason = {"reason": one.pop("reason")} if "reason" in one else {}
        assert reason == ({"reason": "no"} if place == 0 else {})
        shown = await served.api.json("GET", f"{V3}/deliveries/{one['id']}")
        shown.pop("attempts")
        assert one == shown


async def test_a_pull_has_pages_and_windows(served: ReportsApi) -> None:
    _, _, ids = await filled(served)
    first = await served.api.json("GET", f"{PULL}?page[size]=1")
    after = first["meta"]["page"]["next"]
    rest = await served.api.json("GET", f"{PULL}?page[size]=1&page[after]={after}")
    assert [it["id"] for it in first["data"] + rest["data"]] == ids
    assert rest["meta"]["page"]["next"] is None
    within = f"{PULL}?from={WINDOW['from']}&to={WINDOW['to']}"
    assert len((await served.api.json("GET", within))["data"]) == 2
    after_it = f"{PULL}?from={WINDOW['to']}"
    assert (await served.api.json("GET", after_it))["data"] == []
    wrong = f"{PULL}?from={WINDOW['to']}&to={WINDOW['from']}"
    assert await served.api.faults("GET", wrong) == {"from": "maximum"}
    assert await served.api.faults("GET", f"{PULL}?page[after]=x") == {
        "page[after]": "matches_regex"
    }
    await served.other.json("GET", PULL, 404)
