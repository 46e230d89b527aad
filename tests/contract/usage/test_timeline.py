"""Queries of a meter whose revisions answer each a part of time, against a recount of the events
that shares no code with the answer.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Event
from meterline.meter import Aggregation, switched
from meterline.number import text
from meterline.usage import Filter, Operator, UsageQuery, UsageRow
from meterline.window import MINUTE_MS, WindowSize, parse_instant, rfc3339
from tests.contract.usage.slices import event, folded, meter

START_MS = parse_instant("2026-03-01T00:00:00Z")
BORDER_MS = START_MS + 90 * MINUTE_MS
LATER_MS = START_MS + 150 * MINUTE_MS
END_MS = START_MS + 240 * MINUTE_MS
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def store(usage_store: ClickHouseUsageStore) -> ClickHouseUsageStore:
    return usage_store


class History:
    """Three revisions of one meter: other groups, another value, another event type."""

    def __init__(self, numbers: Iterator[int], aggregation: Aggregation) -> None:
        self.log = next(numbers)
        first = meter(next(numbers), aggregation, groups=("model",))
        second = replace(
            meter(next(numbers), aggregation, groups=("model", "region")),
            event_type=first.event_type,
            value_property=None if aggregation is Aggregation.COUNT else "$.w",
        )
        third = meter(next(numbers), aggregation, groups=("region",))
        self.revisions = [first, second, third]
        self.meter = switched(switched(first, second, BORDER_MS), third, LATER_MS)
        self.events: list[tuple[Event, dict[str, object]]] = []

    async def happen(self, store: ClickHouseUsageStore, seed: int) -> None:
        """Events of all times in every revision, as the fold counts them."""
        rng = random.Random(seed)
        for number in range(160):
            of = rng.choice([self.revisions[0], self.revisions[2]])
            at_ms = rng.choice(
                [rng.randrange(START_MS, END_MS), BORDER_MS, BORDER_MS - 1, LATER_MS, LATER_MS - 1]
            )
            data: dict[str, object] = {
                "v": rng.randrange(9),
                "w": rng.randrange(9),
                "model": rng.choice("xy"),
                "region": rng.choice(["eu", "us"]),
            }
            if rng.random() < 0.1:
                data["v"] = data["w"] = None
            subject = rng.choice(["alice", "bob"])
            made = event(of, number, rfc3339(at_ms), data, subject)
            self.events.append((made, data))
        both = [one for one, _ in self.events]
        await store.write(folded(self.log, self.revisions, both[:90]).take())
        await store.write(folded(self.log, self.revisions, both[90:], offset=9).take())

    def told(self, from_ms: int, to_ms: int) -> Iterator[tuple[Event, str, str, object]]:
        """Event, model, region and value of what the revision of its time takes; by hand."""
        first, second, third = self.revisions
        for one, data in self.events:
            at_ms = one.time_ms
            of = first if at_ms < BORDER_MS else second if at_ms < LATER_MS else third
            if one.type != of.event_type or not from_ms <= at_ms < to_ms:
                continue
            model = "" if of is third else str(data["model"])
            region = "" if of is first else str(data["region"])
            yield one, model, region, data["w" if of is second else "v"]


def result(aggregation: Aggregation, values: list[tuple[int, bytes, object]]) -> str | None:
    """What the values come to, as text; None where nothing counted."""
    counted = [(at_ms, key, value) for at_ms, key, value in values if value is not None]
    numbers = [int(str(value)) for _, _, value in counted]
    if aggregation is Aggregation.COUNT:
        return str(len(values)) if values else None
    if not counted:
        return None
    results: dict[Aggregation, Callable[[], object]] = {
        Aggregation.SUM: lambda: sum(numbers),
        Aggregation.MIN: lambda: min(numbers),
        Aggregation.MAX: lambda: max(numbers),
        Aggregation.UNIQUE_COUNT: lambda: len(set(numbers)),
        Aggregation.AVG: lambda: Fraction(sum(numbers), len(numbers)),
        Aggregation.LATEST: lambda: max((at, key, int(str(v))) for at, key, v in counted)[2],
    }
    return str(results[aggregation]())


def near(value: str, expected: str) -> bool:
    """Equal, or an average that was rounded at the 18th digit."""
    return abs(Fraction(value) - Fraction(expected)) < Fraction(1, 10**17)


def agree(rows: list[UsageRow], expected: dict[tuple[object, ...], str | None]) -> None:
    found: dict[tuple[object, ...], str] = {
        (row.from_ms, row.subject, *(value for _, value in row.groups)): text(row.value)
        for row in rows
    }
    wanted = {key: value for key, value in expected.items() if value is not None}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert near(found[key], value), key


@pytest.mark.parametrize("aggregation", list(Aggregation))
async def test_windows_on_both_sides_of_a_border_and_across_it(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int], aggregation: Aggregation
) -> None:
    history = History(fresh_numbers, aggregation)
    await history.happen(store, seed=7)
    spans = [
        (START_MS, END_MS),  # over all three
        (START_MS, BORDER_MS),  # before the border
        (BORDER_MS, LATER_MS),  # between
        (LATER_MS, END_MS),
        (BORDER_MS - MINUTE_MS, BORDER_MS + MINUTE_MS),
        (BORDER_MS - 30_000, LATER_MS + 1),  # both ends cut
        (BORDER_MS - 1, BORDER_MS + 1),
    ]
    for from_ms, to_ms in spans:
        sides: dict[tuple[object, ...], list[tuple[int, bytes, object]]] = defaultdict(list)
        for one, _, _, value in history.told(from_ms, to_ms):
            sides[from_ms, one.subject].append((one.time_ms, one.key, value))
        rows = await store.usage(UsageQuery(history.meter, from_ms, to_ms, group_by=("subject",)))
        agree(rows, {key: result(aggregation, values) for key, values in sides.items()})


@pytest.mark.parametrize("aggregation", [Aggregation.SUM, Aggregation.UNIQUE_COUNT])
async def test_groups_that_only_one_of_them_has_are_empty_elsewhere(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int], aggregation: Aggregation
) -> None:
    history = History(fresh_numbers, aggregation)
    await history.happen(store, seed=11)
    for from_ms, to_ms in [(START_MS, END_MS), (START_MS + 30_000, LATER_MS + 90_001)]:
        groups: dict[tuple[object, ...], list[tuple[int, bytes, object]]] = defaultdict(list)
        hours: dict[tuple[object, ...], list[tuple[int, bytes, object]]] = defaultdict(list)
        for one, model, region, value in history.told(from_ms, to_ms):
            counted = (one.time_ms, one.key, value)
            groups[from_ms, None, model, region].append(counted)
            hours[one.time_ms // HOUR_MS * HOUR_MS, one.subject, region].append(counted)
        query = UsageQuery(history.meter, from_ms, to_ms, group_by=("model", "region"))
        rows = await store.usage(query)
        agree(rows, {key: result(aggregation, values) for key, values in groups.items()})
        assert {"", "x"} <= {dict(row.groups)["model"] for row in rows}
        by_hour = replace(query, window=WindowSize.HOUR, group_by=("subject", "region"))
        rows = await store.usage(by_hour)
        agree(rows, {key: result(aggregation, values) for key, values in hours.items()})


async def test_a_filter_sees_what_a_revision_has_not_as_empty(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    history = History(fresh_numbers, Aggregation.COUNT)
    await history.happen(store, seed=13)
    told = list(history.told(START_MS + 1, END_MS - 1))
    cases: list[tuple[Filter, Callable[[str], bool]]] = [
        (Filter(Operator.EQ, ("eu",)), lambda region: region == "eu"),
        (Filter(Operator.NEQ, ("eu",)), lambda region: region != "eu"),
        (Filter(Operator.EXISTS, ("false",)), lambda region: region == ""),
        (Filter(Operator.CONTAINS, ("u",)), lambda region: "u" in region),
        (Filter(Operator.NIN, ("us", "")), lambda region: region == "eu"),
    ]
    for condition, passes in cases:
        query = UsageQuery(
            history.meter, START_MS + 1, END_MS - 1, filters=(("region", condition),)
        )
        (row,) = await store.usage(query)
        assert row.count == sum(passes(region) for _, _, region, _ in told), condition


async def test_months_across_a_border_and_open_ends(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    history = History(fresh_numbers, Aggregation.SUM)
    await history.happen(store, seed=17)
    total = sum(int(str(v)) for *_, v in history.told(0, 1 << 62) if v is not None)
    (row,) = await store.usage(UsageQuery(history.meter))
    assert text(row.value) == str(total)
    (month,) = await store.usage(UsageQuery(history.meter, window=WindowSize.MONTH))
    assert month.value == row.value
    minutes = await store.usage(UsageQuery(history.meter, window=WindowSize.MINUTE))
    assert sum(minute.value for minute in minutes) == row.value


async def test_rejected_values_are_those_of_the_revisions_that_answer(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    history = History(fresh_numbers, Aggregation.SUM)
    await history.happen(store, seed=19)
    expected = {one.id for one, *_, value in history.told(0, 1 << 62) if value is None}
    assert expected
    rows, after = [], None
    while page := await store.rejected(history.meter, 3, after):
        rows += page
        after = ".".join(str(part) for part in page[-1][1:5])
    listed = await store.new_events([row[1:5] for row in rows])
    assert len(rows) == len(expected)
    assert {one.id for one in listed} == expected


async def test_rows_of_only_rejected_values_are_there_where_asked_for(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    events = [
        event(of, 0, "2026-01-01T00:00:00Z", {"v": "x"}, "alice"),
        event(of, 1, "2026-01-01T00:00:00Z", {"v": 2}, "bob"),
    ]
    await store.write(folded(log, [of], events).take())
    query = UsageQuery(of, group_by=("subject",))
    assert [row.subject for row in await store.usage(query)] == ["bob"]
    for asked in (
        replace(query, rejected_too=True),
        replace(query, rejected_too=True, to_ms=parse_instant("2026-01-01T00:00:01Z")),
    ):
        rows = await store.usage(asked)
        assert [(row.subject, text(row.value), row.count, row.rejected) for row in rows] == [
            ("alice", "0", 0, 1),
            ("bob", "2", 1, 0),
        ]
