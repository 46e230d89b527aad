"""Contract of `RefusedEvents`, over chDB and a ClickHouse server."""

import random
from collections.abc import Iterator
from uuid import uuid4

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import (
    Record,
    RecordKind,
    Refusal,
    Unreadable,
    Verdict,
    decode_record,
    encode_refusal,
    inbox_record,
    is_whole,
    position_of,
)
from meterline.limits import REJECT_TEXT_BYTES_MAX
from tests.contract.usage.event_feed import BEGIN_MS, Feed


async def test_what_counts_nowhere_is_found_by_its_position(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    feed = Feed(usage_store, next(fresh_numbers), uuid4().hex)
    await feed.many(40, random.Random(7))
    found = await usage_store.refused_at([position_of(one) for one in feed.known])
    refused = [one for one in feed.known if one.verdict is not Verdict.NEW]
    assert {one.verdict for one in refused} == set(Verdict) - {Verdict.NEW}
    assert sorted(found) == sorted(refused)
    assert await usage_store.refused_at([]) == []
    assert await usage_store.refused_at([(feed.log, 0, 10**17, 9)]) == []


async def test_a_long_refusal_is_kept_with_the_time_of_its_topic(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    feed = Feed(usage_store, next(fresh_numbers), uuid4().hex)
    texts = ["é" * 40_000, "\x00" * REJECT_TEXT_BYTES_MAX, "\ufffd"]
    for number, text in enumerate(texts):
        refusal = Refusal(
            feed.namespace, "orders", 3, number, "subject", "is required", text, BEGIN_MS - 7
        )
        value = encode_refusal(refusal)
        record = Record(0, 0, BEGIN_MS, RecordKind.REFUSAL, value, "")
        assert len(value) < 900_000, "a record of the log holds it"
        (item,) = decode_record(record)
        assert isinstance(item, Unreadable)
        await feed.add([item], BEGIN_MS, 0)
    found = sorted(await usage_store.refused_at([position_of(one) for one in feed.known]))
    assert [one.text.decode() for one in found] == texts
    assert [is_whole(one.text) for one in found] == [True, False, False]
    assert {one.recorded_ms for one in found} == {BEGIN_MS - 7}
    assert [inbox_record(one) for one in found] == [("orders", 3, number) for number in range(3)]
