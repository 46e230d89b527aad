"""What the API says of events that are not kept any more."""

from typing import Any

import pytest

from control.kept import check_counted
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.problem import Problem
from meterline.usage import EVENTS, REJECTS, Notice, Period, Reach
from meterline.window import DAY_MS, rfc3339
from tests.unit.control.conftest import Api

METERS = "/api/v3/metering/meters"
WEEK_MS = 7 * DAY_MS
BEFORE_MS = 1_767_571_200_000  # Monday, 2026-01-05
BEFORE = "2026-01-05T00:00:00Z"
AHEAD = "2026-01-05T00:00:10Z"  # a second behind the time of the latest event that is not kept
BODY = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}


async def drop(api: Api, table: str = EVENTS, latest_ms: int = BEFORE_MS + 9_999) -> None:
    """What was appended before the Monday is not kept from now on."""
    assert isinstance(api.stores.retention, SqlRetention)
    period = Period(table, "20251229", BEFORE_MS - WEEK_MS, BEFORE_MS)
    reach = Reach({}, latest_ms if table == EVENTS else 0)
    notice = await api.stores.retention.give_notice(period, reach, api.stores.log.number, 5)
    assert isinstance(notice, Notice)


async def made(api: Api, **more: Any) -> Any:
    return await api.json("POST", METERS, 201, json={**BODY, **more})


@pytest.mark.parametrize(
    ("span", "faults"),
    [
        ({"from": "2026-01-04T00:00:30Z"}, {"from": "not_kept"}),
        ({"to": "2026-01-04T00:00:30Z"}, {"to": "not_kept"}),
        ({"from": "2026-01-05T00:00:30Z"}, {"from": "not_kept"}),  # an event was ahead of its time
        ({"from": "2026-01-04T00:00:00Z", "to": "2026-01-05T00:01:00.5Z"}, {}),
    ],
)
async def test_a_minute_is_cut_only_where_its_events_are_kept(
    api: Api, span: dict[str, str], faults: dict[str, str]
) -> None:
    await made(api)
    await api.json("POST", f"{METERS}/calls/query", json=span)
    await drop(api)
    if not faults:
        await api.json("POST", f"{METERS}/calls/query", json=span)
        return
    assert await api.faults("POST", f"{METERS}/calls/query", json=span) == faults
    async with api.client.get("/api/v1/meters/calls/query", params=span) as response:
        assert response.status == 400
        (error,) = (await response.json())["extensions"]["validationErrors"]
        assert "not kept any more" in error["message"]


async def test_a_meter_that_is_made_later_does_not_claim_to_have_counted_all(api: Api) -> None:
    await made(api)
    await drop(api)
    await made(api, key="late")
    await made(api, key="dated", events_from=rfc3339(BEFORE_MS + DAY_MS))
    for key, span, since in (
        ("calls", {}, None),
        ("late", {}, AHEAD),
        ("late", {"from": "2026-01-01T00:00:00Z"}, AHEAD),
        ("late", {"to": "2026-01-02T00:00:00Z"}, "2026-01-02T00:00:00Z"),
        ("late", {"from": "2026-01-06T00:00:00Z"}, None),
        ("dated", {}, None),
    ):
        answer = await api.json("POST", f"{METERS}/{key}/query", json=span)
        assert answer.get("complete_from") == since, (key, span)
        async with api.client.get(f"/api/v1/meters/{key}/query", params=span) as response:
            assert response.headers.get("Meterline-Complete-From") == since


async def test_a_changed_meter_answers_from_where_its_events_are_kept(api: Api) -> None:
    await made(api)
    await drop(api)
    changed = {"event_type": "visit"}
    explicit = {**changed, "effective_from": "2026-01-04T00:00:00Z"}
    path = f"{METERS}/calls"
    kept = {"name": "Calls"}
    faults = await api.faults("PUT", path, json={**kept, **explicit})
    assert faults == {"effective_from": "not_kept"}
    await api.json("PUT", path, json={**kept, **changed})
    (waiting, _) = (await api.json("GET", f"{path}/revisions"))["data"]
    assert waiting["effective_from"] == BEFORE, "older windows keep the revision that counted them"


async def test_a_proposed_revision_is_switched_where_it_counted(api: Api) -> None:
    await made(api)
    await drop(api)
    proposed = await api.json(
        "POST", f"{METERS}/calls/revisions", 201, json={"event_type": "visit"}
    )
    path = f"{METERS}/calls/revisions/{proposed['revision']}/switch"
    body = {"effective_from": "2026-01-04T00:00:00Z"}
    assert await api.faults("POST", path, json=body) == {"effective_from": "not_kept"}
    answer = await api.json("POST", path, json={})
    assert answer["effective_from"] == BEFORE


async def test_lists_say_since_when_their_entries_are_kept(api: Api) -> None:
    for path, table in (("events", EVENTS), ("refusals", REJECTS)):
        page = await api.json("GET", f"/api/v3/metering/{path}")
        assert "kept_from" not in page["meta"]
        await drop(api, table)
        page = await api.json("GET", f"/api/v3/metering/{path}")
        assert page["meta"]["kept_from"] == BEFORE
    problem = await api.json("GET", "/api/v3/metering/event-trace?source=s&id=1", 404)
    assert f"stored before {BEFORE} are not kept any more" in problem["detail"]


async def test_the_account_of_hours_that_are_not_kept_says_so(api: Api) -> None:
    path = "/api/v3/metering/accounts?from=2026-01-04T00:00:00Z&to=2026-01-06T00:00:00Z"
    answer = await api.json("GET", path)
    assert not answer.keys() & {"events_kept_from", "refusals_kept_from"}
    await drop(api)
    answer = await api.json("GET", path)
    assert answer["events_kept_from"] == BEFORE
    assert "refusals_kept_from" not in answer
    await drop(api, REJECTS)
    assert (await api.json("GET", path))["refusals_kept_from"] == BEFORE
    later = path.replace("2026-01-04", "2026-01-05")
    assert not (await api.json("GET", later)).keys() & {"events_kept_from", "refusals_kept_from"}


async def test_what_reads_the_events_themselves_is_refused_before(api: Api) -> None:
    await made(api)
    await drop(api)
    span = "from=2026-01-04T00:00:00Z&to=2026-01-06T00:00:00Z"
    faults = await api.faults("GET", f"{METERS}/calls/events?{span}")
    assert faults == {"from": "not_kept"}
    tried = {name: BODY[name] for name in ("aggregation", "event_type")}
    body = {"meter": tried, "from": "2026-01-04T00:00:00Z", "to": "2026-01-06T00:00:00Z"}
    assert await api.faults("POST", "/api/v3/metering/meter-preview", json=body) == {
        "from": "not_kept"
    }


async def test_a_run_by_hand_needs_a_meter_that_counted_its_window(api: Api) -> None:
    await made(api)
    await drop(api)
    late = await made(api, key="late")
    assert late["key"] == "late"
    old = await api.stores.meter("default", "calls")
    new = await api.stores.meter("default", "late")
    day = (BEFORE_MS - DAY_MS, BEFORE_MS)
    await check_counted(api.stores, old, *day)
    await check_counted(api.stores, new, BEFORE_MS, BEFORE_MS + DAY_MS)
    with pytest.raises(Problem, match="meter late was made when events before") as caught:
        await check_counted(api.stores, new, *day)
    assert [fault.field for fault in caught.value.faults] == ["from"]
