import pytest

from meterline.meter import Aggregation, MeterDraft
from tests.unit.control.conftest import NOW_MS, Api

PATH = "/api/v3/metering/meters"
# key, name, aggregation, by creation
METERS = (
    ("b_1", "Beta", Aggregation.SUM),
    ("a_2", "alpha", Aggregation.MAX),
    ("c_1", "Gamma", Aggregation.COUNT),
)


async def _make(api: Api) -> None:
    for place, (key, name, aggregation) in enumerate(METERS):
        value = None if aggregation is Aggregation.COUNT else "$.v"
        draft = MeterDraft(key, name, aggregation, "e", value)
        await api.stores.catalogue.create_meter("default", draft, NOW_MS + place)
    elsewhere = MeterDraft("z", "Z", Aggregation.COUNT, "e")
    await api.stores.catalogue.create_meter("other", elsewhere, NOW_MS)


async def _keys(api: Api, query: str) -> list[str]:
    page = await api.json("GET", f"{PATH}?{query}")
    assert page["meta"]["page"]["total"] == len(page["data"])
    return [meter["key"] for meter in page["data"]]


@pytest.mark.parametrize(
    ("sort", "keys"),
    [
        ("created_at", ["b_1", "a_2", "c_1"]),
        ("created_at desc", ["c_1", "a_2", "b_1"]),
        ("updated_at asc", ["b_1", "a_2", "c_1"]),
        ("key", ["a_2", "b_1", "c_1"]),
        ("key desc", ["c_1", "b_1", "a_2"]),
        ("name", ["b_1", "c_1", "a_2"]),
        ("aggregation", ["c_1", "a_2", "b_1"]),
    ],
)
async def test_meters_are_sorted_by_a_member(api: Api, sort: str, keys: list[str]) -> None:
    await _make(api)
    assert await _keys(api, f"sort={sort}") == keys


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("filter[key]=a_2", ["a_2"]),
        ("filter[key][eq]=a_2", ["a_2"]),
        ("filter[key][neq]=a_2", ["b_1", "c_1"]),
        ("filter[key][oeq]=a_2, c_1,x", ["a_2", "c_1"]),
        ("filter[name][contains]=ALPHA", ["a_2"]),
        ("filter[name][ocontains]=gam,bet", ["b_1", "c_1"]),
        ("filter[key][gt]=b_1", ["c_1"]),
        ("filter[key][gte]=b_1&filter[key][lte]=b_1", ["b_1"]),
        ("filter[key][lt]=b_1", ["a_2"]),
        ("filter[key][contains]=_1&filter[name]=Gamma", ["c_1"]),
        ("filter[key]=", []),
    ],
)
async def test_meters_are_filtered_by_key_and_name(api: Api, query: str, keys: list[str]) -> None:
    await _make(api)
    assert await _keys(api, query) == keys


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("filter[colour]=red", {"filter[colour]": "unknown_property"}),
        ("filter[key][like]=a", {"filter[key][like]": "unknown_property"}),
        ("filter=a", {"filter": "type"}),
        (f"filter[key][oeq]={',' * 50}", {"filter[key][oeq]": "matches_regex"}),
        (f"filter[key][eq]={'a' * 1_025}", {"filter[key][eq]": "max_length"}),
        ("sort=key up", {"sort": "matches_regex"}),
        ("sort=key&sort=name", {"sort": "max_items"}),
    ],
)
async def test_what_is_no_condition_is_told(api: Api, query: str, faults: dict[str, str]) -> None:
    assert await api.faults("GET", f"{PATH}?{query}") == faults
