import json
from typing import Any
from urllib.parse import quote

import pytest

from meterline.access import SubjectDraft
from meterline.limits import SUBJECTS_UPSERT_MAX
from tests.unit.control.conftest import NOW_MS, Api

PATH = "/api/v1/subjects"
BODY: dict[str, Any] = {
    "key": "customer-1",
    "displayName": "Customer One",
    "metadata": {"hubspotId": "1", "n": [1, 2.5, None, {"deep": True}], "big": 1 << 70},
    "currentPeriodStart": "2023-01-01T00:00:00Z",
    "currentPeriodEnd": "2023-02-01T00:00:00Z",
    "stripeCustomerId": "cus_1",
}


async def test_subjects_are_upserted_listed_shown_and_deleted(api: Api) -> None:
    assert await api.json("GET", PATH) == []
    (made, bare) = await api.json("POST", PATH, json=[BODY, {"key": "customer-2"}])
    at = {"createdAt": "2023-11-14T22:13:20Z", "updatedAt": "2023-11-14T22:13:20Z"}
    assert made == {**BODY, "id": made["id"], **at}
    assert bare == {"key": "customer-2", "id": bare["id"], **at}
    assert await api.json("GET", PATH) == [made, bare]
    for name in ("customer-1", made["id"], made["id"].lower()):
        assert await api.json("GET", f"{PATH}/{name}") == made
    await api.json("DELETE", f"{PATH}/customer-1", 204)
    await api.json("DELETE", f"{PATH}/{made['id']}", 404)
    problem = await api.json("GET", f"{PATH}/customer-1", 404)
    assert problem["type"] == "urn:meterline:problem:not-found"
    assert await api.json("GET", PATH) == [bare]


async def test_what_is_absent_stays_and_null_takes_away(api: Api) -> None:
    (made,) = await api.json("POST", PATH, json=[BODY])
    api.clock.at_ms = NOW_MS + 1_000
    assert await api.json("POST", PATH, json=[{"key": "customer-1"}]) == [made]
    sent: Any = {"key": "customer-1", "displayName": None, "currentPeriodEnd": None, "metadata": {}}
    (after,) = await api.json("POST", PATH, json=[sent])
    del made["displayName"], made["currentPeriodEnd"]
    assert after == {**made, "metadata": {}, "updatedAt": "2023-11-14T22:13:21Z"}


async def test_one_may_come_without_its_array(api: Api) -> None:
    (made,) = await api.json("POST", PATH, json=BODY)
    assert made["key"] == "customer-1"


@pytest.mark.parametrize("key", ["a/b", "a b", "ä%2F", "50%", "?#&", "😀", "a.b:c@d", "a+b"])
async def test_any_subject_of_events_can_be_named(api: Api, key: str) -> None:
    (made,) = await api.json("POST", PATH, json=[{"key": key}])
    assert made["key"] == key
    assert await api.json("GET", f"{PATH}/{quote(key, safe='')}") == made


async def test_all_faults_are_told_and_nothing_is_made(api: Api) -> None:
    sent = [
        {"key": "fine"},
        {"key": "", "displayName": 5, "stripeCustomerId": "1", "colour": "red"},
        {"metadata": [], "currentPeriodStart": "yesterday"},
        {"key": "k\0", "metadata": {"a": "x" * 5_000}},
        "customer",
    ]
    assert await api.faults("POST", PATH, json=sent) == {
        "1.key": "min_length",
        "1.displayName": "type",
        "1.stripeCustomerId": "matches_regex",
        "1.colour": "unknown_property",
        "2.key": "required",
        "2.metadata": "type",
        "2.currentPeriodStart": "is_date_time",
        "3.key": "matches_regex",
        "3.metadata": "max_length",
        "4": "type",
    }
    assert await api.json("GET", PATH) == []


@pytest.mark.parametrize("number", ["NaN", "1e400", "-Infinity"])
async def test_a_number_that_is_none_is_refused(api: Api, number: str) -> None:
    body = f'[{{"key": "a", "metadata": {{"n": {number}}}}}]'
    headers = {"Content-Type": "application/json"}
    found = await api.faults("POST", PATH, data=body.encode(), headers=headers)
    assert found == {"0.metadata": "type"}


async def test_a_request_has_a_bound(api: Api) -> None:
    sent = [{"key": f"k{n}"} for n in range(SUBJECTS_UPSERT_MAX + 1)]
    assert await api.faults("POST", PATH, json=sent) == {"body": "max_items"}
    assert len(await api.json("POST", PATH, json=sent[1:])) == SUBJECTS_UPSERT_MAX
    assert await api.json("POST", PATH, json=[]) == []


async def test_subjects_of_other_namespaces_are_invisible(api: Api) -> None:
    (other,) = await api.stores.subjects.upsert_subjects("other", [SubjectDraft("a")], NOW_MS)
    assert await api.json("GET", PATH) == []
    for name in ("a", other.id):
        problems = [await api.json(method, f"{PATH}/{name}", 404) for method in ("GET", "DELETE")]
        assert all(name in problem["detail"] for problem in problems)
    (mine,) = await api.json("POST", PATH, json=json.loads('[{"key": "a"}]'))
    assert mine["id"] != other.id
