from typing import Any

import pytest

from tests.unit.control.conftest import NOW_MS, Api

PATH = "/api/v1/meters"
BODY: dict[str, Any] = {
    "slug": "distance",
    "aggregation": "SUM",
    "eventType": "flight",
    "valueProperty": "$.distance",
    "groupBy": {"origin": "$.origin"},
    "windowSize": "HOUR",
    "description": "Miles",
}


async def test_a_created_meter_is_shown_in_the_words_of_the_contract(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    at = "2023-11-14T22:13:20Z"
    assert made == {
        **BODY,
        "id": made["id"],
        "name": "distance",
        "windowSize": "MINUTE",
        "metadata": {},
        "createdAt": at,
        "updatedAt": at,
    }
    assert await api.json("GET", PATH) == [made]
    for name in (made["id"], made["id"].lower(), "distance"):
        assert await api.json("GET", f"{PATH}/{name}") == made


async def test_both_versions_show_the_same_meters(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json={**BODY, "aggregation": "UNIQUE_COUNT"})
    shown = await api.json("GET", f"/api/v3/metering/meters/{made['id']}")
    assert (shown["key"], shown["aggregation"]) == ("distance", "unique_count")
    assert shown["dimensions"] == made["groupBy"]


async def test_a_count_may_have_an_empty_value_property(api: Api) -> None:
    body = {"slug": "n", "aggregation": "COUNT", "eventType": "flight", "valueProperty": ""}
    made = await api.json("POST", PATH, 201, json=body)
    assert (made["valueProperty"], made["description"], made["groupBy"]) == ("", "", {})


async def test_faults_are_told_in_the_words_of_v1_all_at_once(api: Api) -> None:
    body = {"slug": "X", "aggregation": "sum", "key": 1, "groupBy": {"subject": "$.s"}}
    problem = await api.json("POST", PATH, 400, json=body)
    errors = problem["extensions"]["validationErrors"]
    assert {error["field"]: error["code"] for error in errors} == {
        "slug": "matches_regex",
        "aggregation": "enum",
        "eventType": "required",
        "valueProperty": "required",
        "groupBy.subject": "reserved_dimension",
        "key": "unknown_property",
    }
    body = {"slug": "X", "aggregation": "COUNT", "eventType": "", "valueProperty": "$.v"}
    body["groupBy"] = {"a": "$.v"}
    assert await api.faults("POST", PATH, json=body) == {
        "slug": "matches_regex",
        "eventType": "min_length",
        "valueProperty": "disagreement",
        "groupBy.a": "disagreement",
    }


async def test_a_deleted_meter_is_gone(api: Api) -> None:
    await api.json("POST", PATH, 201, json=BODY)
    await api.json("DELETE", f"{PATH}/distance", 204)
    await api.json("DELETE", f"{PATH}/distance", 404)
    assert await api.json("GET", PATH) == []


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_unknown_parameters_are_ignored_in_v1(api: Api, method: str) -> None:
    await api.json("POST", PATH, 201, json=BODY)
    await api.json(method, f"{PATH}/distance?colour=red", 200 if method == "GET" else 204)


async def test_an_update_replaces_what_it_gives(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    assert await api.json("PUT", f"{PATH}/distance", json={}) == made
    sent = {"name": "Miles", "metadata": {"team": "air"}, "groupBy": {"dest": "$.dest"}}
    after = await api.json("PUT", f"{PATH}/{made['id'].lower()}", json=sent)
    pending = after.pop("pendingRevision")
    assert after == {**made, **sent, "groupBy": made["groupBy"]}  # until the other is filled in
    assert pending == {
        "eventType": made["eventType"],
        "valueProperty": made["valueProperty"],
        "groupBy": {"dest": "$.dest"},
    }
    await api.stores.catalogue.switch_filled(2, NOW_MS)
    after = await api.json("GET", f"{PATH}/distance")
    assert after == {**made, **sent}
    sent = {"description": "", "groupBy": {}, "metadata": {}}
    after = await api.json("PUT", f"{PATH}/distance", json=sent)
    assert (after["description"], after["pendingRevision"]["groupBy"]) == ("", {})
    nothing = dict.fromkeys(("name", "description", "groupBy", "metadata", "annotations"))
    assert (await api.json("PUT", f"{PATH}/distance", json=nothing))["name"] == "Miles"
    ignored = {"annotations": {"a": 1}}
    assert (await api.json("PUT", f"{PATH}/distance", json=ignored))["name"] == "Miles"


async def test_faults_of_an_update_are_told_in_the_words_of_v1(api: Api) -> None:
    await api.json("POST", PATH, 201, json=BODY)
    sent = {"slug": "other", "name": "", "groupBy": {"1": "$.a"}}
    assert await api.faults("PUT", f"{PATH}/distance", json=sent) == {
        "slug": "unknown_property",
        "name": "min_length",
        "groupBy.1": "matches_regex",
    }
    sent = {"groupBy": {"a": "$.distance"}}
    assert set(await api.faults("PUT", f"{PATH}/distance", json=sent)) == {"groupBy.a"}
    await api.json("PUT", f"{PATH}/nothing", 404, json=sent)


async def test_meters_are_listed_in_an_order_and_pages(api: Api) -> None:
    made = [
        await api.json("POST", PATH, 201, json={**BODY, "slug": slug}) for slug in ("b", "c", "a")
    ]
    assert [meter["slug"] for meter in await api.json("GET", PATH)] == ["b", "c", "a"]
    page = await api.json("GET", f"{PATH}?orderBy=key&order=DESC&page=2&pageSize=2")
    assert page == [made[2]]
    assert await api.faults("GET", f"{PATH}?orderBy=size&order=up&page=0&pageSize=1001") == {
        "orderBy": "enum",
        "order": "enum",
        "page": "minimum",
        "pageSize": "maximum",
    }


async def test_deleted_meters_are_listed_where_asked_for(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    await api.json("DELETE", f"{PATH}/distance", 204)
    listed = await api.json("GET", f"{PATH}?includeDeleted=true")
    assert listed == [{**made, "deletedAt": "2023-11-14T22:13:20Z"}]
    assert await api.json("GET", f"{PATH}?includeDeleted=false") == []
