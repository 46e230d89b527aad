"""What a seen store is brought up from, on chDB and ClickHouse."""

import random
from collections.abc import Iterator
from itertools import pairwise

from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import partition_of, position
from meterline.usage import Flush, SeenExtent, SeenRow, SeenSpan

EVER_MS = 2**62
DAY_MS = 86_400_000


def packed(row: SeenRow) -> bytes:
    numbers = position(row.offset, row.place), row.append_ms
    return row.key + b"".join(number.to_bytes(8, "big") for number in numbers) + row.check


def test_of_a_partition_as_a_whole_no_key_is_read_to_know_how_many_there_are() -> None:
    assert "key" not in QUERIES["seen_extent"]
    assert "key" in QUERIES["seen_extent_of_heir"]


async def test_keys_of_a_span_come_sorted_and_once_with_their_last_position(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, rng = next(fresh_numbers), random.Random(16)
    keys = [rng.randbytes(16) for _ in range(40)] + [bytes(16), b"\xff" * 16]
    rows = [
        SeenRow(log, 3, offset, place, 0, offset * DAY_MS, rng.choice(keys), rng.randbytes(8))
        for offset in range(60)
        for place in range(3)
    ]
    other = [row._replace(partition=4, key=rng.randbytes(16)) for row in rows[:9]]
    for first in (0, 60, 0):  # written twice, they are there once
        await usage_store.write(Flush(seen=rows[first : first + 120] + other))
    for span in (
        SeenSpan(log, 3, 0, 1_000, 0, EVER_MS),
        SeenSpan(log, 3, 7, 31, -5, EVER_MS),
        SeenSpan(log, 3, 0, 1_000, 20 * DAY_MS, 21 * DAY_MS),
        SeenSpan(log, 3, 60, 1_000, 0, EVER_MS),
        SeenSpan(log, 3, 0, 1_000, 0, EVER_MS, 3, 2),
        SeenSpan(log, 3, 5, 50, 0, EVER_MS, 12, 7),
    ):
        within = [
            row
            for row in rows
            if span.first <= row.offset < span.end
            and span.from_ms <= row.append_ms < span.to_ms
            and partition_of(row.key, span.partitions) == span.heir
        ]
        extent = await usage_store.seen_extent(span)
        assert extent.rows >= len(within)
        if within:
            assert extent[1:] == (within[0].append_ms, within[-1].append_ms)
        else:
            assert extent == SeenExtent(0, 0, 0)
        last = {row.key: row for row in within}
        expected = b"".join(packed(row) for _, row in sorted(last.items()))
        assert await usage_store.seen_keys(span, 0, 1 << 16) == expected
        borders = [0, 1, 5_000, 40_000, (1 << 16) - 1, 1 << 16]
        shares = [await usage_store.seen_keys(span, low, high) for low, high in pairwise(borders)]
        assert b"".join(shares) == expected
