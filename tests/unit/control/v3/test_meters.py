from io import BytesIO
from typing import Any

import pytest

from meterline.meter import Aggregation, MeterDraft
from tests.unit.control.conftest import NOW_MS, Api

PATH = "/api/v3/metering/meters"
BODY: dict[str, Any] = {
    "key": "distance",
    "name": "Distance flown",
    "aggregation": "sum",
    "event_type": "flight",
    "value_property": "$.distance",
    "description": "Miles",
    "labels": {"team": "air"},
    "events_from": "2023-01-01T00:00:00+01:00",
    "dimensions": {"origin": "$.origin", "dest": "$.dest"},
}


async def test_a_created_meter_is_shown_as_it_was_sent(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    at = "2023-11-14T22:13:20Z"
    assert made == {
        **BODY,
        "events_from": "2022-12-31T23:00:00Z",
        "id": made["id"],
        "revision": 1,
        "from_settings": False,
        "created_at": at,
        "updated_at": at,
    }
    for name in (made["id"], made["id"].lower(), "distance"):
        assert await api.json("GET", f"{PATH}/{name}") == made
        assert await api.json("GET", f"/api/v3/openmeter/meters/{name}") == made


async def test_a_meter_of_the_settings_file_says_so(api: Api) -> None:
    draft = MeterDraft("calls", "Calls", Aggregation.COUNT, "call")
    await api.stores.catalogue.put_settings_meters("default", [draft], NOW_MS)
    assert (await api.json("GET", f"{PATH}/calls"))["from_settings"] is True
    (listed,) = (await api.json("GET", PATH))["data"]
    assert listed["from_settings"] is True
    for method, more in (("PUT", {"json": {"name": "Other"}}), ("DELETE", {})):
        problem = await api.json(method, f"{PATH}/calls", 409, **more)
        assert "settings file" in problem["detail"]


async def test_a_meter_needs_few_words(api: Api) -> None:
    body = {"key": "flights", "name": "Flights", "aggregation": "count", "event_type": "flight"}
    made = await api.json("POST", "/api/v3/openmeter/meters", 201, json=body)
    assert made["dimensions"] == made["labels"] == {}
    assert {"description", "value_property", "events_from"}.isdisjoint(made)


async def test_all_faults_of_a_body_are_told_with_their_fields(api: Api) -> None:
    body = {
        "key": 5,
        "aggregation": "median",
        "event_type": "x" * 2_000,
        "events_from": "yesterday",
        "labels": {"-bad": "fine", "fine": ""},
        "dimensions": {"a": 1},
        "slug": "no",
    }
    assert await api.faults("POST", PATH, json=body) == {
        "key": "type",
        "name": "required",
        "aggregation": "enum",
        "event_type": "max_length",
        "events_from": "is_date_time",
        "labels.-bad": "matches_regex",
        "labels.fine": "matches_regex",
        "dimensions.a": "type",
        "slug": "unknown_property",
    }


async def test_all_faults_of_a_definition_are_told(api: Api) -> None:
    body = {
        "key": "Not a key",
        "name": "",
        "aggregation": "sum",
        "event_type": "",
        "dimensions": {"subject": "$.s", "1": "$.a", "b": "b"},
        "colour": "red",
    }
    assert await api.faults("POST", PATH, json=body) == {
        "key": "matches_regex",
        "name": "min_length",
        "event_type": "min_length",
        "value_property": "required",
        "dimensions.subject": "reserved_dimension",
        "dimensions.1": "matches_regex",
        "dimensions.b": "matches_regex",
        "colour": "unknown_property",
    }
    assert await api.json("GET", PATH) == {
        "data": [],
        "meta": {"page": {"number": 1, "size": 20, "total": 0}},
    }


@pytest.mark.parametrize(
    ("sent", "faults"),
    [
        ({"aggregation": "count"}, {"value_property": "disagreement"}),
        ({"dimensions": {"a": "$.distance", "b": "$.b"}}, {"dimensions.a": "disagreement"}),
        ({"value_property": "$["}, {"value_property": "json_path"}),
        ({"dimensions": {"a": "$.a["}}, {"dimensions.a": "json_path"}),
        ({"dimensions": {f"d{n}": "$.d" for n in range(51)}}, {"dimensions": "max_items"}),
        ({"dimensions": []}, {"dimensions": "type"}),
        ({"value_property": None}, {"value_property": "type"}),
        ({"description": None, "labels": None}, {"description": "type", "labels": "type"}),
        ({"events_from": None}, {"events_from": "type"}),
    ],
)
async def test_members_have_to_fit_and_null_is_none_of_them(
    api: Api, sent: dict[str, Any], faults: dict[str, str]
) -> None:
    found = await api.faults("POST", PATH, json={**BODY, **sent})
    assert {field: rule for field, rule in found.items() if rule != "required"} == faults


@pytest.mark.parametrize("field", ["key", "name", "event_type", "description", "value_property"])
async def test_a_nul_character_is_refused(api: Api, field: str) -> None:
    assert field in await api.faults("POST", PATH, json={**BODY, field: "a\x00b"})


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"{", "application/json", "bad-request"),
        (b"\xff", "application/json", "bad-request"),
        (b'{"a": NaN}', "application/json", "bad-request"),
        (b"[" * 10_000, "application/json", "bad-request"),
        (b"[]", "application/json", "bad-request"),
        (b"{}", "text/plain", "unsupported-content-type"),
        (b"{}", "", "unsupported-content-type"),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    api: Api, body: bytes, content_type: str, kind: str
) -> None:
    headers = {"Content-Type": content_type}
    problem = await api.json("POST", PATH, 400, data=body, headers=headers)
    assert problem["type"] == f"urn:meterline:problem:{kind}"
    assert problem["detail"]


async def test_a_large_body_is_refused(api: Api) -> None:
    headers = {"Content-Type": "application/json"}
    problem = await api.json(
        "POST", PATH, 413, data=BytesIO(b" " * (1024 * 1024 + 1)), headers=headers
    )
    assert problem["type"] == "urn:meterline:problem:body-too-large"


async def test_a_taken_key_is_a_conflict(api: Api) -> None:
    await api.json("POST", PATH, 201, json=BODY)
    problem = await api.json("POST", PATH, 409, json=BODY)
    assert problem["type"] == "urn:meterline:problem:conflict"
    assert "'distance'" in problem["detail"]


async def test_meters_are_listed_in_pages(api: Api) -> None:
    keys = [f"m{n}" for n in range(5)]
    for key in keys:
        await api.json("POST", PATH, 201, json={**BODY, "key": key})
    seen = []
    for number in (1, 2, 3, 4):
        params = {"page[number]": str(number), "page[size]": "2"}
        page = await api.json("GET", PATH, params=params)
        assert page["meta"]["page"] == {"number": number, "size": 2, "total": 5}
        seen += [meter["key"] for meter in page["data"]]
    assert seen == keys


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0", "minimum"),
        ("-1", "type"),
        ("x", "type"),
        ("101", "maximum"),
        ("1.5", "type"),
        ("", "type"),
        ("٣", "type"),
    ],
)
async def test_a_page_size_out_of_bounds_is_told(api: Api, value: str, rule: str) -> None:
    assert await api.faults("GET", PATH, params={"page[size]": value}) == {"page[size]": rule}


async def test_unknown_and_doubled_parameters_are_told(api: Api) -> None:
    found = await api.faults("GET", f"{PATH}?sort=size&page[size]=1&page[size]=2&colour=red")
    assert found == {
        "sort": "matches_regex",
        "page[size]": "max_items",
        "colour": "unknown_property",
    }


async def test_a_deleted_meter_is_gone(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    await api.json("DELETE", f"{PATH}/distance", 204)
    await api.json("DELETE", f"{PATH}/{made['id']}", 404)
    problem = await api.json("GET", f"{PATH}/{made['id']}", 404)
    assert problem["type"] == "urn:meterline:problem:not-found"
    assert problem["instance"].startswith("urn:request:")


@pytest.mark.parametrize(
    "name", ["nothing", "%00", "a%2Fb", "%ff", "x" * 3_000, "%F0%9F%98%80", "a b"]
)
async def test_what_is_no_name_is_not_found(api: Api, name: str) -> None:
    await api.json("GET", f"{PATH}/{name}", 404)


async def test_a_meter_of_the_settings_file_is_read_only(api: Api) -> None:
    draft = MeterDraft("flights", "Flights", Aggregation.COUNT, "flight")
    await api.stores.catalogue.put_settings_meters("default", [draft], NOW_MS)
    assert (await api.json("GET", f"{PATH}/flights"))["aggregation"] == "count"
    problem = await api.json("DELETE", f"{PATH}/flights", 409)
    assert "settings file" in problem["detail"]


async def test_other_methods_are_refused_in_words(api: Api) -> None:
    problem = await api.json("PATCH", PATH, 405)
    assert problem["type"] == "urn:meterline:problem:method-not-allowed"
