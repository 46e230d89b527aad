from typing import Any

import msgspec
import pytest

from meterline.access import Principal, Scope
from meterline.event import Column, Condition, ListedEvent, Op, Order, Verdict, decode_event
from meterline.http.gate import Gate
from meterline.limits import EVENT_FILTER_CHARS_MAX, EVENT_FILTER_ITEMS_MAX
from meterline.usage import NO_POSITION
from tests.unit.control.conftest import NOW_MS, Api, ServeApi

EVENTS = "/api/v3/metering/events"
REFUSED = "is not a cursor of this list; send the one of the page before unchanged"


def listed(
    number: int,
    verdict: Verdict = Verdict.NEW,
    first: int = NO_POSITION,
    reason: tuple[str, str] = ("", ""),
    **more: Any,
) -> ListedEvent:
    """An event as the store lists it; each a second after the one before."""
    document = {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "s",
        "type": "flight",
        "subject": "UA",
        "time": "2023-11-14T10:00:30Z",
        "data": {"distance": 12.50, "origin": "EWR"},
        "traceparent": "00-ab",
        "namespace": "default",
        "recordedtime": f"2023-11-14T10:01:{number:02d}.250Z",
        **more,
    }
    text = msgspec.json.encode(document)
    event = decode_event(text)
    return ListedEvent(
        1, 0, number, 0, event.recorded_ms + 12, event.namespace, event.type, event.subject,
        event.source, event.id, event.time_ms, event.recorded_ms, text, verdict, first, *reason,
    )  # fmt: skip


@pytest.fixture
async def meters(api: Api) -> list[Any]:
    """Two meters of flights and one of something else."""
    made = []
    for key, aggregation, type_, value in (
        ("distance", "sum", "flight", "$.distance"),
        ("flights", "count", "flight", None),
        ("delays", "count", "delay", None),
    ):
        body: dict[str, Any] = {
            "key": key,
            "name": key,
            "aggregation": aggregation,
            "event_type": type_,
        }
        body |= {"dimensions": {"origin": "$.origin"}} | (
            {"value_property": value} if value else {}
        )
        made.append(await api.json("POST", "/api/v3/metering/meters", 201, json=body))
    return made


async def one(api: Api, query: str = "") -> Any:
    """The only event of a page."""
    page = await api.json("GET", f"{EVENTS}{query}")
    (found,) = page["data"]
    return found


async def test_an_event_is_shown_as_it_was_sent_with_who_counts_it(
    api: Api, meters: list[Any]
) -> None:
    api.usage.events = [listed(1)]
    found = await one(api)
    window = {"from": "2023-11-14T10:00:00Z", "to": "2023-11-14T10:01:00Z"}
    counted = {"outcome": "counted", **window, "dimensions": {"origin": "EWR"}}
    assert found == {
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
        "ingested_at": "2023-11-14T10:01:01.250Z",
        "stored_at": "2023-11-14T10:01:01.262Z",
        "position": "1.0.1.0",
        "verdict": {
            "kind": "new",
            "meters": [
                {"id": meters[0]["id"], "key": "distance", **counted},
                {"id": meters[1]["id"], "key": "flights", **counted},
            ],
        },
    }


async def test_numbers_keep_every_digit(api: Api) -> None:
    exact = b'{"specversion":"1.0","id":"a","source":"s","type":"t","subject":"x","data":'
    exact += b'{"v":12345678901234567890.10, "w":1E2},"namespace":"default",'
    exact += b'"recordedtime":"2023-11-14T10:01:00Z"}'
    api.usage.events = [listed(1)._replace(text=exact)]
    async with api.client.get(EVENTS) as response:
        text = await response.text()
    assert '"data":{"v":12345678901234567890.10, "w":1E2}' in text
    assert "namespace" not in text
    assert "recordedtime" not in text


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("2023-11-14T11:00:30.123456789+01:00", "2023-11-14T11:00:30.123456789+01:00"),
        ("2023-11-14t10:00:30.5z", "2023-11-14T10:00:30.500Z"),
        ("2023-11-14 10:00:30Z", "2023-11-14T10:00:30Z"),
        ("2023-11-14T11:00:30+0100", "2023-11-14T10:00:30Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999Z"),
        (None, None),
    ],
)
async def test_its_time_is_one_that_every_reader_takes(
    api: Api, sent: str | None, shown: str | None
) -> None:
    api.usage.events = [listed(1, time=sent)]
    assert (await one(api))["event"]["time"] == shown


@pytest.mark.usefixtures("meters")
async def test_a_value_that_cannot_be_counted_is_told(api: Api) -> None:
    api.usage.events = [listed(1, data={"distance": "far", "origin": "EWR"})]
    found = await one(api)
    distance, flights = found["verdict"]["meters"]
    assert distance["outcome"] == "rejected"
    assert (distance["field"], distance["reason"], distance["value"]) == (
        "$.distance",
        "not_a_number",
        '"far"',
    )
    assert flights["outcome"] == "counted"
    assert found["validation_errors"] == [
        {
            "code": "validation_error",
            "message": "meter distance does not count it: $.distance is not_a_number",
            "attributes": {
                "meter": "distance",
                "field": "$.distance",
                "reason": "not_a_number",
                "value": '"far"',
            },
        }
    ]


@pytest.mark.usefixtures("meters")
async def test_an_event_that_no_meter_takes_is_told(api: Api) -> None:
    api.usage.events = [listed(1, type="landing")]
    found = await one(api)
    assert found["verdict"] == {"kind": "new", "meters": []}
    assert [e["message"] for e in found["validation_errors"]] == [
        "no meter counts events of type landing"
    ]


async def test_a_duplicate_names_what_it_repeats(api: Api) -> None:
    first = listed(1)
    api.usage.events = [first, listed(2, Verdict.DUPLICATE, first=1 << 10)]
    found = await one(api, "?filter[verdict]=duplicate")
    assert found["verdict"] == {
        "kind": "duplicate",
        "of": {
            "position": "1.0.1.0",
            "ingested_at": "2023-11-14T10:01:01.250Z",
            "stored_at": "2023-11-14T10:01:01.262Z",
        },
    }
    assert "validation_errors" not in found
    assert found["event"]["id"] == "e2"


async def test_a_conflict_says_in_what_it_differs(api: Api) -> None:
    reason = ("id", "came before")
    first = listed(1)
    changed = listed(2, Verdict.CONFLICT, 1 << 10, reason, data={}, subject="AA")
    api.usage.events = [first, changed]
    found = await one(api, "?filter[verdict][eq]=conflict")
    assert found["verdict"]["kind"] == "conflict"
    assert found["verdict"]["of"]["differs"] == ["subject", "data"]
    assert (found["verdict"]["field"], found["verdict"]["reason"]) == reason
    assert [e["message"] for e in found["validation_errors"]] == ["came before"]
    api.usage.events = [changed]
    found = await one(api, "?filter[verdict][eq]=conflict")
    assert found["verdict"]["of"] == {"position": "1.0.1.0"}, "the first is not kept any more"


async def test_what_is_invalid_is_shown_as_text(api: Api) -> None:
    broken = listed(1, Verdict.INVALID, reason=("id", "must not be empty"))
    api.usage.events = [broken._replace(text='{"id":"","é'.encode()[:-1])]
    found = await one(api, "?filter[verdict][oeq]=conflict,invalid")
    assert found["text"] == '{"id":"","�'
    assert "event" not in found
    assert found["verdict"] == {"kind": "invalid", "field": "id", "reason": "must not be empty"}


async def test_pages_follow_one_another_in_every_order(api: Api) -> None:
    api.usage.events = [listed(number) for number in range(7)]
    for sort in ("time", "time asc", "ingested_at desc", "stored_at asc"):
        found: list[str] = []
        query = f"?page[size]=3&sort={sort}"
        for more in (True, True, False):
            page = await api.json("GET", f"{EVENTS}{query}")
            found += [entry["event"]["id"] for entry in page["data"]]
            cursors = page["meta"]["page"]
            assert (cursors["size"], cursors["previous"]) == (3, None)
            assert (cursors["next"] is not None) == more
            query = f"?page[size]=3&sort={sort}&page[after]={cursors['next']}"
        names = [f"e{number}" for number in range(7)]
        assert found == (names if sort.endswith("asc") else names[::-1]), sort
        assert api.usage.event_queries[-1].limit == 4, "one more than a page"


async def test_every_condition_reaches_the_store(api: Api) -> None:
    query = (
        "filter[id]=a&filter[source][neq]=b&filter[subject][contains]=c&filter[subject][oeq]=d, e"
        "&filter[type][ocontains]=f,g&filter[type][exists]=false&filter[type][gt]=h"
        "&filter[time][gte]=2026-01-01T00:00:00Z&filter[time][lt]=2026-01-02T00:00:00Z"
        "&filter[ingested_at]=2026-01-01T00:00:00Z&filter[stored_at][lte]=2026-01-01T00:00:00.5Z"
        "&filter[verdict][oeq]=new,duplicate&sort=stored_at asc&page[size]=100"
    )
    await api.json("GET", f"{EVENTS}?{query}")
    (asked,) = api.usage.event_queries
    day_ms = 1_767_225_600_000
    parts = (Condition(Op.CONTAINS, ("f",)), Condition(Op.CONTAINS, ("g",)))
    assert asked.conditions == (
        (Column.ID, Condition(Op.EQ, ("a",))),
        (Column.SOURCE, Condition(Op.NE, ("b",))),
        (Column.SUBJECT, Condition(Op.CONTAINS, ("c",))),
        (Column.SUBJECT, Condition(Op.IN, ("d", "e"))),
        (Column.TYPE, Condition(Op.GT, ("h",))),
        (Column.TYPE, Condition(Op.OR, parts=parts)),
        (Column.TYPE, Condition(Op.NEXISTS)),
        (Column.TIME, Condition(Op.LT, (day_ms + 86_400_000,))),
        (Column.TIME, Condition(Op.GTE, (day_ms,))),
        (Column.INGESTED_AT, Condition(Op.EQ, (day_ms,))),
        (Column.STORED_AT, Condition(Op.LTE, (day_ms + 500,))),
    )
    assert asked.verdicts == {Verdict.NEW, Verdict.DUPLICATE}
    assert asked.order == Order(Column.STORED_AT, descending=False)
    assert (asked.limit, asked.now_ms, asked.namespace) == (101, NOW_MS, "default")
    assert asked.unowned, "who may operate sees what belongs to nobody"


async def test_without_anything_the_latest_new_events_are_asked_for(api: Api) -> None:
    page = await api.json("GET", "/api/v3/openmeter/events")
    assert page == {"data": [], "meta": {"page": {"size": 20, "next": None, "previous": None}}}
    (asked,) = api.usage.event_queries
    assert (asked.conditions, asked.limit) == ((), 21)
    assert asked.verdicts == {Verdict.NEW}
    assert asked.order == Order(Column.TIME, descending=True)


async def test_a_bare_filter_asks_that_something_is_there(api: Api) -> None:
    for query in (
        "filter[subject]=&filter[type][nexists]=true",
        "filter[subject][exists]&filter[type][nexists]=",
    ):
        await api.json("GET", f"{EVENTS}?{query}")
        assert api.usage.event_queries[-1].conditions == (
            (Column.SUBJECT, Condition(Op.EXISTS)),
            (Column.TYPE, Condition(Op.NEXISTS)),
        )


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("filter[colour]=red", {"filter[colour]": "unknown_property"}),
        ("filter[customer_id]=a", {"filter[customer_id]": "unknown_property"}),
        ("filter[customer_id][oeq]=a", {"filter[customer_id]": "unknown_property"}),
        ("filter[id][like]=a", {"filter[id][like]": "unknown_property"}),
        ("filter[time][contains]=1", {"filter[time][contains]": "unknown_property"}),
        ("filter[time]=today", {"filter[time][eq]": "is_date_time"}),
        ("filter[time]=", {"filter[time][eq]": "is_date_time"}),
        ("filter[verdict]=good", {"filter[verdict][eq]": "enum"}),
        ("filter[verdict][oeq]=new,good", {"filter[verdict][oeq]": "matches_regex"}),
        ("filter[id][exists]=maybe", {"filter[id][exists]": "enum"}),
        (
            f"filter[id][oeq]={','.join('a' * (EVENT_FILTER_ITEMS_MAX + 1))}",
            {"filter[id][oeq]": "matches_regex"},
        ),
        (
            f"filter[id][eq]={'a' * (EVENT_FILTER_CHARS_MAX + 1)}",
            {"filter[id][eq]": "max_length"},
        ),
        ("filter[id]=a&filter[id]=b", {"filter[id]": "max_items"}),
        ("filter=a", {"filter": "type"}),
        ("sort=subject", {"sort": "matches_regex"}),
        ("sort=time+up", {"sort": "matches_regex"}),
        ("page[before]=a", {"page[before]": "unknown_property"}),
        ("page[size]=0&colour=red", {"page[size]": "minimum", "colour": "unknown_property"}),
        ("page[size]=101", {"page[size]": "maximum"}),
        ("page[after]=a", {"page[after]": "matches_regex"}),
    ],
)
async def test_a_wrong_question_is_told(api: Api, query: str, faults: dict[str, str]) -> None:
    assert await api.faults("GET", f"{EVENTS}?{query}") == faults
    assert api.usage.event_queries == []


async def test_a_cursor_keeps_to_its_order(api: Api) -> None:
    api.usage.events = [listed(number) for number in range(3)]
    page = await api.json("GET", f"{EVENTS}?page[size]=1")
    cursor = page["meta"]["page"]["next"]
    problem = await api.json("GET", f"{EVENTS}?page[after]={cursor}&sort=time asc", 400)
    assert "keep the order of that list" in problem["detail"]
    problem = await api.json("GET", f"{EVENTS}?page[after]={cursor}x", 400)
    assert REFUSED in problem["detail"]


async def test_who_may_not_operate_sees_nothing_that_is_nobodys(api: Api, serve: ServeApi) -> None:
    reader = Principal("acme", "key:1", frozenset({Scope.EVENTS_READ}), "1")
    client = await serve(api.stores, Gate(api.clock, lambda _header, _now_ms: reader))
    async with client.get(EVENTS) as response:
        assert response.status == 200
    (asked,) = api.usage.event_queries
    assert (asked.namespace, asked.unowned) == ("acme", False)
