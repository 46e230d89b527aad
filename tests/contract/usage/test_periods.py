"""Periods of the usage store: what they hold, dropping them, and old stores by month."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from meterline.backends.clickhouse.holdings import (
    ClickHouseHoldings,
    ClickHousePeriods,
    period_bounds,
)
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.number import UNIT
from meterline.usage import (
    EVENTS,
    MINUTE_TABLES,
    REJECTS,
    SEEN,
    EventRow,
    Flush,
    MemberRow,
    Period,
    Reach,
    RejectRow,
    SeenRow,
    TallyRow,
)
from meterline.window import MINUTE_MS

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


async def test_months_of_usage_are_dropped_whatever_slices_they_are_of(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, revision = next(fresh_numbers), next(fresh_numbers)
    store = ClickHousePeriods(usage_store.connection)
    holdings = ClickHouseHoldings(usage_store.connection)
    year = 2090 + log % 15
    starts = [int(datetime(year, at, 1, tzinfo=UTC).timestamp()) * 1_000 for at in (1, 2, 3)]
    for slice_, at_ms in enumerate((starts[0], starts[1] - 1, starts[1], starts[2] - 1)):
        await usage_store.write(cells(log, 10 * slice_, revision, at_ms // MINUTE_MS))
    await usage_store.write(cells(log, 90, revision, starts[0] // MINUTE_MS))  # a late one

    async def mine(table: str) -> dict[str, int]:
        ask = f"SELECT _partition_id, uniqExact(slice) FROM {table} WHERE log = {log} GROUP BY 1"
        return {str(name): int(rows) for name, rows in await usage_store.connection.query(ask, {})}

    january, february = f"{year}01", f"{year}02"
    for table in MINUTE_TABLES:
        assert await mine(table) == {january: 3, february: 2}
        old = Period(table, january, starts[0], starts[1])
        assert old in await store.periods()
        assert await store.reach(old, log) == Reach({3: 91}, 0), "up to the first of its last slice"
        kept = (await holdings.holdings(log, {}, {table: january})).rows[table]
        for _ in range(2):
            await store.drop(old)
        assert await mine(table) == {february: 2}
        assert (await holdings.holdings(log, {}, {table: january})).rows[table] == kept
        assert await mine(f"late_{table}"), "those along the log stay"
        await usage_store.write(cells(log, 90, revision, starts[0] // MINUTE_MS))  # once more
        assert (await holdings.holdings(log, {}, {table: january})).rows[table] >= kept
        assert await store.reach(old, log) == Reach({3: 91}, 0)
        await store.drop(old)


def cells(log: int, slice_: int, revision: int, window: int) -> Flush:
    """A tally and a distinct value, in both of their tables."""
    place = (revision, "alice", "[]", window)
    tally = TallyRow(*place, log, 3, slice_, 1, UNIT, 1, 0, UNIT, UNIT, 1, 1, KEY, UNIT)
    member = MemberRow(*place, KEY, log, 3, slice_)
    return Flush(tallies=[tally], members=[member], late_tallies=[tally], late_members=[member])


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("20260105", 1_767_571_200_000, 1_768_175_999_999),
        ("202601", 1_767_225_600_000, 1_769_903_999_999),
        ("202602", 1_769_904_000_000, 1_772_323_199_999),
        ("202612", 1_796_083_200_000, 1_798_761_599_999),
        ("2026", 1_767_225_600_000, 1_798_761_599_999),
    ],
)
async def test_the_name_of_a_period_tells_its_bounds(
    usage_store: ClickHouseUsageStore, name: str, first: int, last: int
) -> None:
    assert period_bounds(name) == (first, last + 1)
    by = {8: "toMonday", 6: "toYYYYMM", 4: "toYear"}[len(name)]
    ask = f"SELECT DISTINCT toString({by}(toDateTime(intDiv(arrayJoin([{first}, {last}]), 1000)"
    found = await usage_store.connection.query(f"{ask}, 'UTC')))", {})
    assert [row[0].replace("-", "") for row in found] == [name]


def test_periods_sort_by_time() -> None:
    names = ["20260105", "20251229", "20260112"]
    made = sorted(Period(EVENTS, name, *period_bounds(name)) for name in names)
    assert [one.from_ms for one in made] == sorted(one.from_ms for one in made)
