"""What was refused: listed, shown, dismissed."""

import base64
from typing import Any

import pytest

from meterline.access import EVERY_SCOPE, Principal, Scope
from meterline.event import Verdict, encode_pack
from meterline.limits import REFUSALS_SEARCHED_MAX
from meterline.usage import RejectedRow
from tests.unit.control.conftest import Api
from tests.unit.control.refusals.conftest import (
    EVENT,
    MANY,
    METERS,
    NO_EVENT,
    REFUSALS,
    Refusing,
    inbox,
    meter,
    unreadable,
)
from tests.unit.control.v3.test_events import listed


async def test_refusals_are_listed_and_nothing_else(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [
        listed(1),
        listed(2, Verdict.DUPLICATE, 1 << 10),
        listed(3, Verdict.CONFLICT, 1 << 10, ("id", "other")),
        inbox(4),
        unreadable(5, b"\xff"),
    ]
    page = await api.json("GET", REFUSALS)
    assert [(one["id"], one["kind"], one["state"]) for one in page["data"]] == [
        ("1.0.5.0", "unreadable", "open"),
        ("1.0.4.0", "inbox", "open"),
        ("1.0.3.0", "conflict", "open"),
    ]
    assert page["data"][1] == {
        "id": "1.0.4.0", "kind": "inbox", "state": "open",
        "ingested_at": "2023-11-14T22:13:19.500Z", "stored_at": "2023-11-14T22:13:20Z",
        "field": "subject", "reason": "is required",
        "record": {"topic": "orders", "partition": 3, "offset": "4"},
    }  # fmt: skip
    assert page["data"][2]["event"] == {"source": "s", "id": "e3"}
    assert (page["data"][2]["type"], page["data"][2]["subject"]) == ("flight", "UA")
    for wanted in ("unreadable", "inbox", "conflict"):
        (one,) = (await api.json("GET", f"{REFUSALS}?filter[kind]={wanted}"))["data"]
        assert one["kind"] == wanted
    for query, ids in (
        ("filter[source]=orders", ["1.0.4.0"]),
        ("filter[type]=flight&filter[subject]=UA", ["1.0.3.0"]),
        ("filter[stored_at][gte]=2023-11-14T22:13:20Z", ["1.0.5.0", "1.0.4.0"]),
        ("filter[stored_at][lt]=2023-11-14T22:13:20Z", ["1.0.3.0"]),
    ):
        found = (await api.json("GET", f"{REFUSALS}?{query}"))["data"]
        assert [one["id"] for one in found] == ids, query


async def test_what_belongs_to_nobody_is_for_operators(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [unreadable(5, b"nothing")]
    await api.json("GET", f"{REFUSALS}/1.0.5.0")
    refusing.caller = Principal("default", "key:1", EVERY_SCOPE - {Scope.OPERATE})
    await api.json("GET", REFUSALS)
    assert not api.usage.event_queries[-1].unowned
    await api.json("GET", f"{REFUSALS}/1.0.5.0", 404)
    await api.json("POST", f"{REFUSALS}/1.0.5.0/redrive", 404, json={"event": EVENT})
    for state in ("redriven", "dismissed"):
        assert (await api.json("GET", f"{REFUSALS}?filter[state]={state}"))["data"] == []


@pytest.mark.parametrize("what", ["", "/redrive", "/dismiss"])
async def test_what_is_in_another_namespace_is_not_there(refusing: Refusing, what: str) -> None:
    api = refusing.api
    api.usage.events = [
        inbox(4)._replace(namespace="other"),
        listed(1, namespace="other"),
        listed(2, Verdict.DUPLICATE),
    ]
    method = "POST" if what else "GET"
    body = {"/dismiss": {"note": ""}, "/redrive": {}}.get(what)
    for name in ("1.0.4.0", "1.0.1.0", "1.0.2.0", "1.0.99.0", "1.0.1.70000", "x"):
        await api.json(method, f"{REFUSALS}/{name}{what}", 404, json=body)


async def test_both_payloads_of_a_conflict_side_by_side(refusing: Refusing) -> None:
    api = refusing.api
    other = {"distance": 12.5, "origin": "JFK", "extra": [1]}
    api.usage.events = [
        listed(1),
        listed(1, Verdict.CONFLICT, 1 << 10, ("id", "other"), data=other)._replace(offset=3),
    ]
    one = await api.json("GET", f"{REFUSALS}/1.0.3.0")
    assert one["accepted"]["position"] == "1.0.1.0"
    assert one["accepted"]["event"]["data"] == {"distance": 12.5, "origin": "EWR"}
    assert one["refused"]["data"] == other
    assert "namespace" not in one["refused"]
    assert one["differs"] == ["data"]
    assert one["differences"] == [
        {"path": "$.data.origin", "accepted": "EWR", "refused": "JFK"},
        {"path": "$.data.extra", "refused": [1]},
    ]
    assert one["redrivable"] == "fixed"
    api.usage.events = api.usage.events[1:]
    gone = await api.json("GET", f"{REFUSALS}/1.0.3.0")
    assert gone.keys().isdisjoint({"accepted", "differences"})
    assert gone["refused"] == one["refused"]


async def test_texts_are_shown_exactly_where_they_are_kept(refusing: Refusing) -> None:
    api = refusing.api
    log = api.stores.log
    await log.append(0, encode_pack([b'{"a":1}']))
    await log.append(0, b"\xff\xfe")
    cut = b"\xff\xfe".decode(errors="replace").encode()
    api.usage.events = [unreadable(1, cut), unreadable(77, cut), inbox(2)]
    exact = await api.json("GET", f"{REFUSALS}/1.0.1.0")
    assert (base64.b64decode(exact["base64"]), exact["whole"]) == (b"\xff\xfe", True)
    gone = await api.json("GET", f"{REFUSALS}/1.0.77.0")
    assert (gone["text"], gone["whole"]) == ("\ufffd\ufffd", False)
    kept = await api.json("GET", f"{REFUSALS}/1.0.2.0")
    assert (kept["text"], kept["whole"]) == (NO_EVENT.decode(), True)
    assert kept["redrivable"] == "as_it_is"


async def test_what_is_dismissed_is_so_until_an_event_is_sent(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [inbox(1), inbox(2)]
    path = f"{REFUSALS}/1.0.1.0/dismiss"
    assert await api.faults("POST", path, json={}) == {"note": "required"}
    one = await api.json("POST", path, json={"note": "a test"})
    assert one["state"] == "dismissed"
    assert (one["dismissal"]["note"], one["dismissal"]["author"]) == ("a test", "key:1")
    assert await api.json("POST", path, json={"note": "a test"}) == one
    states = {
        state: [it["id"] for it in (await _in_state(api, state))["data"]]
        for state in ("open", "redriving", "redriven", "dismissed")
    }
    expected = {"open": ["1.0.2.0"], "redriving": [], "redriven": [], "dismissed": ["1.0.1.0"]}
    assert states == expected
    await api.json("POST", f"{REFUSALS}/1.0.1.0/redrive", 202, json={"event": EVENT})
    assert [it["id"] for it in (await _in_state(api, "redriven"))["data"]] == ["1.0.1.0"]
    assert await refusing.changes() == [
        ("key:1", "dismiss", "1.0.1.0", "a test"), ("key:1", "redrive", "1.0.1.0", ""),
    ]  # fmt: skip


async def _in_state(api: Api, state: str, more: str = "") -> Any:
    return await api.json("GET", f"{REFUSALS}?filter[state]={state}{more}")


async def test_pages_follow_each_other_in_every_state(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [inbox(number, at=number // 3) for number in range(250)]
    for number in range(0, 250, 5):
        await api.json("POST", f"{REFUSALS}/1.0.{number}.0/dismiss", json={"note": ""})
    expected = {
        "": list(range(249, -1, -1)),
        "&filter[state]=open": [n for n in range(249, -1, -1) if n % 5],
        "&filter[state]=dismissed": list(range(245, -1, -5)),
        "&filter[state]=redriven": [],
    }
    for query, numbers in expected.items():
        found: list[str] = []
        after = ""
        while True:
            page = await api.json("GET", f"{REFUSALS}?page[size]=20{query}{after}")
            found += [one["id"] for one in page["data"]]
            cursors = page["meta"]["page"]
            assert len(page["data"]) == 20 or cursors["next"] is None
            if cursors["next"] is None:
                break
            after = f"&page[after]={cursors['next']}"
        assert found == [f"1.0.{number}.0" for number in numbers], query
    wrong = await api.faults("GET", f"{REFUSALS}?page[after]=x&filter[kind]=inbox")
    assert wrong == {"page[after]": "matches_regex"}
    assert await api.faults("GET", f"{REFUSALS}?filter[kind]=value") == {"filter[kind]": "enum"}


async def test_a_search_for_what_is_rare_ends_and_leads_on(refusing: Refusing) -> None:
    api = refusing.api
    count = REFUSALS_SEARCHED_MAX + 10
    api.usage.events = [inbox(number, at=number) for number in range(count)]
    await api.json("POST", f"{MANY}", json={"dry_run": True})
    api.usage.events[:2] = [inbox(number, at=number, topic="rare") for number in range(2)]
    page = await _in_state(api, "open", "&filter[source]=rare")
    assert page["data"] == []
    after = f"&filter[source]=rare&page[after]={page['meta']['page']['next']}"
    assert len((await _in_state(api, "open", after))["data"]) == 2


async def test_a_meters_rejected_values_say_what_was_done(refusing: Refusing) -> None:
    api = refusing.api
    await meter(api, "distance", aggregation="sum", value_property="$.distance")
    api.usage.events = [listed(1, data={"distance": "far"})]
    made = await api.stores.meter("default", "distance")
    api.usage.rejected_rows = [
        RejectedRow(made.revision, 1, 0, 1, 0, 0, "UA", "[]", 7, "not_a_number", '"far"')
    ]
    path = f"{METERS}/distance/rejected"
    assert [one["state"] for one in (await api.json("GET", path))["data"]] == ["open"]
    await api.json("POST", f"{REFUSALS}/1.0.1.0/dismiss", json={"note": ""})
    assert [one["state"] for one in (await api.json("GET", path))["data"]] == ["dismissed"]
