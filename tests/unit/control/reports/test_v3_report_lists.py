import pytest

from tests.unit.control.reports.conftest import V3, WINDOW, ReportsApi


@pytest.mark.parametrize(
    ("params", "slugs"),
    [
        ({}, ["one", "two", "three"]),
        ({"filter[slug][contains]": "T"}, ["two", "three"]),
        ({"filter[state]": "paused"}, ["two"]),
        ({"filter[state]": "active,paused", "page[size]": "2"}, ["one", "two"]),
        ({"filter[meter]": "none"}, []),
        ({"filter[meter]": "tokens"}, ["one", "two", "three"]),
    ],
)
async def test_lists_take_filters(
    served: ReportsApi, params: dict[str, str], slugs: list[str]
) -> None:
    meter = await served.api.json("GET", f"{V3}/meters/{served.meter_id}")
    for slug in ("one", "two", "three"):
        await served.made_v3(slug=slug)
    await served.api.json("POST", f"{V3}/reports/two/pause")
    if params.get("filter[meter]") == "tokens":
        params = {"filter[meter]": meter["key"]}
    page = await served.api.json("GET", f"{V3}/reports", params=params)
    assert [one["slug"] for one in page["data"]] == slugs
    assert (page["meta"]["page"]["next"] is None) == ("page[size]" not in params)


async def test_runs_take_filters(served: ReportsApi) -> None:
    await served.made_v3(slug="one")
    runs = f"{V3}/reports/one/runs"
    asked = await served.api.json("POST", runs, 201, json=WINDOW)
    for params, found in (
        ({"filter[state]": "waiting,delivering", "filter[trigger]": "manual"}, [asked["id"]]),
        ({"filter[from][gte]": WINDOW["from"], "filter[to][lte]": WINDOW["to"]}, [asked["id"]]),
        ({"filter[state]": "failed"}, []),
        ({"filter[from][gte]": WINDOW["to"]}, []),
    ):
        page = await served.api.json("GET", runs, params=params)
        assert [one["id"] for one in page["data"]] == found
    for wrong in ({"filter[state]": "well"}, {"filter[trigger]": ""}, {"filter[other]": "x"}):
        await served.api.json("GET", runs, 400, params=wrong)
        await served.api.json("GET", f"{V3}/reports", 400, params=wrong | {"filter[state]": "well"})
