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
    "dimensions": {"origin": "$.origin", "dest": "$.dest"},
}


async def test_what_is_left_out_stays(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    api.clock.at_ms = NOW_MS + 1_000
    after = await api.json("PUT", f"{PATH}/distance", json={"name": "Miles"})
    assert after == {**made, "name": "Miles", "updated_at": "2023-11-14T22:13:21Z"}
    assert await api.json("GET", f"{PATH}/{made['id']}") == after


async def test_members_are_replaced_or_emptied(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    sent = {
        "description": "",
        "labels": {},
        "dimensions": {"carrier": "$.carrier"},
        "event_type": "trip",
        "value_property": "$.miles",
    }
    after = await api.json("PUT", f"{PATH}/{made['id'].lower()}", json=sent)
    del made["description"], sent["description"]
    pending = after.pop("pending_revision")
    assert after == {**made, "labels": {}}  # what is measured stays until the other is filled in
    measured = {name: sent[name] for name in ("dimensions", "event_type", "value_property")}
    assert pending == {
        **measured,
        "revision": 2,
        "state": "filling",
        "counted": True,
        "created_at": "2023-11-14T22:13:20Z",
    }
    await api.stores.catalogue.switch_filled(2, NOW_MS)
    assert await api.json("GET", f"{PATH}/distance") == {**made, **sent, "revision": 2}


async def test_nothing_to_change_is_no_change(api: Api) -> None:
    made = await api.json("POST", PATH, 201, json=BODY)
    api.clock.at_ms = NOW_MS + 1_000
    members = ("name", "description", "labels", "event_type", "value_property", "dimensions")
    for sent in ({}, {name: BODY[name] for name in members}):
        assert await api.json("PUT", f"{PATH}/distance", json=sent) == made
    assert await api.stores.catalogue.catalogue_version() == 1


async def test_all_faults_of_an_update_are_told(api: Api) -> None:
    await api.json("POST", PATH, 201, json=BODY)
    sent = {
        "name": "",
        "description": None,
        "dimensions": {"subject": "$.s", "a": "a"},
        "value_property": "distance",
        "key": "other",
        "aggregation": "max",
    }
    assert await api.faults("PUT", f"{PATH}/distance", json=sent) == {
        "name": "min_length",
        "description": "type",
        "dimensions.subject": "reserved_dimension",
        "dimensions.a": "matches_regex",
        "value_property": "matches_regex",
        "key": "unknown_property",
        "aggregation": "unknown_property",
    }


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"dimensions": {"a": "$.distance"}}, "dimensions.a"),
        ({"value_property": "$.origin"}, "dimensions.origin"),
    ],
)
async def test_an_update_has_to_fit_what_stays(api: Api, sent: dict[str, Any], field: str) -> None:
    await api.json("POST", PATH, 201, json=BODY)
    assert set(await api.faults("PUT", f"{PATH}/distance", json=sent)) == {field}


async def test_a_count_has_no_value_to_be_given(api: Api) -> None:
    body = {"key": "flights", "name": "Flights", "aggregation": "count", "event_type": "flight"}
    await api.json("POST", PATH, 201, json=body)
    found = await api.faults("PUT", f"{PATH}/flights", json={"value_property": "$.v"})
    assert set(found) == {"value_property"}


async def test_what_is_not_there_is_not_found(api: Api) -> None:
    problem = await api.json("PUT", f"{PATH}/distance", 404, json={"name": "N"})
    assert problem["type"] == "urn:meterline:problem:not-found"
    draft = MeterDraft("distance", "D", Aggregation.COUNT, "flight")
    meter = await api.stores.catalogue.create_meter("other", draft, NOW_MS)
    await api.json("PUT", f"{PATH}/{meter.id}", 404, json={"name": "N"})
    await api.json("DELETE", f"{PATH}/{meter.id}", 404)
    await api.json("GET", f"{PATH}/{meter.id}", 404)


async def test_a_meter_of_the_settings_file_is_read_only(api: Api) -> None:
    draft = MeterDraft("flights", "Flights", Aggregation.COUNT, "flight")
    await api.stores.catalogue.put_settings_meters("default", [draft], NOW_MS)
    problem = await api.json("PUT", f"{PATH}/flights", 409, json={"name": "N"})
    assert "settings file" in problem["detail"]
