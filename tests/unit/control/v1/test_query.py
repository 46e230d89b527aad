from typing import Any

import pytest

from meterline.number import UNIT
from meterline.usage import Filter, Operator, UsageRow
from meterline.window import WindowSize
from tests.unit.control.conftest import Api

METERS = "/api/v1/meters"
PATH = f"{METERS}/distance/query"
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
async def meter(api: Api) -> Any:
    """A meter to ask about."""
    body = {
        "slug": "distance",
        "aggregation": "SUM",
        "eventType": "flight",
        "valueProperty": "$.distance",
        "groupBy": {"origin": "$.origin", "dest": "$.dest"},
    }
    return await api.json("POST", METERS, 201, json=body)


def _row(value: int, subject: str | None = None, **groups: str) -> UsageRow:
    return UsageRow(0, HOUR_MS, subject, tuple(groups.items()), value, count=3, rejected=1)


async def test_values_are_numbers_with_all_their_digits(api: Api) -> None:
    api.usage.rows = [
        _row(10**58 * UNIT + 5, origin="EWR"),
        _row(1, origin="JFK"),
        _row(-UNIT, origin=""),
    ]
    async with api.client.get(f"{PATH}?groupBy=origin") as response:
        text = await response.text()
    start = '"windowStart":"1970-01-01T00:00:00Z","windowEnd":"1970-01-01T01:00:00Z","subject":null'
    assert text == (
        '{"data":['
        f'{{"value":1{"0" * 58}.000000000000000005,{start},"groupBy":{{"origin":"EWR"}}}},'
        f'{{"value":0.000000000000000001,{start},"groupBy":{{"origin":"JFK"}}}},'
        f'{{"value":-1,{start},"groupBy":{{"origin":""}}}}]}}'
    )


async def test_every_parameter_reaches_the_store(api: Api, meter: Any) -> None:
    params = [
        ("from", "2013-01-01T00:00:00Z"),
        ("to", "2013-02-01T00:00:00Z"),
        ("windowSize", "DAY"),
        ("windowTimeZone", "America/New_York"),
        ("subject", "UA"),
        ("subject", "AA"),
        ("groupBy", "origin"),
        ("groupBy", "dest"),
        ("filterGroupBy[dest]", "IAH"),
        ("filterGroupBy[dest]", "LAX"),
        ("clientId", "abc"),
        ("colour", "red"),
    ]
    api.usage.rows = [_row(UNIT, "UA", origin="EWR", dest="IAH")]
    answer = await api.json("GET", f"{METERS}/{meter['id']}/query", params=params)
    assert (answer["from"], answer["to"]) == ("2013-01-01T00:00:00Z", "2013-02-01T00:00:00Z")
    assert answer["windowSize"] == "DAY"
    assert answer["data"][0]["subject"] == "UA"
    assert answer["data"][0]["groupBy"] == {"origin": "EWR", "dest": "IAH"}
    (asked,) = api.usage.asked
    assert asked.window is WindowSize.DAY
    assert asked.zone.key == "America/New_York"
    assert asked.group_by == ("origin", "dest", "subject")
    assert asked.filters == (
        ("dest", Filter(Operator.IN, ("IAH", "LAX"))),
        ("subject", Filter(Operator.IN, ("UA", "AA"))),
    )


async def test_a_body_asks_the_same(api: Api) -> None:
    body = {
        "clientId": "abc",
        "from": "2013-01-01T00:00:00Z",
        "to": "2013-02-01T00:00:00Z",
        "windowSize": "HOUR",
        "windowTimeZone": "Europe/Berlin",
        "subject": ["UA"],
        "groupBy": ["origin"],
        "filterGroupBy": {"dest": ["IAH"]},
    }
    params = [
        *((name, body[name]) for name in ("from", "to", "windowSize", "windowTimeZone")),
        ("subject", "UA"),
        ("groupBy", "origin"),
        ("filterGroupBy[dest]", "IAH"),
    ]
    by_body = await api.json("POST", PATH, json=body)
    by_url = await api.json("GET", PATH, params=params)
    assert by_body == by_url
    assert api.usage.asked[0] == api.usage.asked[1]


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("windowSize=day", {"windowSize": "enum"}),
        ("windowSize=SECOND", {"windowSize": "enum"}),
        ("from=today&to=tomorrow", {"from": "is_date_time", "to": "is_date_time"}),
        ("windowTimeZone=Nowhere", {"windowTimeZone": "is_time_zone"}),
        ("from=2013-01-02T00:00:00Z&to=2013-01-01T00:00:00Z", {"from": "maximum"}),
        ("groupBy=carrier", {"groupBy": "enum"}),
        ("filterGroupBy[carrier]=UA", {"filterGroupBy.carrier": "enum"}),
        ("filterCustomerId=a", {"filterCustomerId": "unknown_property"}),
        ("advancedMeterGroupByFilters={}", {"advancedMeterGroupByFilters": "unknown_property"}),
        ("&".join(["groupBy=origin"] * 101), {"groupBy": "max_items"}),
    ],
)
async def test_a_wrong_question_is_told(api: Api, query: str, faults: dict[str, str]) -> None:
    assert await api.faults("GET", f"{PATH}?{query}") == faults
    assert api.usage.asked == []


async def test_a_wrong_body_is_told(api: Api) -> None:
    body = {"windowSize": "day", "filterCustomerId": ["a"], "subject": ["a"] * 1_001}
    assert await api.faults("POST", PATH, json=body) == {
        "windowSize": "enum",
        "filterCustomerId": "unknown_property",
        "subject": "max_items",
    }


async def test_null_in_a_body_is_as_absent(api: Api, meter: Any) -> None:
    names = ("clientId", "from", "to", "windowSize", "windowTimeZone", "subject", "groupBy")
    nothing = dict.fromkeys((*names, "filterGroupBy"))
    assert meter
    assert await api.json("POST", PATH, json=nothing) == await api.json("POST", PATH, json={})


async def test_csv_has_the_columns_of_v1(api: Api) -> None:
    api.usage.rows = [_row(UNIT, None, origin="EWR")]
    headers = {"Accept": "text/csv"}
    async with api.client.get(f"{PATH}?groupBy=origin", headers=headers) as response:
        assert await response.text() == (
            "window_start,window_end,subject,origin,value\n"
            "1970-01-01T00:00:00Z,1970-01-01T01:00:00Z,,EWR,1.000000\n"
        ), "there is always a column of the subject"
    api.usage.rows = [_row(UNIT, "UA", origin="EWR")]
    async with api.client.get(f"{PATH}?groupBy=origin&subject=UA", headers=headers) as response:
        assert await response.text() == (
            "window_start,window_end,subject,origin,value\n"
            "1970-01-01T00:00:00Z,1970-01-01T01:00:00Z,UA,EWR,1.000000\n"
        )


async def test_completeness_is_told_in_a_header(api: Api) -> None:
    for partition in (0, 1):
        await api.stores.progress.complete(api.stores.log.number, 1, {partition: 60_000})
    async with api.client.get(PATH) as response:
        assert response.headers["Meterline-Complete-Until"] == "1970-01-01T00:01:00Z"
        assert await response.json() == {"data": []}
