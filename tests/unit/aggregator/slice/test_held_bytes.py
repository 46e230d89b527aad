"""What an open slice is said to hold is what it holds: the bound of memory follows from it."""

import gc
import tracemalloc

import pytest

from aggregator.slice.open_slice import OpenSlice
from meterline.event import Record, RecordKind, decode_event
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, Meter, measures_of
from meterline.usage import SliceId

RECORDS, RECORD = 40, 250
TEXT = (
    b'{"specversion":"1.0","id":"%d","source":"s","type":"t","subject":"customer-%d",'
    b'"time":"2026-01-01T00:00:00Z","data":{"v":%d,"region":"r-%d"},"namespace":"default",'
    b'"recordedtime":"2026-01-01T00:00:00Z"}'
)


def meter(aggregation: Aggregation, dimensions: tuple[tuple[str, str], ...] = ()) -> Meter:
    value = None if aggregation is Aggregation.COUNT else "$.v"
    return Meter(
        "m", 1, "default", "m", "", "", aggregation, "t", value, dimensions, 0, 0
    )  # fmt: skip


def filled(slice_: OpenSlice, subjects: int, regions: int) -> None:
    """Events that are flushed as they come: rows that wait are held by nobody."""
    for number in range(RECORDS):
        first = number * RECORD
        items = [
            decode_event(TEXT % (at, at % subjects, at, at % regions))
            for at in range(first, first + RECORD)
        ]
        record = Record(0, number, SLICE_SPAN_MS, RecordKind.PACK, b"", "log")
        slice_.absorb(record, SLICE_SPAN_MS, items, {}, SLICE_SPAN_MS)
        slice_.take()


@pytest.mark.parametrize(
    ("one", "subjects", "regions"),
    [
        (meter(Aggregation.COUNT), 10, 1),
        (meter(Aggregation.COUNT), RECORDS * RECORD, 1),
        (meter(Aggregation.SUM), RECORDS * RECORD, 1),
        (meter(Aggregation.SUM, (("region", "$.region"),)), RECORDS * RECORD, RECORDS * RECORD),
        (meter(Aggregation.LATEST), RECORDS * RECORD, 1),
        (meter(Aggregation.UNIQUE_COUNT), 10, 1),
    ],
    ids=["keys", "counts", "sums", "groups", "latest", "members"],
)
def test_it_is_what_it_takes(one: Meter, subjects: int, regions: int) -> None:
    measures = measures_of(Catalogue(1, (one,)))
    filled(OpenSlice(SliceId(1, 0, 0), SLICE_SPAN_MS, measures), subjects, regions)  # warm caches
    slice_ = OpenSlice(SliceId(1, 0, 0), SLICE_SPAN_MS, measures)
    gc.collect()
    tracemalloc.start()
    try:
        filled(slice_, subjects, regions)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 < taken / slice_.held_bytes < 1.05
