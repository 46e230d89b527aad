"""Contract of `UsageStore.usage_values`, over chDB and a ClickHouse server: what the rows of
`usage` are split by, each text once.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.backends.clickhouse.usage.values import BOUNDS, ValueListing
from meterline.meter import Aggregation
from meterline.problem import Problem
from meterline.usage import Filter, Operator, UsageQuery
from meterline.window import MINUTE_MS, parse_instant, rfc3339
from tests.contract.usage.slices import event, folded, meter

START_MS = parse_instant("2026-05-05T05:05:00Z")


@pytest.mark.parametrize("aggregation", [Aggregation.SUM, Aggregation.UNIQUE_COUNT])
async def test_values_are_those_of_the_rows(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int], aggregation: Aggregation
) -> None:
    rng = random.Random(7)
    log, of = next(fresh_numbers), meter(next(fresh_numbers), aggregation, groups=("a", "b"))
    for offset in range(3):
        events = [
            event(
                of,
                100 * offset + number,
                rfc3339(START_MS + rng.randrange(5 * MINUTE_MS)),
                {"v": rng.choice([1, 2, None]), "a": rng.choice(["x", "é", ""]), "b": f"b{number}"},
                f"s{rng.randrange(9)}",
            )
            for number in range(20)
        ]
        open_slice = folded(log, [of], events, offset)
        await usage_store.write(open_slice.take())
        await usage_store.write(folded(log, [of], events, offset).take())  # versions of one row
    cuts = [None, START_MS + MINUTE_MS, START_MS + 90_000, START_MS + 200_001]
    for name in ("subject", "a", "b"):
        for _ in range(4):
            from_ms, to_ms = rng.choice(cuts[:3]), rng.choice([None, cuts[3]])
            query = UsageQuery(of, from_ms, to_ms, group_by=(name,))
            if rng.random() < 0.5:
                query = replace(query, filters=((name, Filter(Operator.CONTAINS, ("1",))),))
            rows = await usage_store.usage(query)
            wanted = sorted(
                {row.subject or "" if name == "subject" else row.groups[0][1] for row in rows}
            )
            assert await usage_store.usage_values(query, 1_000, 0) == (wanted, len(wanted))
            page = await usage_store.usage_values(query, 2, 1)
            assert page == (wanted[1:3], len(wanted))


async def test_what_was_only_rejected_is_no_usage(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    await usage_store.write(
        folded(log, [of], [event(of, 1, rfc3339(START_MS), {"v": "many"}, "s")]).take()
    )
    for to_ms in (None, START_MS + 1):
        query = UsageQuery(of, to_ms=to_ms, group_by=("subject",))
        assert await usage_store.usage_values(query, 10, 0) == ([], 0)
        assert await usage_store.usage_values(query, 10, 10) == ([], 0)


async def test_a_list_that_reads_too_much_is_refused_with_what_to_do(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    events = [event(of, n, rfc3339(START_MS), {"v": 1}, f"s{n}") for n in range(20)]
    await usage_store.write(folded(log, [of], events).take())
    query = UsageQuery(of, group_by=("subject",))
    roomy = ValueListing(Reader(usage_store.connection), {**BOUNDS, "max_rows_to_read": 1_000_000})
    assert (await roomy.page(query, 5, 0))[1] == 20
    tight = ValueListing(Reader(usage_store.connection), {**BOUNDS, "max_rows_to_read": 10})
    with pytest.raises(Problem, match="set from and to to a shorter span"):
        await tight.page(query, 5, 0)
