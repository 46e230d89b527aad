"""Usage by subject in portions: the rows of the whole answer, whatever the portions are."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.meter import Aggregation
from meterline.usage import LISTS, Comparison, Condition, UsageQuery, UsageRow
from meterline.window import MINUTE_MS, rfc3339
from tests.contract.usage.slices import event, folded, meter
from tests.contract.usage.test_timeline import END_MS, START_MS, History

# By code points "z" comes before "ü", and that before the last one, which has two units in UTF-16.
SUBJECTS = ("", "Zoe", "alice", "bob", "z", "ü", "\ue000", "😀")


@pytest.fixture
def store(usage_store: ClickHouseUsageStore) -> ClickHouseUsageStore:
    return usage_store


async def in_portions(
    store: ClickHouseUsageStore, query: UsageQuery, rows_max: int
) -> list[UsageRow]:
    rows: list[UsageRow] = []
    async for portion in store.usage_by_subject(query, rows_max):
        assert 0 < len(portion) <= rows_max
        rows += portion
    return rows


@pytest.mark.parametrize("aggregation", Aggregation)
async def test_portions_are_the_whole_answer(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int], aggregation: Aggregation
) -> None:
    history = History(fresh_numbers, aggregation)
    await history.happen(store, 7)
    group_by = ("subject", "model", "region")
    for from_ms, to_ms in (
        (START_MS, END_MS),
        (START_MS + 31_234, END_MS - 71_111),  # cut minutes at both ends
        (START_MS + 40 * MINUTE_MS + 1, START_MS + 40 * MINUTE_MS + 2),
    ):
        query = UsageQuery(history.meter, from_ms, to_ms, group_by=group_by)
        whole = await store.usage(query)
        assert [(row.subject, row.groups) for row in whole] == sorted(
            (row.subject or "", row.groups) for row in whole
        )
        for rows_max in (5, 1_000):
            assert await in_portions(store, query, rows_max) == whole
        assert await store.usage_sum(query) == (len(whole), sum(row.value for row in whole))


async def test_conditions_on_subjects_are_those_of_the_filter(
    store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers), groups=("model",))
    rng = random.Random(3)
    events = [
        event(of, n, rfc3339(START_MS + n), {"v": rng.randrange(9), "model": rng.choice("xy")}, one)
        for n, one in enumerate(SUBJECTS * 4)
    ]
    await store.write(folded(log, [of], events).take())
    query = UsageQuery(of, START_MS, START_MS + MINUTE_MS, group_by=("subject", "model"))
    whole = await store.usage(query)
    for comparison in Comparison:
        for operand in ("\ue000", "it's \\ % a\nline"):
            operands = (operand, "bob", "") if comparison in LISTS else (operand,)
            conditions = (Condition(comparison, operands), Condition(Comparison.NE, ("Zoe",)))
            met = replace(query, subjects=conditions)
            wanted = [row for row in whole if met.has_subject(row.subject or "")]
            assert await in_portions(store, met, 9) == wanted
            others = replace(met, other_subjects=True)
            left = [row for row in whole if row not in wanted]
            assert await store.usage_sum(others) == (len(left), sum(row.value for row in left))
