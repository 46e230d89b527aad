from typing import Any

from control.stores import Ledger
from meterline.access import Principal, Scope
from meterline.http.gate import Gate
from meterline.usage import AccountLine, MeterAccount
from meterline.window import HOUR_MS
from tests.unit.control.conftest import NOW_MS, Api, ServeApi, ShelfAccounts

PATH = "/api/v3/metering/accounts"
HOUR = NOW_MS // HOUR_MS
METER = {"key": "flights", "name": "Flights", "aggregation": "count", "event_type": "flight"}


async def test_every_number_is_shown_and_they_add_up(api: Api) -> None:
    meter = await api.json("POST", "/api/v3/metering/meters", 201, json=METER)
    api.accounts.lines = [
        AccountLine(HOUR - 1, "s", "flight", 7, 7, 1, 0, 0),
        AccountLine(HOUR, "", "", 0, 0, 0, 0, 2),
        AccountLine(HOUR, "s", "other", 5, 0, 0, 3, 0),
    ]
    api.accounts.meters = [MeterAccount(1, 7, 6, 1)]
    await api.stores.log.append(1, b"[]")
    answer = await api.json("GET", PATH)
    assert answer["from"] == "2023-11-13T23:00:00Z"
    assert answer["to"] == "2023-11-14T23:00:00Z"
    total = {
        "received": 18, "new": 12, "duplicate": 1, "conflict": 3, "invalid": 2, "matched": 7,
        "unmatched": 5,
    }  # fmt: skip
    assert answer["total"] == total
    for name, number in total.items():
        assert number == sum(line[name] for line in answer["data"])
    assert answer["data"][0] == {
        "from": "2023-11-14T21:00:00Z", "to": "2023-11-14T22:00:00Z", "source": "s",
        "type": "flight", "received": 8, "new": 7, "duplicate": 1, "conflict": 0, "invalid": 0,
        "matched": 7, "unmatched": 0,
    }  # fmt: skip
    assert answer["meters"] == [
        {"id": meter["id"], "key": "flights", "matched": 7, "counted": 6, "rejected": 1}
    ]
    assert answer["pending"] == 1
    (asked,) = api.accounts.asked
    assert (asked.namespace, asked.unowned) == ("default", True)
    assert (asked.from_ms, asked.to_ms) == ((HOUR - 23) * HOUR_MS, (HOUR + 1) * HOUR_MS)
    assert [m.key for m in asked.meters] == ["flights"]


async def test_meters_are_left_out_where_nobody_asks_for_them(api: Api) -> None:
    await api.json("POST", "/api/v3/metering/meters", 201, json=METER)
    api.accounts.lines = [AccountLine(HOUR, "s", "flight", 7, 7, 1, 0, 0)]
    api.accounts.meters = [MeterAccount(1, 7, 6, 1)]
    whole = await api.json("GET", PATH, params={"meters": "true"})
    assert len(whole["meters"]) == 1
    lean = await api.json("GET", PATH, params={"meters": "false"})
    assert lean == {**whole, "meters": []}
    assert await api.faults("GET", PATH, params={"meters": "yes"}) == {"meters": "type"}


async def test_hours_are_whole_and_not_too_many(api: Api) -> None:
    faults = await api.faults(
        "GET", PATH, params={"from": "2023-11-14T10:30:00Z", "to": "2023-11-14T09:00:00.001Z"}
    )
    assert faults.keys() == {"from", "to"}
    far = {"from": "2023-01-01T00:00:00Z", "to": "2023-02-01T01:00:00Z"}
    assert await api.faults("GET", PATH, params=far) == {"from": "minimum"}
    assert await api.faults("GET", PATH, params={"hours": "2"}) == {"hours": "unknown_property"}
    month = {"from": "2023-01-01T00:00:00Z", "to": "2023-02-01T00:00:00Z"}
    answer: Any = await api.json("GET", PATH, params=month)
    assert {name: answer[name] for name in month} == month


async def test_another_namespace_sees_its_own_and_nothing_of_the_installation(
    api: Api, serve: ServeApi
) -> None:
    await api.json("POST", "/api/v3/metering/meters", 201, json=METER)
    reader = Principal("acme", "key:1", frozenset({Scope.USAGE_READ}), "1")
    accounts = ShelfAccounts()
    nothing: Any = None
    gate = Gate(api.clock, lambda _header, _now_ms: reader)
    client = await serve(api.stores, gate, Ledger(accounts, nothing, nothing, nothing))
    async with client.get(PATH) as response:
        assert response.status == 200
        assert (await response.json())["meters"] == []
    (asked,) = accounts.asked
    assert (asked.namespace, asked.unowned, asked.meters) == ("acme", False, ())
