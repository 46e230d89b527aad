"""Contract of `EventTraces`: the traces of stored events, of a type and a span."""

from collections.abc import Iterator
from uuid import uuid4

import msgspec
import pytest

from meterline.backends.clickhouse.events.traces import ClickHouseEventTraces
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import Event, decode_event
from meterline.limits import TRACED_OF_SUBJECT_MAX
from meterline.ports import TraceContext
from meterline.window import rfc3339
from tests.contract.usage.event_feed import BEGIN_MS, Feed

MINUTE_MS = 60_000


@pytest.fixture
def feed(usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]) -> Feed:
    return Feed(usage_store, next(fresh_numbers), uuid4().hex)


def event(feed: Feed, name: int, at_ms: int, **more: object) -> Event:
    document = {
        "specversion": "1.0", "id": f"e{name}", "source": "s", "type": "t", "subject": f"s{name}",
        "time": rfc3339(at_ms), "namespace": feed.namespace, "recordedtime": rfc3339(BEGIN_MS),
        **more,
    }  # fmt: skip
    return decode_event(msgspec.json.encode(document))


def context(number: int, *, sampled: bool = True) -> TraceContext:
    return TraceContext(number, number, sampled)


async def test_traces_of_a_type_and_a_span_are_found(
    feed: Feed, usage_store: ClickHouseUsageStore
) -> None:
    traced = {number: context(number).traceparent for number in range(1, 7)}
    end_ms = BEGIN_MS + MINUTE_MS
    events = [
        event(feed, 1, BEGIN_MS, traceparent=traced[1]),
        event(feed, 2, end_ms - 1, traceparent=traced[2], tracestate="a=b"),
        event(feed, 3, BEGIN_MS - 1, traceparent=traced[3]),
        event(feed, 4, end_ms, traceparent=traced[4]),
        event(feed, 5, BEGIN_MS, traceparent=traced[5], type="other"),
        event(feed, 6, BEGIN_MS, traceparent=context(6, sampled=False).traceparent),
        event(feed, 7, BEGIN_MS, data={"traceparent": traced[1]}),
        event(feed, 8, BEGIN_MS),
        event(feed, 9, BEGIN_MS, traceparent=9),
        event(feed, 10, BEGIN_MS, traceparent=f"{traced[1]}-more"),
        event(feed, 11, BEGIN_MS, traceparent=context(11).traceparent, tracestate="é" * 600),
        event(feed, 12, BEGIN_MS, traceparent=f"01{context(12).traceparent[2:]}-{'more' * 99}"),
    ]
    await feed.add([*events], BEGIN_MS, 0)
    store = ClickHouseEventTraces(usage_store.connection)
    found = await store.traced(feed.namespace, "t", BEGIN_MS, end_ms)
    assert found is not None
    assert set(found) == {
        ("s1", context(1)),
        ("s2", TraceContext(2, 2, sampled=True, state="a=b")),
        ("s11", context(11)),
        ("s12", context(12)),
    }
    assert await store.traced(uuid4().hex, "t", BEGIN_MS, end_ms) == []


async def test_one_subject_does_not_take_the_places_of_others(
    feed: Feed, usage_store: ClickHouseUsageStore
) -> None:
    events = [
        event(feed, one, BEGIN_MS, subject="busy", traceparent=context(one).traceparent)
        for one in range(1, 200)
    ]
    events.append(event(feed, 500, BEGIN_MS, traceparent=context(500).traceparent))
    await feed.add([*events], BEGIN_MS, 0)
    store = ClickHouseEventTraces(usage_store.connection)
    found = await store.traced(feed.namespace, "t", BEGIN_MS, BEGIN_MS + 1)
    assert found is not None
    assert ("s500", context(500)) in found
    assert len(found) == TRACED_OF_SUBJECT_MAX + 1


async def test_what_is_not_sampled_does_not_take_the_places_of_what_is(
    feed: Feed, usage_store: ClickHouseUsageStore
) -> None:
    traced = {one: context(one, sampled=one > 50).traceparent for one in range(1, 52)}
    events = [event(feed, one, BEGIN_MS, subject="s", traceparent=it) for one, it in traced.items()]
    await feed.add([*events], BEGIN_MS, 0)
    store = ClickHouseEventTraces(usage_store.connection)
    assert await store.traced(feed.namespace, "t", BEGIN_MS, BEGIN_MS + 1) == [("s", context(51))]
