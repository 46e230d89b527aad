from typing import Any

import pytest

from meterline.backends.control_store.progress.dropped_revisions import SqlRevisionLedger
from meterline.meter import Aggregation, MeterDraft
from meterline.number import UNIT
from meterline.usage import Seal, UsageRow
from meterline.window import MINUTE_MS
from tests.unit.control.conftest import NOW_MS, Api

PATH = "/api/v3/metering/meters"
REVISIONS = f"{PATH}/distance/revisions"
BODY: dict[str, Any] = {
    "key": "distance",
    "name": "Distance flown",
    "aggregation": "sum",
    "event_type": "flight",
    "value_property": "$.distance",
    "dimensions": {"origin": "$.origin"},
}
AT = "2023-11-14T22:13:20Z"
BORDER = "2023-12-01T00:00:00Z"


@pytest.fixture
async def meter(api: Api) -> Any:
    return await api.json("POST", PATH, 201, json=BODY)


async def filled(api: Api, revision: int, until_ms: int = NOW_MS) -> None:
    """Every partition has told that it is complete by a catalogue with this revision."""
    log = api.stores.log
    untils = dict.fromkeys(range(log.partitions), until_ms)
    await api.stores.progress.complete(log.number, revision, untils)


async def proposed(api: Api) -> Any:
    return await api.json("POST", REVISIONS, 201, json={"value_property": "$.miles"})


@pytest.mark.usefixtures("meter")
async def test_a_proposal_is_shown_with_how_far_it_is_filled_in(api: Api) -> None:
    log = api.stores.log.number
    await api.stores.progress.seal(Seal(log, 1, 0, 5, 3, 1, NOW_MS))
    shown = {
        "revision": 2,
        "state": "proposed",
        "event_type": "flight",
        "value_property": "$.miles",
        "dimensions": {"origin": "$.origin"},
        "counted": True,
        "progress": {"complete_until": None, "slices_left": 1},
        "created_at": AT,
    }
    assert await proposed(api) == shown
    assert await api.json("GET", f"{REVISIONS}/2") == shown
    assert "pending_revision" not in await api.json("GET", f"{PATH}/distance")
    page = await api.json("GET", REVISIONS, params={"page[size]": "1"})
    del shown["progress"]
    assert page["data"] == [shown]
    rest = await api.json("GET", REVISIONS, params={"page[after]": page["meta"]["page"]["next"]})
    (first,) = rest["data"]
    assert (first["revision"], first["state"], first["switched_at"]) == (1, "in_force", AT)


@pytest.mark.usefixtures("meter")
async def test_a_switch_waits_until_it_is_filled_in(api: Api) -> None:
    await proposed(api)
    asked = await api.json("POST", f"{REVISIONS}/2/switch", json={"effective_from": BORDER})
    assert (asked["state"], asked["effective_from"]) == ("filling", BORDER)
    shown = await api.json("GET", f"{PATH}/distance")
    assert (shown["revision"], shown["value_property"]) == (1, "$.distance")
    assert shown["pending_revision"]["effective_from"] == BORDER
    (listed,) = (await api.json("GET", PATH))["data"]
    assert listed == shown
    await filled(api, 2)
    done = await api.json("POST", f"{REVISIONS}/2/switch", json={"effective_from": BORDER})
    assert (done["state"], done["before"]) == ("in_force", 1)
    shown = await api.json("GET", f"{PATH}/distance")
    assert (shown["revision"], shown["effective_from"]) == (2, BORDER)
    assert "pending_revision" not in shown
    old = await api.json("GET", f"{REVISIONS}/1")
    assert (old["state"], old["counted"]) == ("earlier", True)


@pytest.mark.usefixtures("meter")
async def test_what_is_filled_in_is_switched_at_once(api: Api) -> None:
    await proposed(api)
    await filled(api, 2)
    done = await api.json("POST", f"{REVISIONS}/2/switch", json={})
    assert (done["state"], done["switched_at"]) == ("in_force", AT)
    assert (await api.json("GET", f"{PATH}/distance"))["value_property"] == "$.miles"
    again = await api.json("POST", f"{REVISIONS}/2/switch", json={})
    assert again == done
    old = await api.json("GET", f"{REVISIONS}/1")
    assert (old["state"], old["counted"], old["ended_at"]) == ("superseded", False, AT)
    assert "progress" not in old


@pytest.mark.usefixtures("meter")
async def test_an_update_can_have_a_first_instant(api: Api) -> None:
    sent = {"dimensions": {}, "effective_from": BORDER}
    after = await api.json("PUT", f"{PATH}/distance", json=sent)
    assert after["pending_revision"]["effective_from"] == BORDER
    for wrong in ("2023-12-01T00:00:01Z", "1969-12-31T00:00:00Z"):
        found = await api.faults(
            "PUT", f"{PATH}/distance", json={"dimensions": {}, "effective_from": wrong}
        )
        assert found == {"effective_from": "is_date_time"}
    found = await api.faults("POST", f"{REVISIONS}/2/switch", json={"effective_from": AT})
    assert found == {"effective_from": "is_date_time"}


@pytest.mark.usefixtures("meter")
async def test_a_revision_that_waits_is_discarded(api: Api) -> None:
    await proposed(api)
    await api.json("DELETE", f"{REVISIONS}/2", 204)
    shown = await api.json("GET", f"{REVISIONS}/2")
    assert (shown["state"], shown["counted"], shown["ended_at"]) == ("discarded", False, AT)
    await api.json("DELETE", f"{REVISIONS}/1", 409)
    await api.json("POST", f"{REVISIONS}/2/switch", 409, json={})
    await api.json("GET", f"{REVISIONS}/2/comparison", 409)
    await api.json("GET", f"{REVISIONS}/1/comparison", 409)


@pytest.mark.usefixtures("meter")
async def test_a_revision_whose_numbers_are_not_kept_says_since_when(api: Api) -> None:
    await proposed(api)
    await api.json("DELETE", f"{REVISIONS}/2", 204)
    assert "not_kept_since" not in await api.json("GET", f"{REVISIONS}/2")
    ledger = SqlRevisionLedger(api.stores.catalogue.database)  # type: ignore[attr-defined]
    assert await ledger.give_revision_notices(NOW_MS, NOW_MS, 0) == [2]
    shown = await api.json("GET", f"{REVISIONS}/2")
    assert (shown["state"], shown["not_kept_since"]) == ("discarded", AT)
    assert (await api.json("GET", REVISIONS))["data"][0]["not_kept_since"] == AT
    problem = await api.json("GET", f"{REVISIONS}/2/comparison", 409)
    assert f"its numbers are not kept since {AT}" in problem["detail"]
    assert "not_kept_since" not in await api.json("GET", f"{REVISIONS}/1")


async def test_what_is_not_there_is_not_found(api: Api, meter: Any) -> None:
    draft = MeterDraft("distance", "D", Aggregation.COUNT, "flight")
    other = await api.stores.catalogue.create_meter("other", draft, NOW_MS)
    for path in (f"{REVISIONS}/2", f"{PATH}/{other.id}/revisions/2", f"{PATH}/nothing/revisions"):
        await api.json("GET", path, 404)
    await api.json("GET", f"{PATH}/{meter['id']}/revisions/{other.revision}/comparison", 404)
    await api.json("GET", f"{REVISIONS}/x", 404)
    assert set(await api.faults("GET", REVISIONS, params={"page[after]": "x"})) == {"page[after]"}


@pytest.mark.usefixtures("meter")
async def test_all_faults_of_a_proposal_are_told(api: Api) -> None:
    sent = {"event_type": "", "value_property": None, "dimensions": {"1": "$.a"}, "name": "N"}
    assert await api.faults("POST", REVISIONS, json=sent) == {
        "event_type": "min_length",
        "value_property": "type",
        "dimensions.1": "matches_regex",
        "name": "unknown_property",
    }
    found = await api.faults("POST", REVISIONS, json={"dimensions": {"a": "$.distance"}})
    assert set(found) == {"dimensions.a"}
    assert set(await api.faults("POST", REVISIONS, json={"event_type": "flight"})) == {"body"}


def row(subject: str, value: int, count: int = 1, rejected: int = 0) -> UsageRow:
    return UsageRow(0, MINUTE_MS, subject, (), value * UNIT, count, rejected)


@pytest.mark.usefixtures("meter")
async def test_subjects_that_differ_are_compared(api: Api) -> None:
    await proposed(api)
    api.usage.rows_of = {
        1: [row("a", 1), row("b", 2, 2), row("c", 3), row("d", 4), row("f", 0)],
        2: [row("a", 1), row("b", 5, 2), row("c", 0, 0, 1), row("e", 6), row("f", 0, 0, 0)],
    }
    path = f"{REVISIONS}/2/comparison"
    page = await api.json("GET", path, params={"page[size]": "2", "from": AT})
    assert (page["revision"], page["in_force"]) == (2, 1)
    assert (page["subjects"], page["differing"]) == (6, 5)
    assert page["progress"] == {"complete_until": None, "slices_left": 0}
    assert page["data"] == [
        {
            "subject": "b",
            "value_before": "2",
            "value_after": "5",
            "difference": "3",
            "counted_before": 2,
            "counted_after": 2,
            "rejected_before": 0,
            "rejected_after": 0,
        },
        {
            "subject": "c",
            "value_before": "3",
            "value_after": None,
            "difference": "-3",
            "counted_before": 1,
            "counted_after": 0,
            "rejected_before": 0,
            "rejected_after": 1,
        },
    ]
    assert [(one.meter.revision, one.from_ms) for one in api.usage.asked] == [
        (1, NOW_MS),
        (2, NOW_MS),
    ]
    assert all(one.rejected_too and one.group_by == ("subject",) for one in api.usage.asked)
    following = {"page[after]": page["meta"]["page"]["next"]}
    rest = await api.json("GET", path, params=following)
    assert [one["subject"] for one in rest["data"]] == ["d", "e", "f"]
    assert [one["difference"] for one in rest["data"]] == ["-4", "6", "0"]
    assert rest["meta"]["page"]["next"] is None
    everyone = await api.json("GET", path, params={"include_equal": "true"})
    assert len(everyone["data"]) == 6
    assert set(await api.faults("GET", path, params={"from": BORDER, "to": AT})) == {"from"}


@pytest.mark.usefixtures("meter")
async def test_an_answer_is_as_complete_as_the_least_complete_revision(api: Api) -> None:
    await filled(api, 1, NOW_MS + 5)
    await api.json(
        "PUT", f"{PATH}/distance", json={"dimensions": {"to": "$.to"}, "effective_from": BORDER}
    )
    await filled(api, 2, NOW_MS)
    await api.stores.catalogue.switch_filled(2, NOW_MS)
    query = f"{PATH}/distance/query"
    old = await api.json("POST", query, json={"to": BORDER})
    assert old["complete_until"] == "2023-11-14T22:13:20.005Z"
    for asked in ({}, {"from": BORDER}, {"group_by_dimensions": ["origin", "to"]}):
        assert (await api.json("POST", query, json=asked))["complete_until"] == AT
    problem = await api.json("POST", query, 400, json={"group_by_dimensions": ["x"]})
    assert "it has subject, origin, to" in problem["detail"]
