"""Lists of events in v1 and v2."""

from typing import Any

import msgspec
import pytest

from meterline.event import Column, Condition, Op, Order, Verdict, decode_event
from meterline.limits import EVENTS_LIST_DAYS_MAX
from meterline.window import DAY_MS, HOUR_MS, rfc3339
from tests.unit.control.conftest import NOW_MS, Api
from tests.unit.control.v3.test_events import listed

V1 = "/api/v1/events"
V2 = "/api/v2/events"


async def test_v1_shows_a_bare_array_the_latest_first(api: Api) -> None:
    changed = listed(3, Verdict.CONFLICT, 1 << 10, ("id", "came before"))
    api.usage.events = [listed(1), listed(2), changed]
    latest, first = await api.json("GET", V1)
    assert latest["event"]["id"] == "e2"
    assert first == {
        "event": {
            "specversion": "1.0",
            "id": "e1",
            "source": "s",
            "type": "flight",
            "subject": "UA",
            "time": "2023-11-14T10:00:30Z",
            "data": {"distance": 12.5, "origin": "EWR"},
            "traceparent": "00-ab",
        },
        "validationError": "no meter found for event type: flight",
        "ingestedAt": "2023-11-14T10:01:01.250Z",
        "storedAt": "2023-11-14T10:01:01.262Z",
    }


async def test_an_event_without_a_time_has_that_of_its_arrival(api: Api) -> None:
    events = [listed(1), listed(2, time=None), listed(3, time="2023-11-14 10:00:30Z")]
    bare = msgspec.json.decode(events[0].text)
    del bare["time"]
    text = msgspec.json.encode(bare)
    arrived = decode_event(text).time_ms
    events[0] = events[0]._replace(text=text, time_ms=arrived)
    api.usage.events = events
    for shown in (await api.json("GET", V1), (await api.json("GET", V2))["items"]):
        assert {it["event"]["id"]: it["event"]["time"] for it in shown} == {
            "e1": "2023-11-14T10:01:01.250Z",
            "e2": "2023-11-14T10:01:02.250Z",
            "e3": "2023-11-14T10:00:30Z",
        }


async def test_v1_asks_for_the_last_three_days_by_default(api: Api) -> None:
    assert await api.json("GET", V1) == []
    (asked,) = api.usage.event_queries
    from_ms = NOW_MS - 72 * HOUR_MS
    assert asked.conditions == ((Column.TIME, Condition(Op.GTE, (from_ms,))),)
    assert (asked.limit, asked.order) == (100, Order())
    assert asked.verdicts == {Verdict.NEW}
    assert not asked.unowned


async def test_v1_conditions_reach_the_store(api: Api) -> None:
    params = {
        "clientId": "abc",
        "from": "2023-11-01T00:00:00Z",
        "to": "2023-11-02T00:00:00Z",
        "ingestedAtFrom": "2023-11-03T00:00:00Z",
        "ingestedAtTo": "2023-11-04T00:00:00Z",
        "id": "a",
        "subject": "b%",
        "limit": "7",
        "colour": "red",
    }
    await api.json("GET", V1, params=params)
    (asked,) = api.usage.event_queries
    begin_ms = 1_698_796_800_000
    assert asked.conditions == (
        (Column.TIME, Condition(Op.GTE, (begin_ms,))),
        (Column.TIME, Condition(Op.LTE, (begin_ms + DAY_MS,))),
        (Column.INGESTED_AT, Condition(Op.GTE, (begin_ms + 2 * DAY_MS,))),
        (Column.INGESTED_AT, Condition(Op.LTE, (begin_ms + 3 * DAY_MS,))),
        (Column.ID, Condition(Op.CONTAINS, ("a",))),
        (Column.SUBJECT, Condition(Op.CONTAINS, ("b%",))),
    )
    assert asked.limit == 7


OLD = rfc3339(NOW_MS - EVENTS_LIST_DAYS_MAX * DAY_MS - 1)


@pytest.mark.parametrize(
    ("params", "faults"),
    [
        ({"limit": "0"}, {"limit": "minimum"}),
        ({"limit": "101"}, {"limit": "maximum"}),
        ({"limit": "many"}, {"limit": "type"}),
        ({"from": OLD, "ingestedAtFrom": OLD}, {"from": "minimum", "ingestedAtFrom": "minimum"}),
        ({"from": "2023-11-14T00:00:00Z", "to": "2023-11-13T00:00:00Z"}, {"to": "minimum"}),
        ({"to": "2023-11-01T00:00:00Z"}, {"to": "minimum"}),
        (
            {"ingestedAtFrom": "2023-11-14T00:00:00Z", "ingestedAtTo": "2023-11-13T00:00:00Z"},
            {"ingestedAtTo": "minimum"},
        ),
        ({"from": "yesterday"}, {"from": "is_date_time"}),
        ({"customerId": "a"}, {"customerId": "unknown_property"}),
        ({"clientId": "a" * 37, "id": ""}, {"clientId": "max_length", "id": "min_length"}),
    ],
)
async def test_a_wrong_question_in_v1_is_told(
    api: Api, params: dict[str, str], faults: dict[str, str]
) -> None:
    assert await api.faults("GET", V1, params=params) == faults
    assert api.usage.event_queries == []


async def v2(api: Api, expected: int = 200, **filters: Any) -> Any:
    """The answer of v2 to a filter."""
    text = msgspec.json.encode(filters).decode()
    return await api.json("GET", V2, expected, params={"filter": text})


async def test_v2_pages_follow_one_another(api: Api) -> None:
    api.usage.events = [listed(number) for number in range(5)]
    found, params = [], {"limit": "2"}
    for _ in range(3):
        page = await api.json("GET", V2, params=params)
        found += [item["event"]["id"] for item in page["items"]]
        if "nextCursor" in page:
            params["cursor"] = page["nextCursor"]
    assert found == ["e4", "e3", "e2", "e1", "e0"]
    assert "nextCursor" not in await api.json("GET", V2, params=params)
    assert (await api.json("GET", V2))["items"] == (
        await api.json("GET", V1, params={"from": "2023-11-14T00:00:00Z"})
    )


async def test_v2_filters_reach_the_store(api: Api) -> None:
    await v2(
        api,
        id={"$eq": "a", "$ne": None},
        source={"$in": ["a", "b"]},
        subject={"$or": [{"$like": "a%"}, {"$and": [{"$gt": "b"}, {"$nilike": "_"}]}]},
        type={"$nin": ["x"], "$ilike": "Y"},
        time={"$gte": "2023-11-01T00:00:00Z", "$lt": "2023-11-02T00:00:00Z"},
        ingestedAt={"$and": [{"$gt": "2023-11-01T00:00:00Z"}]},
    )
    (asked,) = api.usage.event_queries
    begin_ms = 1_698_796_800_000

    def both(*parts: Condition) -> Condition:
        return Condition(Op.AND, parts=parts)

    deep = (both(Condition(Op.GT, ("b",))), both(Condition(Op.NILIKE, ("_",))))
    either = (both(Condition(Op.LIKE, ("a%",))), both(both(*deep)))
    later = both(Condition(Op.GT, (begin_ms,)))
    assert asked.conditions == (
        (Column.ID, both(Condition(Op.EQ, ("a",)))),
        (Column.SOURCE, both(Condition(Op.IN, ("a", "b")))),
        (Column.SUBJECT, both(Condition(Op.OR, parts=either))),
        (Column.TYPE, both(Condition(Op.NIN, ("x",)), Condition(Op.ILIKE, ("Y",)))),
        (
            Column.TIME,
            both(Condition(Op.GTE, (begin_ms,)), Condition(Op.LT, (begin_ms + DAY_MS,))),
        ),
        (Column.INGESTED_AT, both(both(later))),
    )
    assert asked.limit == 101
    assert asked.verdicts == {Verdict.NEW}


@pytest.mark.parametrize(
    ("filters", "faults"),
    [
        ({"colour": {"$eq": "a"}}, {"filter[colour]": "unknown_property"}),
        ({"id": {"$contains": "a"}}, {"filter[id][$contains]": "unknown_property"}),
        ({"id": "a"}, {"filter[id]": "type"}),
        ({"id": {"$in": []}}, {"filter[id][$in]": "min_items"}),
        ({"id": {"$in": ["a"] * 101}}, {"filter[id][$in]": "max_items"}),
        ({"id": {"$eq": 1}}, {"filter[id][$eq]": "type"}),
        ({"time": {"$gt": "now"}}, {"filter[time][$gt]": "is_date_time"}),
        ({"time": {"$eq": "2023-11-01T00:00:00Z"}}, {"filter[time][$eq]": "unknown_property"}),
        ({"customerId": {"$in": ["a"]}}, {"filter[customerId]": "unknown_property"}),
        (
            {"id": {"$or": [{"$or": [{"$or": [{"$eq": "a"}]}]}]}, "type": {"$eq": 1}},
            {"filter[id]": "max_depth", "filter[type][$eq]": "type"},
        ),
    ],
)
async def test_a_wrong_filter_in_v2_is_told(
    api: Api, filters: dict[str, Any], faults: dict[str, str]
) -> None:
    text = msgspec.json.encode(filters).decode()
    assert await api.faults("GET", V2, params={"filter": text}) == faults
    assert api.usage.event_queries == []


@pytest.mark.parametrize(
    ("params", "faults"),
    [
        ({"filter": "{"}, {"filter": "json"}),
        ({"filter": '"a"'}, {"filter": "type"}),
        ({"filter": "[" * 3_000}, {"filter": "json"}),
        ({"cursor": "a"}, {"cursor": "matches_regex"}),
        ({"limit": "101"}, {"limit": "maximum"}),
    ],
)
async def test_a_wrong_question_in_v2_is_told(
    api: Api, params: dict[str, str], faults: dict[str, str]
) -> None:
    assert await api.faults("GET", V2, params=params) == faults
