"""Reports over HTTP (contract 2.2, 4.2) and runs by hand, over real SQLite stores."""

import base64
from io import BytesIO
from typing import Any

import pytest

from meterline.backends.secrets import FernetSecretBox
from meterline.window import HOUR_MS
from tests.unit.control.conftest import NOW_MS
from tests.unit.control.reports.conftest import BODY, WINDOW, ReportsApi
from tests.unit.control.reports.conftest import V1 as PATH


@pytest.mark.parametrize("media", ["application/cloudevents+json", "application/json"])
async def test_a_report_is_made_as_the_contract_shows(served: ReportsApi, media: str) -> None:
    filter_ = {"usage": {"$gt": 100}, "subject": {"$in": ["a", "b"]}}
    client = served.api.client
    headers = {"Content-Type": media}
    async with client.post(PATH, json={**BODY, "filter": filter_}, headers=headers) as response:
        made = await response.json()
        assert response.status == 201
        assert response.headers["Location"] == f"{PATH}/{made['id']}"
        assert response.headers["Cache-Control"] == "no-store"
    secret = made["endpoint"].pop("signingSecret")
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 24
    assert made == {
        **BODY,
        "id": made["id"],
        "meterId": served.meter_id,
        "filter": filter_,
        "revisions": "record",
        "state": "active",
        "createdAt": "2023-11-14T22:13:20.000Z",
    }
    for name in (made["id"], "daily-tokens"):
        shown = await served.api.json("GET", f"{PATH}/{name}")
        assert shown == {**made, "lastRun": None}
        again = await served.api.json("GET", f"{PATH}/{name}/secret")
        assert again == {"signingSecret": secret}
    assert await served.api.json("GET", PATH) == [made]
    assert served.wakes.count == 1


async def test_the_numbers_of_a_filter_keep_every_digit(served: ReportsApi) -> None:
    text = (
        '{"slug":"r","meterIdOrSlug":"tokens","type":"webhook","schedule":{"interval":"PT1H"},'
        '"query":{},"endpoint":{"url":"https://example.com/"},'
        '"filter":{"usage":{"$gt":12345678901234567890.123456789012345678}}}'
    )
    headers = {"Content-Type": "application/json"}
    async with served.api.client.post(PATH, data=text, headers=headers) as response:
        assert response.status == 201
        assert '{"$gt":12345678901234567890.123456789012345678}' in await response.text()


@pytest.mark.parametrize(
    ("sent", "stored", "start"),
    [
        ("1m", "1m", "2023-11-14T22:13:00.000Z"),
        ("PT1M", "1m", "2023-11-14T22:13:00.000Z"),
        ("1h", "1h", "2023-11-14T22:00:00.000Z"),
        ("PT1H", "1h", "2023-11-14T22:00:00.000Z"),
        ("1d", "1d", "2023-11-14T00:00:00.000Z"),
        ("P1D", "1d", "2023-11-14T00:00:00.000Z"),
    ],
)
async def test_intervals_are_normalized_and_start_now_by_default(
    served: ReportsApi, sent: str, stored: str, start: str
) -> None:
    made = await served.made(schedule={"interval": sent})
    assert made["schedule"] == {"interval": stored, "startAt": start}


async def test_the_password_of_a_url_is_never_shown(served: ReportsApi) -> None:
    made = await served.made(endpoint={"url": "https://me:hidden@example.com/x"})
    listed = await served.api.json("GET", PATH)
    assert made["endpoint"]["url"] == "https://example.com/x"
    assert "hidden" not in str([made, listed])
    (report,) = await served.reports.reports("default")
    assert report.user_info_sealed is not None
    assert FernetSecretBox("key").open(report.user_info_sealed) == "me:hidden"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"slug": "a b"}, {"slug": "matches_regex"}),
        ({"slug": "x" * 65}, {"slug": "matches_regex"}),
        ({"slug": None}, {"slug": "type"}),
        ({"type": "email"}, {"type": "enum"}),
        ({"meterIdOrSlug": "none"}, {"meterIdOrSlug": "not_found"}),
        ({"schedule": {"interval": "5m"}}, {"schedule.interval": "enum"}),
        ({"schedule": {}}, {"schedule.interval": "required"}),
        (
            {"schedule": {"interval": "1w", "startAt": "2026-01-01T12:00:60Z"}},
            {"schedule.interval": "enum", "schedule.startAt": "is_date_time"},
        ),
        (
            {"schedule": {"interval": "1d", "startAt": "yesterday"}},
            {"schedule.startAt": "is_date_time"},
        ),
        (
            {"schedule": {"interval": "1d", "startAt": "2200-01-01T00:00:00Z"}},
            {"schedule.startAt": "is_date_time"},
        ),
        ({"query": {"groupBy": ["model", "x"]}}, {"query.groupBy.1": "enum"}),
        ({"query": {"groupBy": ["type", "type"]}}, {"query.groupBy.1": "unique_items"}),
        ({"query": {"groupBy": ["subject"]}}, {"query.groupBy.0": "enum"}),
        ({"query": {"groupby": []}}, {"query.groupby": "unknown_property"}),
        ({"endpoint": {"url": "ftp://x/"}}, {"endpoint.url": "is_url"}),
        ({"filter": {"usage": {"$gt": "1"}}}, {"filter.usage.$gt": "type"}),
        ({"filter": {"usage": {"$lk": 1}}}, {"filter.usage.$lk": "enum"}),
        ({"filters": {}}, {"filters": "unknown_property"}),
        (
            {
                "slug": "",
                "meterIdOrSlug": "none",
                "schedule": {"interval": "2d"},
                "endpoint": {"url": "nowhere"},
                "filter": {"subject": {"$in": "a"}},
            },
            {
                "slug": "matches_regex",
                "meterIdOrSlug": "not_found",
                "schedule.interval": "enum",
                "endpoint.url": "is_url",
                "filter.subject.$in": "type",
            },
        ),
    ],
)
async def test_all_faults_are_named_at_once(
    served: ReportsApi, changes: dict[str, Any], expected: dict[str, str]
) -> None:
    assert await served.faults(**changes) == expected
    assert await served.api.json("GET", PATH) == []


@pytest.mark.parametrize(
    ("body", "media", "kind"),
    [
        (b"{", "application/json", "bad-request"),
        (b'{"filter": {"usage": {"$gt": NaN}}}', "application/json", "bad-request"),
        (b"[]", "application/json", "bad-request"),
        (b"{}", "text/plain", "unsupported-content-type"),
        (b" " * (1024 * 1024 + 1), "application/json", "body-too-large"),
    ],
)
async def test_what_is_no_json_is_told(
    served: ReportsApi, body: bytes, media: str, kind: str
) -> None:
    headers = {"Content-Type": media}
    async with served.api.client.post(PATH, data=BytesIO(body), headers=headers) as response:
        problem = await response.json(content_type=None)
        assert response.content_type == "application/problem+json"
        assert problem["type"] == f"urn:meterline:problem:{kind}"


async def test_a_slug_is_taken_until_its_report_is_deleted(served: ReportsApi) -> None:
    await served.made()
    problem = await served.api.json("POST", PATH, 409, json=BODY)
    assert problem["type"] == "urn:meterline:problem:conflict"
    await served.api.json("DELETE", f"{PATH}/daily-tokens", 204)
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/secret"), ("GET", "/runs")):
        await served.api.json(method, f"{PATH}/daily-tokens{path}", 404)
    await served.made()


async def test_reports_are_listed_in_pages(served: ReportsApi) -> None:
    made = [(await served.made(slug=f"r{n}"))["id"] for n in range(3)]
    for query, expected in (
        ("", made),
        ("?pageSize=2", made[:2]),
        ("?pageSize=2&page=2", made[2:]),
        ("?pageSize=2&page=1000000", []),
    ):
        listed = await served.api.json("GET", PATH + query)
        assert [it["id"] for it in listed] == expected
    async with served.api.client.get(f"{PATH}?pageSize=101") as response:
        assert response.status == 400


async def test_a_run_is_asked_for_once(served: ReportsApi) -> None:
    report = await served.made()
    runs = f"{PATH}/daily-tokens/runs"
    run = await served.api.json("POST", runs, 201, json=WINDOW)
    assert (run["from"], run["to"]) == ("2023-11-01T00:00:00.000Z", "2023-11-02T00:00:00.000Z")
    assert (run["trigger"], run["state"], run["revision"]) == ("manual", "waiting", 1)
    assert (run["reportId"], run["manifest"]) == (report["id"], None)
    assert await served.api.json("POST", runs, 200, json=WINDOW) == run
    assert await served.api.json("POST", runs, 200, json={**WINDOW, "revise": True}) == run
    assert await served.api.json("GET", runs) == [run]
    shown = await served.api.json("GET", f"{runs}/{run['id']}")
    assert shown == {**run, "deliveries": []}
    assert (await served.api.json("GET", f"{PATH}/daily-tokens"))["lastRun"] == run
    assert served.wakes.count == 4


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({}, {"from": "required", "to": "required"}),
        ({**WINDOW, "to": WINDOW["from"]}, {"from": "maximum"}),
        ({"from": "1969-12-31T00:00:00Z", "to": "1970-01-02T00:00:00Z"}, {"from": "minimum"}),
        ({**WINDOW, "to": "2023-11-14T22:13:20.001Z"}, {"to": "maximum"}),
        ({**WINDOW, "revise": "yes"}, {"revise": "type"}),
        ({**WINDOW, "subject": "a"}, {"subject": "unknown_property"}),
    ],
)
async def test_windows_that_cannot_be_run_are_refused(
    served: ReportsApi, window: dict[str, Any], expected: dict[str, str]
) -> None:
    await served.made()
    faults = await served.api.faults("POST", f"{PATH}/daily-tokens/runs", json=window)
    assert faults == expected


async def test_a_run_is_shown_with_its_deliveries_and_attempts(served: ReportsApi) -> None:
    await served.made()
    runs = f"{PATH}/daily-tokens/runs"
    run = await served.api.json("POST", runs, 201, json=WINDOW)
    await served.delivered(run)
    async with served.api.client.get(f"{runs}/{run['id']}") as response:
        text = await response.text()
        shown = await response.json()
    assert '"total":1.000000000000000005,"totalFilteredOut":-1.000000000000000005' in text
    assert (shown["state"], shown["delivered"], shown["failed"]) == ("delivering", 1, 0)
    manifest = shown["manifest"]
    assert (manifest["deliveries"], manifest["sequenceFirst"], manifest["sequenceLast"]) == (
        2,
        1,
        2,
    )
    first, second = shown["deliveries"]
    assert (first["state"], first["nextAttemptAt"]) == ("retrying", "2023-11-14T22:13:20.005Z")
    assert first["attempts"] == [
        {
            "number": 1,
            "startedAt": "2023-11-14T22:13:20.000Z",
            "durationMs": 7,
            "outcome": "refused",
            "status": 500,
            "reason": "no",
            "answer": "a\ufffd",
            "nextAttemptAt": "2023-11-14T22:13:20.005Z",
        }
    ]
    assert (second["subject"], second["state"]) == ("s2", "delivered")
    page = await served.api.json("GET", f"{runs}/{run['id']}?after=1&limit=1")
    assert page["deliveries"] == [second]


async def test_runs_come_in_pages(served: ReportsApi) -> None:
    await served.made()
    runs = f"{PATH}/daily-tokens/runs"
    made = []
    for day in range(1, 5):
        window = {"from": f"2023-11-0{day}T00:00:00Z", "to": f"2023-11-0{day}T01:00:00Z"}
        made.append(await served.api.json("POST", runs, 201, json=window))
    page = await served.api.json("GET", f"{runs}?limit=3")
    rest = await served.api.json("GET", f"{runs}?limit=3&before={page[-1]['id']}")
    assert page + rest == made[::-1]
    for query in ("limit=0", "limit=x", "before=run_none", "page=2"):
        await served.api.json("GET", f"{runs}?{query}", 400)
    for name in ("run_" + "a" * 32, "nothing"):
        await served.api.json("GET", f"{runs}/{name}", 404)


async def test_a_parked_report_says_why_and_resumes(served: ReportsApi) -> None:
    await served.made()
    await served.reports.park_endpoint("default", BODY["endpoint"]["url"], "gone", NOW_MS)
    shown = await served.api.json("GET", f"{PATH}/daily-tokens")
    assert (shown["state"], shown["stateReason"]) == ("parked", "gone")
    again = await served.api.json("POST", f"{PATH}/daily-tokens/resume")
    assert again["state"] == "active"
    assert "stateReason" not in again


async def test_the_first_window_is_the_one_that_is_open_now(served: ReportsApi) -> None:
    await served.made(schedule={"interval": "1h", "startAt": "2020-01-01T00:00:00.000Z"})
    (plan,) = (await served.reports.plans(NOW_MS + HOUR_MS, 10)).found
    assert plan.planned_until_ms == NOW_MS - NOW_MS % HOUR_MS
