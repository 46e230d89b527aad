"""The raw events that backfill reads, on chDB and ClickHouse."""

from collections.abc import Iterator

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.limits import FILL_READ_BYTES
from meterline.usage import Flush, RawEvent
from tests.contract.usage.slices import event, folded, meter


async def test_raw_events_of_slices_come_in_order_as_far_as_their_bytes_go(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    large = "x" * (FILL_READ_BYTES // 10)
    sizes = ("", large, large, "", large)
    events = [
        event(of, number, "2026-01-01T00:00:00Z", {"v": sizes[number % 5]}) for number in range(25)
    ]
    slices = [folded(log, [of], events[at : at + 5], offset=at * 10) for at in range(0, 25, 5)]
    for one in slices:
        flush = one.take()
        for _ in range(2):  # written twice, it is there once
            await usage_store.write(Flush(events=flush.events))
    names = [one.id.slice for one in slices]

    async def read(asked: list[int], end: int, kind: str) -> list[list[RawEvent]]:
        types = [("default", kind), ("default", "none")]
        return [rows async for rows in usage_store.raw_events(log, 0, asked, end, types)]

    portions = await read(names, 1_000, of.event_type)
    found = [row for rows in portions for row in rows]
    expected = [
        RawEvent(names[at // 5], names[at // 5], at % 5, 1_000, one.text)
        for at, one in enumerate(events)
    ]
    assert found == expected
    largest = max(len(row.text) for row in found)
    held = [sum(len(row.text) for row in rows) for rows in portions]
    assert len(held) > 1
    assert max(held) < FILL_READ_BYTES + largest
    some = [row for rows in await read([names[1], names[3]], 1_000, of.event_type) for row in rows]
    assert some == expected[5:10] + expected[15:20]
    some = [row for rows in await read(names, names[2], of.event_type) for row in rows]
    assert some == expected[:10]
    assert await read(names, 1_000, "other") == []
