"""Reports in v3: made, listed, changed, paused and resumed, over real SQLite stores."""

from typing import Any

import pytest

from dispatcher.runs.schedule import due_runs
from meterline.backends.secrets import FernetSecretBox
from meterline.report import RunState
from meterline.window import HOUR_MS
from tests.unit.control.conftest import NOW_MS
from tests.unit.control.reports.conftest import BODY, V1, V3, V3_BODY, WINDOW, ReportsApi

REPORTS = f"{V3}/reports"
ONE = f"{REPORTS}/daily-tokens"


async def test_a_report_is_made_shown_and_found_by_either_name_and_version(
    served: ReportsApi,
) -> None:
    filter_ = {"usage": {"$gt": "100.50", "$in": ["1", "-2"]}, "subject": {"$nin": ["a", "b"]}}
    api = served.api
    async with api.client.post(REPORTS, json={**V3_BODY, "filter": filter_}) as response:
        made = await response.json()
        assert response.status == 201
        assert response.headers["Cache-Control"] == "no-store"
    secret = made.pop("signing_secret")
    assert made == {
        "id": made["id"],
        "slug": "daily-tokens",
        "meter": {"id": served.meter_id, "key": "tokens"},
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": "2023-11-01T00:00:00Z"},
        "query": {"group_by_dimensions": ["model"]},
        "filter": {"usage": {"$gt": "100.5", "$in": ["1", "-2"]}, "subject": {"$nin": ["a", "b"]}},
        "endpoint": {"url": "https://example.com/hook"},
        "revisions": "record",
        "state": "active",
        "created_at": "2023-11-14T22:13:20Z",
        "updated_at": "2023-11-14T22:13:20Z",
        "status": {
            "next_run": {
                "from": "2023-11-14T00:00:00Z",
                "to": "2023-11-15T00:00:00Z",
                "starts_at": "2023-11-15T00:01:00Z",
            },
            "owed_deliveries": 0,
            "receiver": {"state": "untried", "retrying_deliveries": 0},
        },
    }
    for name in ("daily-tokens", made["id"], made["id"].lower()):
        assert await api.json("GET", f"{REPORTS}/{name}") == made
        assert await api.json("GET", f"/api/v3/openmeter/reports/{name}") == made
    assert (await api.json("GET", f"{V1}/daily-tokens"))["filter"]["usage"] == {
        "$gt": 100.5,
        "$in": [1, -2],
    }
    shown = await api.json("GET", f"{ONE}/secret")
    assert shown == {"signing_secret": secret, "previous": []}
    (plan,) = (await served.reports.plans(NOW_MS + 48 * HOUR_MS, 10)).found
    assert plan.planned_until_ms == NOW_MS - NOW_MS % (24 * HOUR_MS)
    assert served.wakes.count == 1


async def test_what_is_left_out_has_a_natural_meaning(served: ReportsApi) -> None:
    body = {name: it for name, it in V3_BODY.items() if name != "query"}
    body["schedule"] = {"interval": "PT1H"}
    body["meter_id_or_key"] = served.meter_id
    made = await served.api.json("POST", REPORTS, 201, json=body)
    assert made["schedule"] == {"interval": "1h", "start_at": "2023-11-14T22:00:00Z"}
    assert made["query"] == {"group_by_dimensions": []}
    assert "filter" not in made


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"slug": "a b", "meter_id_or_key": "none"},
            {"slug": "matches_regex", "meter_id_or_key": "not_found"},
        ),
        ({"slug": 1}, {"slug": "type"}),
        ({"type": "email"}, {"type": "enum"}),
        ({"schedule": {"interval": "5m"}}, {"schedule.interval": "enum"}),
        (
            {"schedule": {"start_at": "x"}},
            {"schedule.interval": "required", "schedule.start_at": "is_date_time"},
        ),
        ({"query": {"group_by_dimensions": ["x"]}}, {"query.group_by_dimensions.0": "enum"}),
        ({"query": {"groupBy": []}}, {"query.groupBy": "unknown_property"}),
        ({"endpoint": {"url": "nowhere"}}, {"endpoint.url": "is_url"}),
        ({"filter": {"usage": {"$gt": 5}}}, {"filter.usage.$gt": "type"}),
        ({"filter": {"usage": {"$gt": "1e3"}}}, {"filter.usage.$gt": "matches_regex"}),
        ({"filter": {"usage": {"$gt": None}}}, {"filter.usage.$gt": "type"}),
        ({"filter": {"subject": {"$lk": "a"}}}, {"filter.subject.$lk": "unknown_property"}),
        ({"filter": None}, {"filter": "type"}),
        ({"namespace": "other"}, {"namespace": "unknown_property"}),
    ],
)
async def test_all_faults_are_named_at_once(
    served: ReportsApi, changes: dict[str, Any], expected: dict[str, str]
) -> None:
    body = {**V3_BODY, **changes, "unknown": 1}
    faults = await served.api.faults("POST", REPORTS, json=body)
    assert faults == {**expected, "unknown": "unknown_property"}
    assert (await served.api.json("GET", REPORTS))["data"] == []


async def test_reports_come_in_pages_by_creation(served: ReportsApi) -> None:
    made = []
    for number in range(5):
        made.append((await served.made_v3(slug=f"r{number}"))["id"])
        served.api.clock.at_ms += number % 2
    made = [it["id"] for it in (await served.api.json("GET", REPORTS))["data"]]
    assert len(made) == 5
    found: list[str] = []
    after = ""
    while True:
        page = await served.api.json("GET", f"{REPORTS}?page[size]=2{after}")
        found += [it["id"] for it in page["data"]]
        if page["meta"]["page"]["next"] is None:
            break
        after = f"&page[after]={page['meta']['page']['next']}"
    assert found == made
    faults = await served.api.faults("GET", f"{REPORTS}?page[after]=x&page[size]=2")
    assert faults == {"page[after]": "matches_regex"}


async def test_an_update_changes_what_it_says_and_leaves_the_rest(served: ReportsApi) -> None:
    made = await served.made_v3(
        endpoint={"url": "https://me:hidden@example.com/hook"}, filter={"usage": {"$gt": "1"}}
    )
    served.api.clock.at_ms += 5
    change = {"query": {"group_by_dimensions": ["type", "model"]}, "filter": {}}
    changed = await served.api.json("PUT", ONE, json=change)
    expected = {name: it for name, it in made.items() if name not in ("filter", "signing_secret")}
    assert changed == {
        **expected,
        "query": {"group_by_dimensions": ["type", "model"]},
        "updated_at": "2023-11-14T22:13:20.005Z",
    }
    # what was read can be written back, and changes nothing: not even what is not shown
    sent = {name: changed[name] for name in ("slug", "type", "schedule", "query", "endpoint")}
    again = await served.api.json("PUT", ONE, json={**sent, "meter_id_or_key": "tokens"})
    assert again == changed
    (report,) = await served.reports.reports("default")
    assert report.user_info_sealed is not None
    assert FernetSecretBox("key").open(report.user_info_sealed) == "me:hidden"
    await served.api.json("PUT", ONE, json={"endpoint": {"url": "https://@example.com/hook"}})
    (report,) = await served.reports.reports("default")
    assert (report.endpoint, report.user_info_sealed) == ("https://example.com/hook", None)


async def test_another_schedule_takes_over_where_both_have_a_border(served: ReportsApi) -> None:
    await served.made_v3(schedule={"interval": "1h", "start_at": "2023-11-01T00:00:00Z"})
    changed = await served.api.json("PUT", ONE, json={"schedule": {"interval": "1d"}})
    assert changed["schedule"] == {"interval": "1d", "start_at": "2023-11-01T00:00:00Z"}
    assert changed["ending_schedule"] == {
        "interval": "1h",
        "start_at": "2023-11-01T00:00:00Z",
        "ends_at": "2023-11-15T00:00:00Z",
    }
    v1 = await served.api.json("GET", f"{V1}/daily-tokens")
    assert v1["endingSchedule"]["endsAt"] == "2023-11-15T00:00:00.000Z"
    same = {"schedule": changed["schedule"]}
    assert await served.api.json("PUT", ONE, json=same) == changed
    off = {"schedule": {"interval": "1d", "start_at": "2023-11-01T00:30:00Z"}}
    problem = await served.api.json("PUT", ONE, 400, json=off)
    (fault,) = problem["invalid_parameters"]
    assert fault["field"] == "schedule"
    assert "never begin where one of the present schedule ends" in fault["reason"]
    back = await served.api.json("PUT", ONE, json={"schedule": {"interval": "1h"}})
    assert "ending_schedule" not in back


async def test_a_change_on_trial_shows_the_report_as_it_would_be(served: ReportsApi) -> None:
    await served.made_v3(schedule={"interval": "1h", "start_at": "2023-11-01T00:00:00Z"})
    before = await served.api.json("GET", ONE)
    change = {"schedule": {"interval": "1d"}, "filter": {"usage": {"$gt": "2"}}}
    trial = await served.api.json("PUT", ONE, json={**change, "dry_run": True})
    assert trial["ending_schedule"]["ends_at"] == "2023-11-15T00:00:00Z"
    assert trial["filter"] == {"usage": {"$gt": "2"}}
    assert await served.api.json("GET", ONE) == before
    page = await served.api.json("GET", f"{V3}/changes")
    assert {it["action"] for it in page["data"]} == {"create"}
    assert await served.api.json("PUT", ONE, json=change) == trial


async def test_a_grace_of_its_own_is_set_kept_and_dropped(served: ReportsApi) -> None:
    made = await served.made_v3(grace_seconds=90)
    assert made["grace_seconds"] == 90
    api = served.api
    assert (await api.json("PUT", ONE, json={"filter": {}}))["grace_seconds"] == 90
    assert (await api.json("PUT", ONE, json={"grace_seconds": 300}))["grace_seconds"] == 300
    v1 = f"{V1}/daily-tokens"
    assert (await api.json("GET", v1))["graceSeconds"] == 300
    kept = await api.json("PUT", v1, json={"graceSeconds": None})  # null stays as it is in v1
    assert kept["graceSeconds"] == 300
    assert "grace_seconds" not in await api.json("PUT", ONE, json={"grace_seconds": None})
    assert "graceSeconds" not in await api.json("GET", v1)
    assert (await served.made(slug="other", graceSeconds=12))["graceSeconds"] == 12


@pytest.mark.parametrize(
    ("sent", "rule"), [(10, "minimum"), (-1, "minimum"), (86_401, "maximum"), ("60", "type")]
)
async def test_a_grace_has_bounds(served: ReportsApi, sent: object, rule: str) -> None:
    for path, name, body in (
        (REPORTS, "grace_seconds", V3_BODY),
        (V1, "graceSeconds", BODY),
    ):
        faults = await served.api.faults("POST", path, json={**body, name: sent})
        assert faults == {name: rule}
    await served.made_v3()
    assert await served.api.faults("PUT", ONE, json={"grace_seconds": sent}) == {
        "grace_seconds": rule
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"slug": "other"}, {"slug": "immutable"}),
        ({"meter_id_or_key": "other"}, {"meter_id_or_key": "immutable"}),
        ({"type": "email"}, {"type": "enum"}),
        ({"state": "paused"}, {"state": "unknown_property"}),
        (
            {"query": {"group_by_dimensions": ["a", "model", "model"]}},
            {
                "query.group_by_dimensions.0": "enum",
                "query.group_by_dimensions.2": "unique_items",
            },
        ),
        ({"schedule": {}}, {"schedule.interval": "required"}),
        ({"endpoint": {"url": "ftp://x/"}}, {"endpoint.url": "is_url"}),
    ],
)
async def test_what_cannot_be_changed_is_refused_with_words(
    served: ReportsApi, change: dict[str, Any], expected: dict[str, str]
) -> None:
    before = await served.made_v3()
    assert await served.api.faults("PUT", ONE, json=change) == expected
    assert (await served.api.json("GET", ONE))["updated_at"] == before["updated_at"]


async def test_a_report_is_paused_and_resumed(served: ReportsApi) -> None:
    await served.made_v3()
    for _ in range(2):
        assert (await served.api.json("POST", f"{ONE}/pause"))["state"] == "paused"
    assert (await served.reports.plans(NOW_MS + 48 * HOUR_MS, 10)).found == []
    assert (await served.api.json("POST", f"{ONE}/resume"))["state"] == "active"
    await served.reports.park_endpoint("default", "https://example.com/hook", "gone", NOW_MS)
    parked = await served.api.json("GET", ONE)
    assert (parked["state"], parked["state_reason"]) == ("parked", "gone")
    resumed = await served.api.json("POST", f"{ONE}/resume")
    assert "state_reason" not in resumed


async def test_a_report_is_resumed_with_what_is_asked_for(served: ReportsApi) -> None:
    api = served.api
    await served.made_v3(schedule={"interval": "1h", "start_at": "2023-11-01T00:00:00Z"})
    none = {"runs": 0, "runs_skipped": 0, "deliveries": 0, "deliveries_cancelled": 0}
    for version, path in ((3, ONE), (1, f"{V1}/daily-tokens")):
        for body, kept in (({}, 4), ({"owed": "newest"}, 1), ({"owed": "none"}, 0)):
            await api.json("POST", f"{ONE}/pause")
            since = await served.reports.report("default", "daily-tokens")
            assert since is not None
            api.clock.at_ms += 4 * HOUR_MS
            found = await api.json("POST", f"{path}/resume", json=body)
            assert found["state"] == "active"
            (plan,) = (await served.reports.plans(api.clock.at_ms, 10)).found
            runs = due_runs(plan, api.clock.at_ms, 100, 100)
            await served.reports.plan(plan.report, runs, runs[-1].to_ms)
            assert [run.state for run in runs].count(RunState.SCHEDULED) == kept
            skipped = "runs_skipped" if version == 3 else "runsSkipped"
            assert found["owed"][skipped] >= 4 - kept
    async with api.client.post(f"{ONE}/resume") as response:  # no body at all: all
        assert (await response.json())["owed"] == none
    assert await api.faults("POST", f"{ONE}/resume", json={"owed": "some"}) == {"owed": "enum"}
    async with api.client.post(f"{ONE}/resume", data=b"x") as response:
        assert response.status == 400


async def test_its_status_is_told_in_lists_too(served: ReportsApi) -> None:
    api = served.api
    await served.made_v3()
    run = await api.json("POST", f"{ONE}/runs", 201, json=WINDOW)
    refused, _ = await served.delivered(run)
    api.clock.at_ms += 90_500
    shown = await api.json("GET", ONE)
    (listed,) = (await api.json("GET", REPORTS))["data"]
    assert (
        listed["status"]
        == shown["status"]
        == {
            "last_run": {
                "id": run["id"],
                **WINDOW,
                "state": "delivering",
                "decided_at": "2023-11-14T22:13:20Z",
            },
            "last_error": {
                "delivery_id": refused,
                "at": "2023-11-14T22:13:20Z",
                "outcome": "refused",
                "status": 500,
                "reason": "no",
            },
            "next_run": {
                "from": "2023-11-14T00:00:00Z",
                "to": "2023-11-15T00:00:00Z",
                "starts_at": "2023-11-15T00:01:00Z",
            },
            "owed_deliveries": 1,
            "owed_since": "2023-11-14T22:13:20Z",
            "owed_seconds": 90,
            "receiver": {
                "state": "untried",  # nothing was heard of it here
                "retrying_deliveries": 1,
                "summary": "1 delivery is retried without delaying others.",
            },
        }
    )
    paused = await api.json("POST", f"{ONE}/pause")
    assert "next_run" not in paused["status"]


async def test_a_deleted_report_is_gone_and_its_slug_is_free(served: ReportsApi) -> None:
    await served.made_v3()
    problem = await served.api.json("POST", REPORTS, 409, json=V3_BODY)
    assert problem["type"] == "urn:meterline:problem:conflict"
    await served.api.json("DELETE", ONE, 204)
    for method, path in [
        ("GET", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/secret"),
        ("POST", "/secret/rotate"),
        ("GET", "/runs"),
        ("POST", "/runs"),
    ]:
        body: dict[str, Any] | None = None if method in ("GET", "DELETE") else {}
        if path == "/runs" and method == "POST":
            body = WINDOW
        await served.api.json(method, ONE + path, 404, json=body)
    await served.made_v3()


async def test_changes_carry_the_callers_name(served: ReportsApi) -> None:
    await served.made_v3()
    await served.api.json("PUT", ONE, json={"filter": {"usage": {"$gt": "1"}}})
    page = await served.api.json("GET", f"{V3}/changes")
    told = [(it["author"], it["action"], it["kind"], it["name"]) for it in page["data"]]
    assert ("anonymous", "update", "report", "daily-tokens") in told
    assert ("anonymous", "create", "report", "daily-tokens") in told
    (updated,) = [it for it in page["data"] if it["action"] == "update"]
    assert updated["members"] == [
        {"member": "filter", "before": {}, "after": {"usage": {"$gt": 1}}}
    ]


async def test_a_secret_that_is_shown_is_told(served: ReportsApi) -> None:
    made = await served.made_v3()
    for path in (f"{ONE}/secret", "/api/v1/reports/daily-tokens/secret"):
        await served.api.json("GET", path)
        page = await served.api.json("GET", f"{V3}/changes")
        (shown,) = [it for it in page["data"] if it["action"] == "show"]
        assert (shown["author"], shown["resource_id"]) == ("anonymous", made["id"])
        assert made["signing_secret"] not in str(page)


@pytest.mark.parametrize("body", [b"{", b'{"filter": {"usage": {"$gt": NaN}}}', b"[]", b"null"])
async def test_what_is_no_json_object_is_told(served: ReportsApi, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    for method, path in (("POST", REPORTS), ("POST", V1)):
        async with served.api.client.request(method, path, data=body, headers=headers) as response:
            assert response.status == 400
            assert response.content_type == "application/problem+json"
