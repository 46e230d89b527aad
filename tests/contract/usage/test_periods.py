"""Periods of the usage store: what they hold, dropping them, and old stores by month."""

from collections.abc import Iterator

import pytest

from meterline.backends.clickhouse.holdings import (
    ClickHouseHoldings,
    ClickHousePeriods,
    period_bounds,
)
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    EventRow,
    Flush,
    Period,
    Reach,
    RejectRow,
    SeenRow,
)

WEEK_MS = 7 * 86_400_000
FAR_MS = 3_155_760_000_000  # 2070: no other test writes there, or until ten years later
KEY, CHECK = bytes(16), bytes(8)


def rows(log: int, offset: int, append_ms: int, time_ms: int = 0) -> Flush:
    """One row for each table."""
    names = ("default", "t", "alice", "s", f"e{offset}")
    place = (log, 3, offset, 0, offset, append_ms)
    event = EventRow(*place, KEY, *names, time_ms, append_ms, b"{}")
    refused = RejectRow(*event, "duplicate", 0, "", "")
    return Flush(events=[event], rejects=[refused], seen=[SeenRow(*place, KEY, CHECK)])


async def test_a_period_is_dropped_as_a_whole_and_is_not_held_any_more(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, other = next(fresh_numbers), next(fresh_numbers)
    store = ClickHousePeriods(usage_store.connection)
    holdings = ClickHouseHoldings(usage_store.connection)
    week_ms = FAR_MS - FAR_MS % WEEK_MS + 4 * 86_400_000 + 200 * WEEK_MS  # a Monday
    week_ms += (log % 100) * 2 * WEEK_MS
    for number, append_ms in enumerate((week_ms, week_ms + WEEK_MS - 1, week_ms + WEEK_MS)):
        await usage_store.write(rows(log, 10 * number, append_ms, 70 + number))
    await usage_store.write(rows(other, 90, week_ms, 99))
    mine = [one for one in await store.periods() if week_ms <= one.from_ms <= week_ms + WEEK_MS]
    assert sorted({one.table for one in mine}) == sorted((EVENTS, REJECTS, SEEN))
    assert len(mine) == 6
    old = {one.table: one for one in mine if one.from_ms == week_ms}
    assert {one.to_ms for one in old.values()} == {week_ms + WEEK_MS}
    assert await store.reach(old[EVENTS], log) == Reach({3: 11}, 99)
    assert await store.reach(old[SEEN], other) == Reach({3: 91}, 0)
    # With one that is not kept, its rows do not count, and neither do older ones.
    after = {EVENTS: old[EVENTS].name}
    whole = (await holdings.holdings(log, {}, {})).rows
    kept = (await holdings.holdings(log, {}, after)).rows
    assert whole[EVENTS] - kept[EVENTS] >= 3
    assert whole[SEEN] == kept[SEEN]
    for table in (EVENTS, EVENTS, REJECTS):  # again: it is gone already
        await store.drop(old[table])
    left = [one for one in await store.periods() if week_ms <= one.from_ms <= week_ms + WEEK_MS]
    assert set(left) == set(mine) - {old[EVENTS], old[REJECTS]}
    assert await store.reach(old[EVENTS], log) == Reach({}, 0)
    assert (await holdings.holdings(log, {}, after)).rows[EVENTS] == kept[EVENTS]
    await usage_store.write(rows(log, 0, week_ms))  # a worker that stood still writes it again
    assert old[EVENTS] in await store.periods()
    assert (await holdings.holdings(log, {}, after)).rows[EVENTS] == kept[EVENTS]


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("20260105", 1_767_571_200_000, 1_768_175_999_999),
        ("202601", 1_767_225_600_000, 1_769_903_999_999),
        ("202602", 1_769_904_000_000, 1_772_323_199_999),
        ("202612", 1_796_083_200_000, 1_798_761_599_999),
    ],
)
async def test_the_name_of_a_period_tells_its_bounds(
    usage_store: ClickHouseUsageStore, name: str, first: int, last: int
) -> None:
    assert period_bounds(name) == (first, last + 1)
    by = "toMonday" if len(name) == 8 else "toYYYYMM"
    ask = f"SELECT DISTINCT toString({by}(toDateTime(intDiv(arrayJoin([{first}, {last}]), 1000)"
    found = await usage_store.connection.query(f"{ask}, 'UTC')))", {})
    assert [row[0].replace("-", "") for row in found] == [name]


def test_periods_sort_by_time() -> None:
    names = ["20260105", "20251229", "20260112"]
    made = sorted(Period(EVENTS, name, *period_bounds(name)) for name in names)
    assert [one.from_ms for one in made] == sorted(one.from_ms for one in made)
