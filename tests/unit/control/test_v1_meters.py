from typing import Any

import pytest

from tests.unit.control.conftest import Api

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


async def test_faults_are_told_in_the_words_of_v1(api: Api) -> None:
    problem = await api.json("POST", PATH, 400, json={"slug": "X", "aggregation": "sum", "key": 1})
    errors = problem["extensions"]["validationErrors"]
    assert {error["field"]: error["code"] for error in errors} == {
        "aggregation": "enum",
        "eventType": "required",
        "key": "unknown_property",
    }
    body = {"slug": "X", "aggregation": "SUM", "eventType": "", "groupBy": {"subject": "$.s"}}
    assert await api.faults("POST", PATH, json=body) == {
        "slug": "matches_regex",
        "eventType": "min_length",
        "valueProperty": "required",
        "groupBy.subject": "reserved_dimension",
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
