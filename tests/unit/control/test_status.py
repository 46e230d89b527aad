import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meterline.access import Principal, Scope
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.event import Layout
from meterline.http.gate import Gate
from meterline.limits import CATCH_UP_STALE_MS, SEALED_ACCOUNT_MS
from meterline.ports import Unavailable
from meterline.usage import AccountRow, CatchingUp, Seal, SliceDifference, SliceId, TableDifference
from meterline.window import rfc3339
from tests.unit.control.conftest import NOW_MS, Api, ServeApi

PATH = "/api/v3/metering/status"
METER = {"key": "flights", "name": "Flights", "aggregation": "count", "event_type": "flight"}


async def _status(api: Api) -> Any:
    status = await api.json("GET", PATH)
    assert await api.json("GET", "/api/v3/openmeter/status") == status
    return status


async def test_an_empty_installation_is_caught_up(api: Api) -> None:
    status = await _status(api)
    log = api.stores.log
    assert status == {
        "log": {"id": log.id, "number": 1, "partitions": 2, "growth": None},
        "catalogue_version": 0,
        "caught_up": True,
        "backfilling": False,
        "backfill_expected_end": None,
        "lag_records": 0,
        "complete_until": None,
        "freshness_ms": None,
        "differing_slices": {"count": 0, "hint": None},
        "account": {"received": 0, "new": 0, "duplicate": 0, "conflict": 0, "invalid": 0},
        "backfill": None,
        "partitions": [
            {
                "partition": number,
                "begin": 0,
                "end": 0,
                "flushed_end": None,
                "lag_records": 0,
                "complete_until": None,
                "catching_up": None,
            }
            for number in (0, 1)
        ],
        "unavailable": [],
    }


async def test_who_may_not_operate_sees_nothing_of_the_installation(
    api: Api, serve: ServeApi
) -> None:
    reader = Principal("acme", "key:1", frozenset({Scope.STATUS_READ}), "1")
    client = await serve(api.stores, Gate(api.clock, lambda _header, _now_ms: reader))
    async with client.get(PATH) as response:
        assert await response.json() == {
            "caught_up": True,
            "backfilling": False,
            "backfill_expected_end": None,
            "lag_records": 0,
            "complete_until": None,
            "freshness_ms": None,
            "differing_slices": {"count": 0, "hint": None},
        }


async def test_what_lies_in_the_log_lags_until_it_is_flushed(api: Api) -> None:
    log, progress = api.stores.log, api.stores.progress
    for _ in range(3):
        await log.append(0, b"[]")
    await log.append(1, b"[]")
    await progress.flushed(log.number, 0, {0: 1})
    status = await _status(api)
    assert (status["caught_up"], status["lag_records"]) == (False, 3)
    assert [p["lag_records"] for p in status["partitions"]] == [2, 1]
    assert [p["end"] for p in status["partitions"]] == [3, 1]
    assert [p["flushed_end"] for p in status["partitions"]] == [1, None]
    await progress.flushed(log.number, 0, {0: 3})
    await progress.flushed(log.number, 0, {1: 1})
    assert (await _status(api))["caught_up"] is True


async def test_a_partition_that_catches_up_says_how_far_it_is(api: Api) -> None:
    log, progress = api.stores.log, api.stores.progress

    async def shown(begun_ms: int, seen_ms: int, keys: int, keys_total: int) -> Any:
        told = CatchingUp(1, begun_ms, seen_ms, keys, keys_total)
        await progress.tell_catch_ups(log.number, [told], [])
        first, second = (await _status(api))["partitions"]
        assert first["catching_up"] is None
        return second["catching_up"]

    assert await shown(NOW_MS, NOW_MS, 0, 0) == {"keys": 0, "keys_total": 0, "expected_end": None}
    assert await shown(NOW_MS - 3_000, NOW_MS - 1_000, 200, 1_000) == {
        "keys": 200,
        "keys_total": 1_000,
        "expected_end": rfc3339(NOW_MS + 7_000),
    }
    assert (await shown(NOW_MS - 3_000, NOW_MS, 900, 800))["expected_end"] == rfc3339(NOW_MS)
    assert await shown(0, NOW_MS - CATCH_UP_STALE_MS - 1, 200, 1_000) is None, "a worker that ended"


async def test_a_new_meter_has_to_be_counted_too(api: Api) -> None:
    log, progress = api.stores.log, api.stores.progress
    await log.append(0, b"[]")
    await progress.flushed(log.number, 0, {0: 1})
    assert (await _status(api))["caught_up"] is True
    await api.json("POST", "/api/v3/metering/meters", 201, json=METER)
    status = await _status(api)
    assert (status["caught_up"], status["catalogue_version"]) == (False, 1)
    await progress.seal(Seal(log.number, 0, 0, 1, events=1, catalogue=0, append_ms=1))
    await progress.flushed(log.number, 1, {0: 1})
    status = await _status(api)
    assert (status["caught_up"], status["backfilling"]) == (False, True)
    await progress.mark_filled(log.number, 0, [0], [1])
    assert (await _status(api))["caught_up"] is True


async def test_how_far_backfill_is_stands_there_while_it_lasts(api: Api) -> None:
    log, progress = api.stores.log, api.stores.progress
    for slice_ in (0, 10, 20, 30):
        await progress.seal(Seal(log.number, 0, slice_, slice_ + 10, 5, catalogue=0, append_ms=1))
    await api.json("POST", "/api/v3/metering/meters", 201, json=METER)
    assert (await _status(api))["backfill"] is None, "nobody has looked yet"
    await progress.begin_filling(log.number, 0, [1], NOW_MS - 300)
    status = await _status(api)
    assert (status["backfilling"], status["backfill_expected_end"]) == (True, None)
    assert status["backfill"]["slices_filled"] == 0
    await progress.mark_filled(log.number, 0, [0], [1], NOW_MS)
    status = await _status(api)
    assert status["backfill"] == {
        "slices_filled": 1,
        "slices": 4,
        "events_filled": 5,
        "events": 20,
    }
    assert status["backfill_expected_end"] == "2023-11-14T22:13:20.900Z"
    await progress.mark_filled(log.number, 0, [10, 20, 30], [1], NOW_MS + 900)
    status = await _status(api)
    assert (status["backfilling"], status["backfill"]) == (False, None)


async def test_slices_that_differ_are_counted_with_what_to_do_until_they_are_mended(
    api: Api,
) -> None:
    progress = api.stores.progress
    tables = (TableDifference("tallies", "3 rows", "2 rows"),)
    there = [SliceDifference(SliceId(1, number, 0), NOW_MS, tables) for number in (0, 1)]
    for one in there:
        assert await progress.record_difference(one)
    told = (await _status(api))["differing_slices"]
    assert told["count"] == 2
    assert "meterline audit --repair" in told["hint"]
    for one in there:
        await progress.mark_mended(one, NOW_MS)
    assert (await _status(api))["differing_slices"] == {"count": 0, "hint": None}


async def test_completeness_account_and_freshness_are_shown(api: Api) -> None:
    progress = api.stores.progress
    api.usage.account_rows = [AccountRow(1, 0, 0, 77, 10, 6, 2, 1, 1)]
    await progress.complete(1, 0, {0: NOW_MS - 5_000})
    await progress.complete(1, 0, {1: NOW_MS - 2_000})
    status = await _status(api)
    assert status["account"] == {
        "received": 10,
        "new": 6,
        "duplicate": 2,
        "conflict": 1,
        "invalid": 1,
    }
    assert status["complete_until"] == "2023-11-14T22:13:15Z"
    assert status["freshness_ms"] == 5_000
    assert [p["complete_until"] for p in status["partitions"]] == [
        "2023-11-14T22:13:15Z",
        "2023-11-14T22:13:18Z",
    ]


async def test_parts_that_are_away_are_null_with_words(
    api: Api, serve: ServeApi, tmp_path: Path
) -> None:
    (tmp_path / "away.db").mkdir()
    away = open_database(f"sqlite:///{tmp_path / 'away.db'}")
    stores = replace(api.stores, catalogue=SqlCatalogueStore(away), progress=SqlProgressStore(away))
    api.usage.away = True
    client = await serve(stores)
    async with client.get(PATH) as response:
        status = await response.json()
    assert response.status == 200
    assert {one["part"] for one in status["unavailable"]} == {"control", "usage"}
    assert all(one["reason"] for one in status["unavailable"])
    nulls = ("caught_up", "lag_records", "complete_until", "account", "catalogue_version")
    assert all(status[name] is None for name in nulls)
    assert [p["end"] for p in status["partitions"]] == [0, 0]
    async with client.get("/readyz") as response:
        problem = await response.json()
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert problem["type"] == "urn:meterline:problem:unavailable"
    assert [one["field"] for one in problem["invalid_parameters"]] == ["control", "usage"]
    async with client.get("/api/v3/metering/meters") as response:
        assert response.status == 503
    await away.close()


async def test_of_whoever_is_caught_up_the_account_is_whole(api: Api, serve: ServeApi) -> None:
    asked: list[str] = []

    class Noted:
        """A store that notes what it is asked."""

        def __init__(self, store: object) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(self._store, name)

    stores = replace(
        api.stores,
        usage=Noted(api.stores.usage),
        progress=Noted(api.stores.progress),
    )
    client = await serve(stores)
    asked.clear()
    async with client.get(PATH) as response:
        assert (await response.json())["caught_up"]
    assert asked.index("flushed_ends") < asked.index("accounts"), "rows are written first"


@pytest.mark.parametrize("hang_at", ["begin", "end"])
async def test_a_part_that_hangs_does_not_hang_the_answer(
    api: Api, serve: ServeApi, hang_at: str
) -> None:
    class Hanging:
        """A log whose broker takes connections and says nothing."""

        id, number, partitions = "log", 1, 2

        def lay_out(self, layout: Layout) -> None:
            assert layout.partitions <= 2

        async def begin(self, partition: int) -> int:
            return await self._answer("begin", partition)

        async def end(self, partition: int) -> int:
            return await self._answer("end", partition)

        async def _answer(self, name: str, partition: int) -> int:
            if name == hang_at and partition == 1:
                await asyncio.sleep(60)
            if partition > 1:
                raise Unavailable("no such partition")
            return 0

    client = await serve(replace(api.stores, log=Hanging()))  # type: ignore[arg-type]
    async with client.get(PATH) as response:
        status = await response.json()
    assert [one["part"] for one in status["unavailable"]] == ["log"]
    assert "3 s" in status["unavailable"][0]["reason"]
    assert status["account"] is not None
    assert status["partitions"][0]["begin"] is None


async def test_sealed_slices_are_added_up_seldom(api: Api) -> None:
    """What they cost grows with all that was ever counted."""

    async def received() -> int:
        return int((await _status(api))["account"]["received"])

    api.usage.account_rows = [
        AccountRow(1, partition, slice_, 0, 1 << at, 1 << at, 0, 0, 0)
        for at, (partition, slice_) in enumerate([(0, 0), (0, 7), (0, 9), (1, 0)])
    ]
    asked = api.usage.accounts_asked
    await api.stores.progress.seal(Seal(1, 0, 0, 7, events=1, catalogue=0, append_ms=1))
    assert await received() == 0b1111
    assert asked[0] == (None, {0: 7})
    assert set(map(str, asked[1:])) == {str(({0: 7}, None))}
    api.usage.account_rows.append(AccountRow(1, 0, 11, 0, 16, 16, 0, 0, 0))
    await api.stores.progress.seal(Seal(1, 0, 7, 9, events=1, catalogue=0, append_ms=2))
    asked.clear()
    assert await received() == 0b11111, "it is sealed, and counts among those since"
    assert set(map(str, asked)) == {str(({0: 7}, None))}
    api.clock.at_ms += SEALED_ACCOUNT_MS
    asked.clear()
    assert await received() == 0b11111
    assert asked[:2] == [(None, {0: 9}), ({0: 9}, None)]
