"""Contract of `AccountStore`, over chDB and a ClickHouse server, against an oracle."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import msgspec
import pytest

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.accounts import ClickHouseAccounts
from meterline.event import Event, Verdict, decode_event
from meterline.meter import Aggregation, Meter
from meterline.usage import AccountLine, AccountQuery, AccountRow, Flush
from tests.accounted import added_up
from tests.contract.usage.event_feed import BEGIN_MS, HOUR_MS, Feed
from tests.contract.usage.slices import event, folded, meter

YEAR_1_MS, YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_000  # meters may say so


@pytest.fixture
def feed(usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]) -> Feed:
    return Feed(usage_store, next(fresh_numbers), uuid4().hex)


def _expected(feed: Feed, query: AccountQuery) -> list[AccountLine]:
    lines: dict[tuple[int, str, str], Counter[str]] = {}
    for one in feed.known:
        if query.from_ms <= one.append_ms < query.to_ms:
            counts = lines.setdefault((one.append_ms // HOUR_MS, one.source, one.type), Counter())
            counts[one.verdict.value] += 1
            counts["matched"] += one.verdict is Verdict.NEW and any(
                m.event_type == one.type and one.time_ms >= (m.events_from_ms or 0)
                for m in query.meters
            )
    names = ("new", "matched", "duplicate", "conflict", "invalid")
    return [
        AccountLine(*key, *(counts[name] for name in names))
        for key, counts in sorted(lines.items(), key=lambda item: _code_points(item[0]))
    ]


def _code_points(key: tuple[int, str, str]) -> tuple[int, bytes, bytes]:
    return key[0], key[1].encode(), key[2].encode()


async def test_every_event_is_in_one_line(feed: Feed) -> None:
    await feed.many(60, random.Random(1))
    accounts = ClickHouseAccounts(feed.store.connection)
    meters = [replace(meter(n), event_type=name) for n, name in ((1, "alicet"), (2, "Bobt"))]
    meters.append(replace(meters[0], revision=3, events_from_ms=BEGIN_MS + 3 * HOUR_MS + 1))
    meters.append(replace(meters[2], event_type="zoët"))
    meters.append(replace(meters[0], revision=5, events_from_ms=YEAR_1_MS))
    meters.append(replace(meters[1], revision=6, events_from_ms=YEAR_9999_MS))
    first, end = BEGIN_MS, BEGIN_MS + 9 * HOUR_MS
    for chosen in ([], meters[:1], meters[2:], meters):
        for from_ms in (first, first + 2 * HOUR_MS):
            query = AccountQuery(feed.namespace, from_ms, end, tuple(chosen))
            lines = await accounts.account_lines(query)
            assert lines == _expected(feed, query)
            assert lines
    whole = AccountQuery(feed.namespace, first, end)
    received = sum(line.received for line in await accounts.account_lines(whole))
    assert received == len(feed.known)
    strange = replace(whole, namespace=uuid4().hex)
    assert await accounts.account_lines(strange) == []


async def test_meters_match_what_they_count_and_reject(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    sums: Meter = meter(next(fresh_numbers))
    namespace = uuid4().hex
    sums = replace(sums, namespace=namespace)
    counts = replace(
        meter(next(fresh_numbers), Aggregation.COUNT), namespace=namespace,
        event_type=sums.event_type,
    )  # fmt: skip
    late = replace(
        sums, revision=next(fresh_numbers), events_from_ms=BEGIN_MS + 90_500, id="late"
    )  # from within a minute
    made: list[Event] = [
        event(sums, n, f"2026-01-01T00:0{n % 4}:{n % 60:02d}Z", {"v": n if n % 3 else "x"})
        for n in range(100)
    ]
    events = [_of(one, namespace) for one in made]
    ever = replace(sums, revision=next(fresh_numbers), events_from_ms=YEAR_1_MS, id="ever")
    never = replace(sums, revision=next(fresh_numbers), events_from_ms=YEAR_9999_MS, id="never")
    meters = (sums, counts, late, ever, never)
    open_slice = folded(log, list(meters), events)
    await usage_store.write(open_slice.take())
    accounts = ClickHouseAccounts(usage_store.connection)
    query = AccountQuery(namespace, 0, HOUR_MS, meters)  # `folded` appends at 1 s past 1970
    found = {one.revision: one[1:] for one in await accounts.meter_accounts(query)}
    bad = len(range(0, 100, 3))
    assert found[sums.revision] == (100, 100 - bad, bad)
    assert found[counts.revision] == (100, 100, 0)
    assert found[ever.revision] == found[sums.revision]
    assert found[never.revision] == (0, 0, 0)
    behind = [n for n, one in enumerate(events) if one.time_ms >= BEGIN_MS + 90_500]
    usable = [n for n in behind if n % 3]
    assert found[late.revision] == (len(behind), len(usable), len(behind) - len(usable))
    assert len(behind) % 50, "the cut minute counts in part"
    nothing = await accounts.meter_accounts(replace(query, from_ms=HOUR_MS, to_ms=2 * HOUR_MS))
    assert {one[1:] for one in nothing} == {(0, 0, 0)}


def _of(one: Event, namespace: str) -> Event:
    document = {**msgspec.json.decode(one.text), "namespace": namespace}
    return decode_event(msgspec.json.encode(document))


async def test_accounts_of_some_slices_are_added_up(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    rows = [
        AccountRow(log, partition, slice_, 9, 1 << number, 1 << number, 0, 0, 0)
        for number, (partition, slice_) in enumerate([(0, 0), (0, 5), (0, 9), (1, 0), (2, 7)])
    ]
    await usage_store.write(Flush(accounts=rows))
    for first in (None, {}, {0: 0}, {0: 5}, {0: 6, 2: 8}, {1: 0, 2: 7}, {0: 10, 1: 1, 2: 8}):
        found = await usage_store.accounts(log, first=first)
        assert found == added_up(log, rows, first, None), first
    for end in ({}, {0: 0}, {0: 5}, {0: 6, 2: 8}, {1: 1}, {0: 10, 1: 1, 2: 8}):
        found = await usage_store.accounts(log, end=end)
        assert found == added_up(log, rows, None, end), end
        others = await usage_store.accounts(log, first=end)
        assert found.received + others.received == 0b11111, end
