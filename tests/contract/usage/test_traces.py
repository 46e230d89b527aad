"""Contract of `EventLineage`, over chDB and a ClickHouse server."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import msgspec

from meterline.audit import UsageEntry
from meterline.backends.clickhouse.events.lineage import ClickHouseEventLineage
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import decode_event
from meterline.usage import EventRow
from tests.contract.usage.event_feed import BEGIN_MS
from tests.contract.usage.slices import event, folded, meter

MINUTE_MS = 60_000


async def test_events_of_an_entry_come_by_position_page_by_page(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    one = replace(meter(next(fresh_numbers)), namespace=uuid4().hex)
    logs = [next(fresh_numbers), next(fresh_numbers)]
    written: list[EventRow] = []
    for log in logs:
        made = []
        for number in range(60):
            whose = "alice" if number % 3 else "bob"
            raw = event(one, number, f"2026-01-01T00:0{number % 5}:00Z", {"v": 1}, whose)
            document = {**msgspec.json.decode(raw.text), "namespace": one.namespace}
            document["type"] = one.event_type if number % 7 else "other"
            made.append(decode_event(msgspec.json.encode(document)))
        for offset in (0, 1):
            flush = folded(log, [one], made[offset * 30 : offset * 30 + 30], offset).take()
            await usage_store.write(flush)
            await usage_store.write(flush)
            written += flush.events
    traces = ClickHouseEventLineage(usage_store.connection)
    span = (BEGIN_MS + MINUTE_MS, BEGIN_MS + 3 * MINUTE_MS)
    asked: tuple[str | None, ...] = (None, "alice", "nobody")
    for subject in asked:
        entry = UsageEntry(one, *span, subject)
        expected = [
            row
            for row in written
            if row.type == one.event_type
            and span[0] <= row.time_ms < span[1]
            and subject in (None, row.subject)
        ]
        assert await traces.events_of(entry, None, 1_000) == expected
        found: list[EventRow] = []
        while rows := await traces.events_of(entry, found[-1][:4] if found else None, 7):
            found += rows
        assert found == expected
        assert bool(found) == (subject != "nobody")
    late = replace(one, events_from_ms=BEGIN_MS + 2 * MINUTE_MS)
    rows = await traces.events_of(UsageEntry(late, *span), None, 1_000)
    assert rows
    assert min(row.time_ms for row in rows) == late.events_from_ms
    stranger = replace(one, namespace=uuid4().hex)
    assert await traces.events_of(UsageEntry(stranger, *span), None, 1_000) == []
