import pytest

from meterline.event import Column, Condition, EventSubject, Op
from tests.unit.control.conftest import Api

SUBJECTS = "/api/v3/metering/events/subjects"


async def test_subjects_come_in_pages_with_their_first_and_last_event(api: Api) -> None:
    api.usage.subjects = [EventSubject(name, 0, 61_000) for name in ("a", "b&c/%", "d")]
    page = await api.json("GET", SUBJECTS, params={"page[size]": "2"})
    assert page["data"][0] == {
        "key": "a",
        "first_event_at": "1970-01-01T00:00:00Z",
        "last_event_at": "1970-01-01T00:01:01Z",
    }
    assert page["meta"]["page"]["next"] == "b&c/%"
    after = {"page[size]": "2", "page[after]": page["meta"]["page"]["next"]}
    last = await api.json("GET", SUBJECTS, params=after)
    assert [one["key"] for one in last["data"]] == ["d"]
    assert last["meta"]["page"]["next"] is None


async def test_conditions_are_those_of_events(api: Api) -> None:
    asked = {
        "filter[key][contains]": "ac",
        "filter[type]": "prompt",
        "filter[stored_at][gte]": "1970-01-01T00:01:00Z",
    }
    await api.json("GET", SUBJECTS, params=asked)
    (query,) = api.usage.subject_queries
    assert query.namespace == "default"
    assert set(query.conditions) == {
        (Column.SUBJECT, Condition(Op.CONTAINS, ("ac",))),
        (Column.TYPE, Condition(Op.EQ, ("prompt",))),
        (Column.STORED_AT, Condition(Op.GTE, (60_000,))),
    }


@pytest.mark.parametrize(
    "wrong", ["filter[id]", "filter[subject]", "filter[attributed]", "page[number]", "contains"]
)
async def test_what_is_no_condition_of_it_is_refused(api: Api, wrong: str) -> None:
    await api.json("GET", SUBJECTS, 400, params={wrong: "1"})
    assert api.usage.subject_queries == []
