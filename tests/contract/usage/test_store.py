"""Contract of `UsageStore`, over chDB and a ClickHouse server."""

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec
import pytest
from clickhouse_connect.driver.exceptions import DataError

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Record, RecordKind
from meterline.meter import Aggregation
from meterline.number import UNIT, text
from meterline.ports import AccessRefused, Unavailable
from meterline.usage import (
    AccountRow,
    Filter,
    Flush,
    Operator,
    SeenRow,
    SliceId,
    TallyRow,
    UsageQuery,
    UsageRow,
)
from meterline.window import WindowSize, parse_instant, rfc3339, window_starts
from tests.contract.usage.slices import HORIZON_MS, event, folded, meter


@pytest.fixture
def store(usage_store: ClickHouseUsageStore) -> ClickHouseUsageStore:
    return usage_store


def shown(rows: list[UsageRow]) -> list[tuple[object, ...]]:
    return [
        (rfc3339(r.from_ms), rfc3339(r.to_ms), r.subject, dict(r.groups), text(r.value))
        for r in rows
    ]


async def test_what_is_written_is_counted_back_to_the_bit(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    sums = meter(next(fresh_numbers), groups=("g",))
    unique = replace(
        meter(next(fresh_numbers), Aggregation.UNIQUE_COUNT), event_type=sums.event_type
    )
    data: list[dict[str, object]] = [
        {"v": "-12345678901234567890.123456789012345678", "g": 'é"|\\\n\x00'},
        {"v": Decimal("0.5"), "g": None},
        {"v": None},
        {"v": True, "g": [1]},
    ]
    events = [event(sums, i, "2026-01-01T00:00:01Z", d) for i, d in enumerate(data)]
    open_slice = folded(log, [sums, unique], events)
    await store.write(open_slice.take())
    revisions = [sums.revision, unique.revision]
    assert await store.count_back(open_slice.id, revisions) == open_slice.counted()
    assert open_slice.counted()["rejected"].rows == 3
    assert await store.account(open_slice.id) == open_slice.account()
    assert await store.accounts(log) == open_slice.account()._replace(slice=0, partition=0)


async def test_count_back_notices_a_missing_and_a_superseded_row(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, sums = next(fresh_numbers), meter(next(fresh_numbers))
    events = [event(sums, i, f"2026-01-01T00:0{i}:00Z", {"v": i}) for i in range(5)]
    open_slice = folded(log, [sums], events)
    flush = open_slice.take()
    missing = Flush(events=flush.events[1:], seen=flush.seen, tallies=flush.tallies)
    await store.write(missing)
    stored = await store.count_back(open_slice.id, [sums.revision])
    assert stored["tallies"] == open_slice.counted()["tallies"]
    assert stored["events"] != open_slice.counted()["events"]
    await store.write(flush)
    later = flush.tallies[0]._replace(version=flush.tallies[0].version + 1, total=1)
    await store.write(Flush(tallies=[later]))
    stored = await store.count_back(open_slice.id, [sums.revision])
    assert stored["tallies"].rows == 5
    assert stored["tallies"] != open_slice.counted()["tallies"]
    assert stored["events"] == open_slice.counted()["events"]


@pytest.mark.parametrize(
    "places",
    [(), (0,), (5,), (0, 5), (0, 1, 2, 3, 4, 5), (5, 3, 4, 2), (0, 1, 2, 4, 5), (1, 3), (9, 2)],
)
async def test_count_back_counts_the_rows_of_the_revisions_that_are_given(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int], places: tuple[int, ...]
) -> None:
    log, first = next(fresh_numbers), next(fresh_numbers)
    numbers = [next(fresh_numbers) for _ in range(5)]
    assert numbers == list(range(first + 1, first + 6))
    meters = [meter(number) for number in (first, *numbers)]
    meters = [replace(one, event_type=meters[0].event_type) for one in meters]
    open_slice = folded(log, meters, [event(meters[0], 0, "2026-01-01T00:00:00Z", {"v": 1})])
    await store.write(open_slice.take())
    there = await store.count_back(open_slice.id, [first + place for place in places])
    assert there["tallies"].rows == len([place for place in places if place < len(meters)])


async def test_repeated_and_late_writes_change_nothing(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, sums = next(fresh_numbers), meter(next(fresh_numbers))
    parts = []
    open_slice = folded(log, [sums], [event(sums, 0, "2026-01-01T00:00:00Z", {"v": 1})])
    parts.append(open_slice.take())
    for offset in range(1, 6):
        record = Record(0, offset, 1000, RecordKind.PACK, b"", "log")
        more = [event(sums, offset, "2026-01-01T00:00:00Z", {"v": 10**offset})]
        open_slice.absorb(record, 1000, more, {}, HORIZON_MS)
        parts.append(open_slice.take())
    shuffled = parts * 2
    random.Random(7).shuffle(shuffled)
    for part in shuffled:
        await store.write(part)
    (row,) = await store.usage(UsageQuery(sums))
    assert text(row.value) == "111111"
    assert await store.count_back(open_slice.id, [sums.revision]) == open_slice.counted()


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (Aggregation.SUM, "6.5"),
        (Aggregation.COUNT, "5"),
        (Aggregation.AVG, "1.625"),
        (Aggregation.MIN, "-1.5"),
        (Aggregation.MAX, "5"),
        (Aggregation.LATEST, "3"),
        (Aggregation.UNIQUE_COUNT, "3"),
    ],
)
async def test_every_aggregation(
    store: ClickHouseUsageStore,
    fresh_numbers: Iterator[int],
    aggregation: Aggregation,
    expected: str,
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers), aggregation)
    values: list[object] = [5, "-1.50", 0, None, Decimal("3.0")]
    if aggregation is Aggregation.UNIQUE_COUNT:
        values = ["a", "b", "a", None, Decimal("3.0")]
    events = [
        event(of, i, f"2026-03-0{1 + i}T10:00:00Z", {"v": value}) for i, value in enumerate(values)
    ]
    await store.write(folded(log, [of], events[:3]).take())
    await store.write(folded(log, [of], events[3:], offset=9).take())
    (row,) = await store.usage(UsageQuery(of))
    assert text(row.value) == expected
    assert row.rejected == (0 if aggregation is Aggregation.COUNT else 1)
    assert (rfc3339(row.from_ms), rfc3339(row.to_ms)) == (
        "2026-03-01T10:00:00Z",
        "2026-03-05T10:01:00Z",
    )


async def test_windows_groups_filters_and_zones(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers), groups=("model", "region"))
    # New York's clocks go forward on 2026-03-08 at 07:00 UTC: that local day has 23 hours.
    instants = ["2026-03-08T04:59:59.999Z", "2026-03-08T05:00:00Z", "2026-03-09T03:59:59Z"]
    events = [
        event(of, i, at, {"v": 1 + i, "model": "x" if i else "y", "region": "eu"}, "bob")
        for i, at in enumerate(instants)
    ]
    await store.write(folded(log, [of], events).take())
    query = UsageQuery(of, window=WindowSize.DAY, zone=ZoneInfo("America/New_York"))
    assert shown(await store.usage(query)) == [
        ("2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", None, {}, "1"),
        ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", None, {}, "5"),
    ]
    query = UsageQuery(of, window=WindowSize.MONTH, group_by=("region", "subject", "model"))
    march = ("2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", "bob")
    assert shown(await store.usage(query)) == [
        (*march, {"region": "eu", "model": "x"}, "5"),
        (*march, {"region": "eu", "model": "y"}, "1"),
    ]
    either = Filter(
        Operator.OR,
        parts=(Filter(Operator.CONTAINS, ("z",)), Filter(Operator.NEQ, ("x",))),
    )
    hour = replace(query, window=WindowSize.HOUR, filters=(("model", either),))
    assert [text(r.value) for r in await store.usage(hour)] == ["1"]
    for operator, values, total in [
        (Operator.EQ, ("x",), ["5"]),
        (Operator.IN, ("x", "y"), ["6"]),
        (Operator.NIN, ("x", "y"), []),
        (Operator.NCONTAINS, ("x",), ["1"]),
        (Operator.EXISTS, ("true",), ["6"]),
        (Operator.EXISTS, ("false",), []),
    ]:
        filtered = UsageQuery(of, filters=(("model", Filter(operator, values)),))
        assert [text(r.value) for r in await store.usage(filtered)] == total, operator
    other = UsageQuery(of, filters=(("subject", Filter(Operator.EQ, ("alice",))),))
    assert await store.usage(other) == []


@pytest.mark.parametrize(
    "aggregation", [Aggregation.SUM, Aggregation.UNIQUE_COUNT, Aggregation.LATEST]
)
async def test_minutes_are_cut_to_the_millisecond(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int], aggregation: Aggregation
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers), aggregation)
    base = parse_instant("2026-05-05T05:05:00Z")
    offsets = [-1, 0, 1, 29_999, 30_000, 59_999, 60_000, 90_000, 119_999, 120_000]
    events = [event(of, i, rfc3339(base + ms), {"v": 7 * i % 4}) for i, ms in enumerate(offsets)]
    await store.write(folded(log, [of], events).take())
    for first in (-1, 0, 1, 30_000, 60_000):
        for end in (2, 30_000, 60_000, 60_001, 120_000, 150_000):
            inside = [7 * i % 4 for i, ms in enumerate(offsets) if first <= ms < end]
            expected = {
                Aggregation.SUM: sum(inside),
                Aggregation.UNIQUE_COUNT: len(set(inside)),
                Aggregation.LATEST: inside[-1] if inside else 0,
            }[aggregation]
            if first >= end:
                continue
            rows = await store.usage(UsageQuery(of, base + first, base + end))
            assert [r.value for r in rows] == ([expected * UNIT] if inside else []), (first, end)
            days = await store.usage(
                UsageQuery(of, base + first, base + end, window=WindowSize.DAY)
            )
            assert [r.value for r in days] == [r.value for r in rows]


async def test_events_and_seen_are_read_back_in_order(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    events = [event(of, i, "2026-01-01T00:00:00Z", {"v": i}) for i in range(3)]
    first = folded(log, [of], events[:2])
    second = folded(log, [of], events[2:], offset=5)
    flushes = [first.take(), second.take()]
    for flush in [*flushes, flushes[0]]:
        await store.write(flush)
    rows = await store.slice_events(first.id)
    assert [(r.offset, r.place, r.text) for r in rows] == [
        (0, i, e.text) for i, e in enumerate(events[:2])
    ]
    assert await store.slice_events(first.id, [("default", "other")]) == []
    assert await store.slice_events(first.id, [("default", of.event_type)]) == rows
    seen = [row async for rows in store.seen_between(log, 0, 0, 6) for row in rows]
    assert [(s.offset, s.place, s.key) for s in seen] == [
        (0, 0, events[0].key),
        (0, 1, events[1].key),
        (5, 0, events[2].key),
    ]
    assert seen[0] == SeenRow(log, 0, 0, 0, 0, 1000, events[0].key, events[0].check)
    assert [row async for rows in store.seen_between(log, 0, 1, 5) for row in rows] == []


async def test_rejected_values_come_in_pages(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    values: list[dict[str, object]] = [{"v": None}, {}, {"v": "x"}, {"v": True}, {"v": 10**20}]
    events = [event(of, i, "2026-01-01T00:00:00Z", d) for i, d in enumerate(values)]
    await store.write(folded(log, [of], events).take())
    page = await store.rejected(of, 3, None)
    rest = await store.rejected(of, 3, f"{log}.0.{page[-1].offset}.{page[-1].place}")
    assert [r.reason for r in page + rest] == [
        "null",
        "missing",
        "not_a_number",
        "boolean",
        "out_of_range",
    ]
    assert page[2].value == '"x"'


async def test_a_flush_may_span_more_years_than_an_insert(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    years = [*range(1970, 2100)]
    events = [event(of, y, f"{y}-06-01T00:00:00Z", {"v": 1}) for y in years]
    open_slice = folded(log, [of], events)
    await store.write(open_slice.take())
    (row,) = await store.usage(UsageQuery(of))
    assert row.value == len(years) * UNIT
    assert await store.count_back(open_slice.id, [of.revision]) == open_slice.counted()


async def test_sums_do_not_wrap(store: ClickHouseUsageStore, fresh_numbers: Iterator[int]) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    largest = "99999999999999999999.999999999999999999"
    events = [event(of, i, "2026-01-01T00:00:00Z", {"v": largest}) for i in range(400)]
    await store.write(folded(log, [of], events).take())
    (row,) = await store.usage(UsageQuery(of))
    assert text(row.value) == "39999999999999999999999.9999999999999996"


async def test_latest_of_equal_times_is_what_came_last_then_the_greatest_key(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    at = "2026-03-01T10:00:00Z"
    for ascending in (True, False):  # neither the place in a pack nor the slice decides
        log, of = next(fresh_numbers), meter(next(fresh_numbers), Aggregation.LATEST)
        together = [event(of, i, at, {"v": i}) for i in range(1, 6)]
        together.sort(key=lambda one: one.key, reverse=not ascending)
        greatest = max(together, key=lambda one: one.key)
        await store.write(folded(log, [of], together[:3]).take())
        await store.write(folded(log, [of], together[3:], offset=9).take())
        (row,) = await store.usage(UsageQuery(of))
        assert text(row.value) == greatest.id.removeprefix("e")
        least = min(together, key=lambda one: one.key)
        later = msgspec.structs.replace(
            event(of, 7, at, {"v": 7}), key=least.key, recorded_ms=least.recorded_ms + 1
        )
        await store.write(folded(log, [of], [later], offset=18).take())
        (row,) = await store.usage(UsageQuery(of))
        assert text(row.value) == "7"


async def test_nothing_is_there_at_first(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    await store.answers()
    assert await store.usage(UsageQuery(of)) == []
    assert await store.account(SliceId(log, 0, 0)) is None
    assert await store.accounts(log) == AccountRow(log, 0, 0, 0, 0, 0, 0, 0, 0)
    counted = await store.count_back(SliceId(log, 0, 0), [])
    assert {c.rows for c in counted.values()} == {0}
    assert len(counted) == 8


async def test_a_store_that_is_away_is_unavailable() -> None:
    away = ClickHouseUsageStore(Connection("http://127.0.0.1:9"))
    row = TallyRow(1, "s", "[]", 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(16), 0)
    with pytest.raises(Unavailable, match="usage store"):
        await away.write(Flush(tallies=[row]))
    with pytest.raises(Unavailable, match="usage store"):
        await away.answers()
    await away.close()


async def test_usage_at_the_epoch_in_a_western_zone(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    await store.write(folded(log, [of], [event(of, 0, "1970-01-01T00:30:00Z", {"v": 1})]).take())
    zone = ZoneInfo("America/New_York")
    starts = {
        WindowSize.MONTH: "1969-12-01T05:00:00Z",
        WindowSize.DAY: "1969-12-31T05:00:00Z",
        WindowSize.HOUR: "1970-01-01T00:00:00Z",
    }
    for window, start in starts.items():
        (row,) = await store.usage(UsageQuery(of, window=window, zone=zone))
        assert (rfc3339(row.from_ms), row.value) == (start, UNIT)
        assert window_starts(0, 0, window, zone) == [row.from_ms, row.to_ms]
        # cut from the raw event it lies in the same window
        cut = UsageQuery(of, window=window, zone=zone, from_ms=1_800_000, to_ms=1_800_001)
        assert await store.usage(cut) == [row]


async def test_a_value_that_no_column_takes_is_our_fault_and_not_waited_for(
    store: ClickHouseUsageStore,
) -> None:
    row = TallyRow(1, "s", "[]", -1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(16), 0)
    with pytest.raises(DataError):
        await store.write(Flush(tallies=[row]))
    key, check = bytes(16), bytes(8)
    for seen in (
        SeenRow(1, 0, 0, 1 << 16, 0, 0, key, check),
        SeenRow(1, 0, 0, 0, 0, 0, key[1:], check),
        SeenRow(1, 0, 0, 0, 0, 0, key, check + b"more"),
    ):
        with pytest.raises(DataError):
            await store.write(Flush(seen=[seen]))


async def test_a_wrong_password_refuses_the_access(clickhouse: str) -> None:
    store = Connection(f"http://default:wrong@{urlsplit(clickhouse).netloc.rpartition('@')[2]}")
    with pytest.raises(AccessRefused, match="Authentication failed"):
        await store.execute("SELECT 1")
    await store.close()
