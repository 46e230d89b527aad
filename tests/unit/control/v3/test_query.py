import csv
import io
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from meterline.limits import QUERY_TOP_HELD
from meterline.meter.measure import encode_groups
from meterline.number import UNIT
from meterline.usage import Filter, Operator, RejectedRow, Seal, UsageRow
from meterline.window import WindowSize
from tests.unit.control.conftest import Api

METERS = "/api/v3/metering/meters"
PATH = f"{METERS}/distance/query"
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
async def meter(api: Api) -> Any:
    """A meter to ask about."""
    body = {
        "key": "distance",
        "name": "Distance",
        "aggregation": "sum",
        "event_type": "flight",
        "value_property": "$.distance",
        "dimensions": {"origin": "$.origin", "dest": "$.dest"},
    }
    return await api.json("POST", METERS, 201, json=body)


def _row(value: int, subject: str | None = None, **groups: str) -> UsageRow:
    return UsageRow(0, HOUR_MS, subject, tuple(groups.items()), value, count=3, rejected=1)


async def test_an_empty_question_asks_for_one_total(api: Api) -> None:
    api.usage.rows = [_row(7 * UNIT)]
    answer = await api.json("POST", PATH, json={})
    assert answer == {
        "complete_until": None,
        "data": [
            {
                "value": "7",
                "from": "1970-01-01T00:00:00Z",
                "to": "1970-01-01T01:00:00Z",
                "dimensions": {},
                "counted": 3,
                "rejected": 1,
            }
        ],
    }
    (asked,) = api.usage.asked
    assert (asked.from_ms, asked.to_ms, asked.window, asked.group_by) == (None, None, None, ())
    assert asked.zone == ZoneInfo("UTC")


async def test_every_part_of_a_question_reaches_the_store(api: Api, meter: Any) -> None:
    body = {
        "from": "2013-01-01T00:00:00-05:00",
        "to": "2013-02-01T00:00:00.5Z",
        "granularity": "P1D",
        "time_zone": "America/New_York",
        "group_by_dimensions": ["origin", "origin"],
        "filters": {"dimensions": {"dest": {"in": ["IAH", "LAX"]}, "subject": {"eq": "UA"}}},
    }
    path = f"/api/v3/openmeter/meters/{meter['id']}/query"
    answer = await api.json("POST", path, json=body)
    assert (answer["from"], answer["to"]) == ("2013-01-01T05:00:00Z", "2013-02-01T00:00:00.500Z")
    (asked,) = api.usage.asked
    assert asked.meter.id == meter["id"]
    assert (asked.from_ms, asked.to_ms) == (1_357_016_400_000, 1_359_676_800_500)
    assert asked.window is WindowSize.DAY
    assert asked.zone == ZoneInfo("America/New_York")
    assert asked.group_by == ("origin", "subject"), "a filter on the subject groups by it"
    assert asked.filters == (
        ("dest", Filter(Operator.IN, ("IAH", "LAX"))),
        ("subject", Filter(Operator.EQ, ("UA",))),
    )


async def test_top_keeps_the_rows_with_the_most_usage(api: Api) -> None:
    values = {"a": 1, "b": 5, "c": 3, "d": 5, "e": -2}
    api.usage.rows = [_row(value * UNIT, name) for name, value in values.items()]
    body = {"group_by_dimensions": ["subject"], "top": 3}
    answer = await api.json("POST", PATH, json=body)
    shown = [(row["dimensions"]["subject"], row["value"]) for row in answer["data"]]
    assert shown == [("b", "5"), ("d", "5"), ("c", "3")]
    few = await api.json("POST", PATH, json=body | {"top": 10})
    assert [row["value"] for row in few["data"]] == ["5", "5", "3", "1", "-2"]


async def test_top_of_very_many_rows_is_that_of_all(api: Api) -> None:
    count = 3 * QUERY_TOP_HELD
    api.usage.rows = [_row(number * 7_919 % count * UNIT, f"s{number}") for number in range(count)]
    body = {"group_by_dimensions": ["subject"], "top": 4}
    answer = await api.json("POST", PATH, json=body)
    assert [int(row["value"]) for row in answer["data"]] == [count - 1 - at for at in range(4)]


@pytest.mark.parametrize("top", [0, 1_001, "3", None, 1.5])
async def test_top_is_a_bounded_number(api: Api, top: object) -> None:
    problem = await api.json("POST", PATH, 400, json={"top": top})
    assert problem["invalid_parameters"][0]["field"] == "top"


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"eq": ""}, Filter(Operator.EQ, ("",))),
        ({"neq": "a"}, Filter(Operator.NEQ, ("a",))),
        ({"nin": ["a"]}, Filter(Operator.NIN, ("a",))),
        ({"contains": "a"}, Filter(Operator.CONTAINS, ("a",))),
        ({"ncontains": "a"}, Filter(Operator.NCONTAINS, ("a",))),
        ({"exists": True}, Filter(Operator.EXISTS, ("true",))),
        ({"exists": False}, Filter(Operator.EXISTS, ("false",))),
        (
            {"or": [{"and": [{"neq": "a"}, {"contains": "b"}]}, {"eq": "c"}]},
            Filter(
                Operator.OR,
                parts=(
                    Filter(
                        Operator.AND,
                        parts=(Filter(Operator.NEQ, ("a",)), Filter(Operator.CONTAINS, ("b",))),
                    ),
                    Filter(Operator.EQ, ("c",)),
                ),
            ),
        ),
    ],
)
async def test_every_operator_reaches_the_store(api: Api, sent: Any, meant: Filter) -> None:
    await api.json("POST", PATH, json={"filters": {"dimensions": {"origin": sent}}})
    assert api.usage.asked[0].filters == (("origin", meant),)


@pytest.mark.parametrize(
    ("sent", "field", "rule"),
    [
        ({}, "", "one_of"),
        ({"eq": "a", "neq": "b"}, "", "one_of"),
        ({"eq": 5}, ".eq", "type"),
        ({"eq": None}, ".eq", "type"),
        ({"exists": "true"}, ".exists", "type"),
        ({"in": []}, ".in", "min_items"),
        ({"in": ["a"] * 101}, ".in", "max_items"),
        ({"like": "a"}, ".like", "unknown_property"),
        ({"and": []}, ".and", "min_items"),
        ({"or": [{"eq": "a"}] * 11}, ".or", "max_items"),
        ({"or": [{"eq": "a"}, {"eq": 1}]}, ".or.1.eq", "type"),
        ({"or": [{"and": [{"or": [{"eq": "a"}]}]}]}, "", "max_depth"),
    ],
)
async def test_a_wrong_filter_is_told(api: Api, sent: Any, field: str, rule: str) -> None:
    found = await api.faults("POST", PATH, json={"filters": {"dimensions": {"origin": sent}}})
    assert found[f"filters.dimensions.origin{field}"] == rule
    assert api.usage.asked == []


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"granularity": "PT5M"}, {"granularity": "enum"}),
        ({"time_zone": "Mars/Base"}, {"time_zone": "is_time_zone"}),
        ({"time_zone": "../etc/passwd"}, {"time_zone": "is_time_zone"}),
        ({"from": "2013-01-01"}, {"from": "is_date_time"}),
        ({"from": "0001-01-01T00:00:00+14:00"}, {"from": "is_date_time"}),
        ({"to": 5}, {"to": "type"}),
        ({"window": "DAY"}, {"window": "unknown_property"}),
        ({"from": "2013-01-01T00:00:00Z", "to": "2013-01-01T00:00:00Z"}, {"from": "maximum"}),
        ({"group_by_dimensions": ["origin", "carrier"]}, {"group_by_dimensions": "enum"}),
        ({"group_by_dimensions": ["origin"] * 101}, {"group_by_dimensions": "max_items"}),
        (
            {"filters": {"dimensions": {"customer_id": {"eq": "a"}}}},
            {"filters.dimensions.customer_id": "enum"},
        ),
        (
            {"filters": {"dimensions": {f"d{n}": {"eq": "a"} for n in range(11)}}},
            {"filters.dimensions": "max_items"},
        ),
    ],
)
async def test_a_wrong_question_is_told(api: Api, body: Any, faults: dict[str, str]) -> None:
    assert await api.faults("POST", PATH, json=body) == faults
    assert api.usage.asked == []


async def test_numbers_are_exact_and_the_order_is_the_stores(api: Api) -> None:
    values = [1, -UNIT - 1, (10**58) * UNIT + 5, 12_300_000_000_000_000_000]
    api.usage.rows = [_row(v, f"s{n}", origin="EWR") for n, v in enumerate(values)]
    body = {"group_by_dimensions": ["subject", "origin"]}
    data = (await api.json("POST", PATH, json=body))["data"]
    assert [row["value"] for row in data] == [
        "0.000000000000000001",
        "-1.000000000000000001",
        "1" + "0" * 58 + ".000000000000000005",
        "12.3",
    ]
    assert [row["dimensions"] for row in data] == [
        {"origin": "EWR", "subject": f"s{n}"} for n in range(4)
    ]


async def _csv(api: Api, body: Any, accept: str = "text/csv") -> tuple[Any, list[list[str]]]:
    headers = {"Accept": accept}
    async with api.client.post(PATH, json=body, headers=headers) as response:
        assert response.status == 200
        text = await response.text()
        assert response.content_type == "text/csv"
        return response.headers, list(csv.reader(io.StringIO(text, newline="")))


async def test_csv_has_a_column_for_everything_grouped_by(api: Api) -> None:
    awkward = 'a "quoted", name\nof two lines'
    api.usage.rows = [_row(UNIT // 2, awkward, dest="IAH", origin=""), _row(UNIT, "b", dest="ü")]
    body = {"group_by_dimensions": ["dest", "subject", "origin"]}
    headers, lines = await _csv(api, body)
    assert headers["Content-Disposition"] == 'attachment; filename="distance.csv"'
    start, end = "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"
    assert lines == [
        ["from", "to", "subject", "dest", "origin", "value"],
        [start, end, awkward, "IAH", "", "0.5"],
        [start, end, "b", "ü", "1"],
    ]


async def test_csv_cells_are_what_was_sent_also_where_they_look_like_formulas(api: Api) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "'quoted"]
    api.usage.rows = [_row(UNIT, text, dest=text, origin="") for text in texts]
    _, lines = await _csv(api, {"group_by_dimensions": ["subject", "dest"]})
    assert [line[2:4] for line in lines[1:]] == [[text, text] for text in texts]


async def test_csv_without_groups_and_without_rows(api: Api) -> None:
    assert (await _csv(api, {}))[1] == [["from", "to", "value"]]


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("text/csv", "text/csv"),
        ("text/csv, application/json;q=0.5", "text/csv"),
        ("text/csv, */*", "text/csv"),
        ("TEXT/*", "text/csv"),
        ("text/html, */*;q=0.1", "application/json"),
        ("text/csv;q=0.5, application/json", "application/json"),
        ("application/json", "application/json"),
        ("text/csv;q=0, */*", "application/json"),
        ("*/*", "application/json"),
    ],
)
async def test_the_form_is_the_one_accepted(api: Api, accept: str, media: str) -> None:
    async with api.client.post(PATH, json={}, headers={"Accept": accept}) as response:
        assert (response.status, response.content_type) == (200, media)


async def test_no_acceptable_form_is_told(api: Api) -> None:
    problem = await api.json("POST", PATH, 406, json={}, headers={"Accept": "image/png"})
    assert problem["type"] == "urn:meterline:problem:not-acceptable"


@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
@pytest.mark.parametrize("count", [0, 1, 1_999, 2_000, 2_001, 4_000])
async def test_large_answers_are_whole(api: Api, accept: str, count: int) -> None:
    api.usage.rows = [_row(n * UNIT) for n in range(count)]
    async with api.client.post(PATH, json={}, headers={"Accept": accept}) as response:
        assert len(response.headers["X-Request-Id"]) == 26
        if accept == "text/csv":
            lines = list(csv.reader(io.StringIO(await response.text(), newline="")))
            values = [line[-1] for line in lines[1:]]
        else:
            values = [row["value"] for row in (await response.json())["data"]]
    assert values == [str(n) for n in range(count)]


async def test_completeness_is_told_in_both_forms(api: Api) -> None:
    log, progress = api.stores.log, api.stores.progress
    for partition in (0, 1):
        await progress.complete(log.number, 1, {partition: 1_500})
    assert (await api.json("POST", PATH, json={}))["complete_until"] == "1970-01-01T00:00:01.500Z"
    assert (await _csv(api, {}))[0]["Meterline-Complete-Until"] == "1970-01-01T00:00:01.500Z"
    await progress.seal(Seal(log.number, 0, 0, 1, events=1, catalogue=0, append_ms=1))
    assert (await api.json("POST", PATH, json={}))["complete_until"] is None
    assert "Meterline-Complete-Until" not in (await _csv(api, {}))[0]


async def test_a_meter_that_is_not_there_is_not_found(api: Api) -> None:
    await api.json("POST", f"{METERS}/nothing/query", 404, json={})


async def test_parameters_are_refused(api: Api) -> None:
    assert await api.faults("POST", f"{PATH}?from=x", json={}) == {"from": "unknown_property"}


def _rejected(revision: int, offset: int, reason: str = "null", value: str = "null") -> RejectedRow:
    groups = encode_groups(["IAH", "EWR"])
    return RejectedRow(revision, 1, 0, offset, 2, 0, "UA", groups, 60, reason, value)


async def test_rejected_values_are_listed_in_pages(api: Api) -> None:
    api.usage.rejected_rows = [_rejected(1, n) for n in range(5)] + [_rejected(9, 7)]
    path = f"{METERS}/distance/rejected"
    first = await api.json("GET", path, params={"page[size]": "2"})
    assert first["data"][0] == {
        "position": "1.0.0.2",
        "subject": "UA",
        "dimensions": {"dest": "IAH", "origin": "EWR"},
        "from": "1970-01-01T01:00:00Z",
        "to": "1970-01-01T01:01:00Z",
        "reason": "null",
        "value": "null",
        "state": "open",
    }
    assert first["meta"]["page"] == {
        "size": 2,
        "first": "1.0.0.2",
        "last": "1.0.1.2",
        "next": "1.0.1.2",
        "previous": None,
    }
    seen, page = list(first["data"]), first
    while (after := page["meta"]["page"]["next"]) is not None:
        page = await api.json("GET", path, params={"page[size]": "2", "page[after]": after})
        seen += page["data"]
    assert [row["position"] for row in seen] == [f"1.0.{n}.2" for n in range(5)]


async def test_nothing_rejected_is_an_empty_page(api: Api) -> None:
    page = await api.json("GET", f"{METERS}/distance/rejected")
    assert page == {"data": [], "meta": {"page": {"size": 20, "next": None, "previous": None}}}


@pytest.mark.parametrize("cursor", ["", "x", "1.2.3", "1.2.3.4.5", "1.-2.3.4", "1.2.3.4'"])
async def test_a_forged_cursor_is_told(api: Api, cursor: str) -> None:
    params = {"page[after]": cursor}
    found = await api.faults("GET", f"{METERS}/distance/rejected", params=params)
    assert found == {"page[after]": "matches_regex"}
