"""What was refused and is sent anew, through the real door into a real log."""

import msgspec
import pytest

from meterline.access import Principal, Scope
from meterline.event import Verdict, decode_event
from meterline.limits import HORIZON_DAYS
from meterline.window import DAY_MS, HOUR_MS
from tests.unit.control.conftest import NOW_MS
from tests.unit.control.refusals.conftest import (
    EVENT,
    MANY,
    METERS,
    REFUSALS,
    Refusing,
    inbox,
    meter,
)
from tests.unit.control.v3.test_events import listed


async def test_a_mended_event_is_sent_once_however_often_it_is_asked_for(
    refusing: Refusing,
) -> None:
    api = refusing.api
    api.usage.events = [inbox(4)]
    path = f"{REFUSALS}/1.0.4.0/redrive"
    done = await api.json("POST", path, 202, json={"event": EVENT})
    assert (done["state"], done["redrive"]["event"]) == ("redriven", {"source": "s", "id": "1"})
    assert done["redrive"]["author"] == "key:1"
    again = await api.json("POST", path, 202, json={"event": EVENT})
    assert again == done
    (event,) = await refusing.in_log()
    assert (event.subject, event.recorded_ms, event.namespace) == ("u", NOW_MS, "default")
    assert await refusing.changes() == [("key:1", "redrive", "1.0.4.0", "")]
    for other in ({**EVENT, "id": "2"}, {**EVENT, "data": {"v": 1}}):
        problem = await api.json("POST", path, 409, json={"event": other})
        assert "It was already redriven" in problem["detail"]
    problem = await api.json("POST", f"{REFUSALS}/1.0.4.0/dismiss", 409, json={"note": "x"})
    assert "was already redriven" in problem["detail"]
    assert (await api.json("GET", f"{REFUSALS}/1.0.4.0"))["state"] == "redriven"
    assert refusing.door.counted == [1, 1, 1, 1]


@pytest.mark.parametrize("after", [False, True])
async def test_what_breaks_off_can_be_asked_for_again(refusing: Refusing, *, after: bool) -> None:
    api, door = refusing.api, refusing.door
    api.usage.events = [inbox(4)]
    door.fails_before, door.fails_after = not after, after
    path = f"{REFUSALS}/1.0.4.0/redrive"
    await api.json("POST", path, 503, json={"event": EVENT})
    one = await api.json("GET", f"{REFUSALS}/1.0.4.0")
    assert (one["state"], one["redrive"]["event"]["id"]) == ("redriving", "1")
    door.fails_before = door.fails_after = False
    problem = await api.json("POST", path, 409, json={"event": {**EVENT, "id": "2"}})
    assert "may be in the log" in problem["detail"]
    await api.json("POST", f"{REFUSALS}/1.0.4.0/dismiss", 409, json={"note": "x"})
    done = await api.json("POST", path, 202, json={})  # the event is still known
    assert done["state"] == "redriven"
    events = await refusing.in_log()
    assert len(events) == (2 if after else 1), "a copy is a duplicate"
    assert len({one.key for one in events}) == len({one.check for one in events}) == 1
    assert len(await refusing.changes()) == 1


@pytest.mark.parametrize("counts", [False, True])
async def test_what_broke_off_longer_ago_than_the_horizon_is_not_sent_again(
    refusing: Refusing, *, counts: bool
) -> None:
    api, door, clock = refusing.api, refusing.door, refusing.api.clock
    api.usage.events = [inbox(4), inbox(5, msgspec.json.encode({**EVENT, "id": "5"}))]
    door.fails_after = True
    path = f"{REFUSALS}/1.0.4.0/redrive"
    await api.json("POST", path, 503, json={"event": EVENT})
    await api.json("POST", MANY, 503, json={})
    door.fails_after = False
    clock.at_ms += HORIZON_DAYS * DAY_MS - HOUR_MS
    await api.json("POST", path, 202, json={"event": EVENT})  # a copy is a duplicate yet
    once = len(await refusing.in_log())
    clock.at_ms += 1
    path = f"{REFUSALS}/1.0.5.0/redrive"
    if counts:
        (event,) = [one for one in await refusing.in_log() if one.id == "5"]
        there = inbox(9, event.text)._replace(source="s", id="5", verdict=Verdict.NEW)
        api.usage.events.append(there)
        assert (await api.json("POST", path, 202, json={}))["state"] == "redriven"
    else:
        problem = await api.json("POST", path, 409, json={})
        assert "could count twice" in problem["detail"]
        (again,) = (await api.json("POST", MANY, json={}))["refused"]
        assert "could count twice" in again["reason"]
        assert (await api.json("GET", f"{REFUSALS}/1.0.5.0"))["state"] == "redriving"
    assert len(await refusing.in_log()) == once


async def test_a_record_is_sent_as_it_is_in_its_own_time(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [
        inbox(1, msgspec.json.encode(EVENT)),
        inbox(2, msgspec.json.encode({**EVENT, "id": "2", "time": "2023-11-14T00:00:00Z"})),
        inbox(3),
        inbox(4, b"no event \xff".decode(errors="replace").encode()),
    ]
    for number in (1, 2):
        await api.json("POST", f"{REFUSALS}/1.0.{number}.0/redrive", 202, json={})
    first, second = sorted(await refusing.in_log(), key=lambda one: one.id)
    assert first.time_ms == NOW_MS - 500, "when the topic took it in"
    assert second.time_ms == 1_699_920_000_000
    problem = await api.json("POST", f"{REFUSALS}/1.0.3.0/redrive", 400, json={})
    assert problem["type"] == "urn:meterline:problem:invalid-event"
    assert [one["field"] for one in problem["invalid_parameters"]] == ["subject"]
    problem = await api.json("POST", f"{REFUSALS}/1.0.4.0/redrive", 409, json={})
    assert "Send the whole event" in problem["detail"]
    assert (await api.json("GET", f"{REFUSALS}/1.0.3.0"))["state"] == "open"


async def test_a_conflict_needs_an_event_with_another_identity(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [listed(1), listed(1, Verdict.CONFLICT, 1 << 10)._replace(offset=3)]
    path = f"{REFUSALS}/1.0.3.0/redrive"
    own = {**EVENT, "source": "s", "id": "e1"}
    assert "conflict again" in (await api.json("POST", path, 409, json={}))["detail"]
    assert "Use another id" in (await api.json("POST", path, 409, json={"event": own}))["detail"]
    wrong = {**EVENT, "namespace": "other"}
    await api.json("POST", path, 400, json={"event": wrong})
    await api.json("POST", path, 202, json={"event": {**EVENT, "id": "mended"}})
    assert [one.id for one in await refusing.in_log()] == ["mended"]


async def test_an_event_whose_identity_counts_otherwise_is_not_sent(refusing: Refusing) -> None:
    api = refusing.api
    there = listed(7)
    api.usage.events = [inbox(4), there]
    path = f"{REFUSALS}/1.0.4.0/redrive"
    event = {**EVENT, "source": there.source, "id": there.id}
    problem = await api.json("POST", path, 409, json={"event": event})
    assert "counts already, with other contents" in problem["detail"]
    assert await refusing.in_log() == []
    same = {k: v for k, v in msgspec.json.decode(there.text).items() if k != "namespace"}
    del same["recordedtime"]
    await api.json("POST", path, 202, json={"event": same})


async def test_a_rejected_value_is_sent_anew_where_nothing_counts_it(refusing: Refusing) -> None:
    api = refusing.api
    await meter(api, "distance", aggregation="sum", value_property="$.distance")
    api.usage.events = [listed(1, data={"distance": "far"}), listed(2)]
    one = await api.json("GET", f"{REFUSALS}/1.0.1.0")
    assert (one["kind"], one["redrivable"]) == ("value", "fixed")
    assert one["reason"] == "distance: $.distance is not_a_number"
    assert [it["outcome"] for it in one["meters"]] == ["rejected"]
    await api.json("GET", f"{REFUSALS}/1.0.2.0", 404)
    await meter(api, "flights", aggregation="count")
    one = await api.json("GET", f"{REFUSALS}/1.0.1.0")
    assert one["redrivable"] == "none"
    fixed = {**EVENT, "type": "flight", "id": "mended", "data": {"distance": 7}}
    path = f"{REFUSALS}/1.0.1.0/redrive"
    problem = await api.json("POST", path, 409, json={"event": fixed})
    assert problem["detail"] == one["not_redrivable"]
    assert "counts in flights" in problem["detail"]
    await api.json("DELETE", f"{METERS}/flights", 204)
    own = {**fixed, "source": "s", "id": "e1"}
    assert "another id" in (await api.json("POST", path, 409, json={"event": own}))["detail"]
    assert "duplicate" in (await api.json("POST", path, 409, json={}))["detail"]
    done = await api.json("POST", path, 202, json={"event": fixed})
    assert done["state"] == "redriven"
    assert [one.id for one in await refusing.in_log()] == ["mended"]


async def test_many_are_sent_anew_as_they_are(refusing: Refusing) -> None:
    api = refusing.api
    texts = [msgspec.json.encode({**EVENT, "id": str(number)}) for number in range(12)]
    api.usage.events = [inbox(number, text, at=number) for number, text in enumerate(texts)]
    api.usage.events += [inbox(50, at=50), listed(59, Verdict.CONFLICT)]
    there = decode_event(
        texts[3][:-1] + b',"namespace":"default","recordedtime":"2023-01-01T00:00:00Z"}'
    )
    api.usage.events.append(listed(58, source=there.source, id=there.id, data={"other": 1}))
    await api.json("POST", f"{REFUSALS}/1.0.4.0/dismiss", json={"note": ""})
    path = f"{MANY}"
    dry = await api.json("POST", path, json={"dry_run": True, "filter": {"source": "orders"}})
    assert (dry["dry_run"], dry["found"], dry["accepted"], dry["next"]) == (True, 12, 10, None)
    assert [(one["id"], one["field"]) for one in dry["refused"]] == [
        ("1.0.50.0", "subject"), ("1.0.3.0", "id"),
    ]  # fmt: skip
    assert await refusing.in_log() == []
    assert refusing.door.counted == []
    first = await api.json("POST", path, json={"limit": 5})
    assert (first["found"], first["accepted"]) == (5, 4)
    second = await api.json("POST", path, json={"after": first["next"]})
    assert (second["found"], second["accepted"], second["next"]) == (7, 6, None)
    ids = {one.id for one in await refusing.in_log()}
    assert ids == {str(number) for number in range(12)} - {"3", "4"}
    again = await api.json("POST", path, json={})
    assert (again["found"], again["accepted"]) == (2, 0)
    assert (await api.json("POST", path, json={"filter": {"source": "none"}}))["found"] == 0
    bounds = {"stored_from": "2023-11-14T22:13:20.050Z", "stored_to": "2023-11-14T22:13:21Z"}
    assert (await api.json("POST", path, json={"filter": bounds}))["found"] == 1
    assert await api.faults("POST", path, json={"after": "x"}) == {"after": "matches_regex"}


async def test_what_broke_off_is_taken_up_by_the_next(refusing: Refusing) -> None:
    api, door = refusing.api, refusing.door
    api.usage.events = [inbox(n, msgspec.json.encode({**EVENT, "id": str(n)})) for n in range(3)]
    door.fails_after = True
    await api.json("POST", f"{MANY}", 503, json={})
    door.fails_after = False
    done = await api.json("POST", f"{MANY}", json={})
    assert (done["found"], done["accepted"]) == (3, 3)
    events = await refusing.in_log()
    assert (len(events), len({one.key for one in events})) == (6, 3)
    assert len({one.check for one in events if one.id == "1"}) == 1, "copies, no conflicts"


async def test_reading_is_asked_for_too(refusing: Refusing) -> None:
    api = refusing.api
    api.usage.events = [inbox(1, msgspec.json.encode(EVENT))]
    refusing.caller = Principal("default", "key:1", frozenset({Scope.EVENTS_WRITE}))
    for path, body in (
        (f"{REFUSALS}/1.0.1.0/redrive", {}),
        (f"{REFUSALS}/1.0.1.0/dismiss", {"note": ""}),
        (MANY, {}),
    ):
        problem = await api.json("POST", path, 403, json=body)
        assert "events:read" in problem["detail"]
    assert await refusing.in_log() == []
