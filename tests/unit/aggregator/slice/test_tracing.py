"""Traces of counted events: from the record to the flush that makes it durable."""

from collections.abc import Iterator

import msgspec

from aggregator.slice.tracing import CountedTraces
from meterline.event import (
    Record,
    RecordKind,
    decode_record,
    encode_pack,
    identity_key,
    partition_of,
)
from meterline.limits import TRACE_LINKS_MAX
from meterline.meter import Aggregation
from meterline.ports import TraceContext, Work
from tests.traced.book import Book
from tests.unit.aggregator.world import PARTITIONS, Meters, World, numbered


def text(number: int, traceparent: str | None) -> bytes:
    document = {
        "specversion": "1.0", "id": str(number), "source": "s", "type": "t", "subject": "u",
        "namespace": "default", "recordedtime": "2026-01-01T00:00:00Z", "data": {"v": 1},
    }  # fmt: skip
    if traceparent is not None:
        document["traceparent"] = traceparent
    return msgspec.json.encode(document)


def context(number: int) -> TraceContext:
    return TraceContext(number, number, sampled=True)


def record(offset: int, *texts: bytes) -> Record:
    return Record(3, offset, 0, RecordKind.PACK, encode_pack(texts), "")


def test_each_trace_goes_on_where_its_event_is_durable() -> None:
    book = Book()
    traces = CountedTraces(book)
    for offset, names in enumerate([(1, 2), (None, 1), (3,)]):
        one = record(
            offset, *(text(offset, None if it is None else context(it).traceparent) for it in names)
        )
        traces.take_in(one, decode_record(one))
    taken = traces.take_out()
    assert book.pages == [], "nothing is durable yet"
    traces.tell(taken, 5, 4)
    (flush,) = book.ended(Work.FLUSH)
    assert flush.links == [context(1), context(2), context(3)]
    counted = book.ended(Work.COUNT)
    assert [it.parent for it in counted] == [context(1), context(2), context(1), context(3)]
    assert all(it.links == [flush.context] for it in counted)
    assert [it.attributes["meterline.offset"] for it in counted] == [0, 0, 1, 2]
    assert traces.take_out() == []


def test_a_flush_holds_so_many_traces_and_no_more() -> None:
    book = Book()
    traces = CountedTraces(book)
    for offset in range(10):
        texts = [text(one, context(offset * 10 + one + 1).traceparent) for one in range(10)]
        one = record(offset, *texts)
        traces.take_in(one, decode_record(one))
    taken = traces.take_out()
    assert [it.context for it in taken] == [context(one + 1) for one in range(TRACE_LINKS_MAX)]


async def test_counting_tells_a_trace_once_it_is_durable(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    meters.add(Aggregation.SUM, next(fresh_numbers))
    worker = world.worker(meters)
    worker.traces.tracer = book = Book()
    await world.send(numbered(0, 10))
    await world.run(worker)
    assert book.pages == []
    number = partition_of(identity_key("default", "s", "77"), PARTITIONS)
    await world.log.append(number, encode_pack([text(77, context(9).traceparent)]))
    while await worker.read_some(number):
        pass
    assert book.ended(Work.COUNT) == []
    await worker.flush()
    (counted,) = book.ended(Work.COUNT)
    assert counted.parent == context(9)
    assert counted.attributes["meterline.partition"] == number
    await worker.close_all()
