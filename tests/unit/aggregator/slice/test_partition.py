"""What a partition makes of records, whoever reads them, and when."""

from collections.abc import Sequence
from pathlib import Path
from typing import Never

import pytest

from aggregator.slice.partition import Partition
from meterline.backends.rocksdb import RocksSeenStore
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.event import Event, Record, RecordKind, decode_event
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, measures_of
from meterline.ports import SeenDamaged
from meterline.usage import EventRow
from tests.unit.aggregator.slice.test_fold import meter
from tests.unit.backends.telemetry.test_prometheus import values

BEGIN_MS = SLICE_SPAN_MS * 5_000_000
TEXT = (
    b'{"specversion":"1.0","id":"%d","source":"s","type":"t","subject":"a",'
    b'"time":"2026-01-01T00:00:00Z","namespace":"default","recordedtime":"2026-01-01T00:00:00Z"}'
)
Read = list[tuple[Record, list[Event]]]


def _record(offset: int, append_ms: int, events: int) -> tuple[Record, list[Event]]:
    record = Record(0, offset, append_ms, RecordKind.PACK, b"", "log")
    return record, [decode_event(TEXT % (offset * 10 + number)) for number in range(events)]


def _rows(folder: Path, records: Read) -> list[EventRow]:
    """All rows of events, as a reader of these records writes them."""
    seen = RocksSeenStore(folder, SLICE_SPAN_MS)
    partition, found = Partition(1, 0, 0, seen), []
    for record, events in records:
        if partition.closes_with(record, events):
            assert partition.slice is not None
            found += partition.slice.take().events
            partition.slice = None
        partition.absorb(record, events, measures_of(Catalogue(1, ())), SLICE_SPAN_MS)
    assert partition.slice is not None
    found += partition.slice.take().events
    seen.close()
    return found


def test_a_record_without_events_that_expired_moves_nothing(tmp_path: Path) -> None:
    """A clock was ahead when it was appended: who never sees it must write the same rows."""
    first, last = _record(0, BEGIN_MS, 2), _record(2, BEGIN_MS + 20, 2)
    empty = _record(1, BEGIN_MS + 2 * SLICE_SPAN_MS, 0)
    early = _rows(tmp_path / "early", [first, empty, last])
    late = _rows(tmp_path / "late", [first, last])
    assert [row.append_ms for row in early] == [BEGIN_MS] * 2 + [BEGIN_MS + 20] * 2
    assert [row._replace(slice=0) for row in early] == [row._replace(slice=0) for row in late]


def test_events_that_belong_elsewhere_are_told(tmp_path: Path) -> None:
    seen, recorder = RocksSeenStore(tmp_path, SLICE_SPAN_MS), PrometheusRecorder()
    partition = Partition(1, 0, 0, seen)
    value = b"[" + b",".join(TEXT % number for number in range(8)) + b"]"
    record = Record(0, 5, BEGIN_MS, RecordKind.PACK, value, "log")
    assert all(isinstance(item, Event) for item in partition.items_of(record))
    partition.routes = 4
    strays = sum(not isinstance(item, Event) for item in partition.items_of(record))
    partition.tell_counts(recorder)
    partition.tell_counts(recorder)
    seen.close()
    assert 0 < strays < 8
    assert values(recorder, "meterline_stray_events_total") == {(): strays}


def test_a_clock_that_steps_back_moves_no_event_back(tmp_path: Path) -> None:
    steps = [_record(0, BEGIN_MS + 9, 1), _record(1, BEGIN_MS, 1), _record(2, BEGIN_MS + 10, 1)]
    rows = _rows(tmp_path / "seen", steps)
    assert [row.append_ms - BEGIN_MS for row in rows] == [9, 9, 10]


def test_a_look_up_that_fails_opens_no_slice(tmp_path: Path) -> None:
    class Damaged(RocksSeenStore):
        def get_many(self, keys: Sequence[bytes]) -> Never:
            raise SeenDamaged(f"a block with {keys}")

    seen = Damaged(tmp_path, SLICE_SPAN_MS)
    partition = Partition(1, 0, 0, seen)
    with pytest.raises(SeenDamaged):
        partition.absorb(*_record(3, BEGIN_MS, 2), measures_of(Catalogue(1, ())), SLICE_SPAN_MS)
    assert partition.slice is None
    assert (partition.next_offset, partition.append_ms, partition.untaken_events) == (0, 0, 0)
    seen.close()


def test_a_slice_that_is_open_again_keeps_what_it_has_of_newer_meters(tmp_path: Path) -> None:
    seen = RocksSeenStore(tmp_path, SLICE_SPAN_MS)
    partition = Partition(1, 0, 0, seen)
    measures = measures_of(Catalogue(1, ()))
    partition.absorb(*_record(0, BEGIN_MS, 2), measures, SLICE_SPAN_MS)
    partition.look_ahead(measures_of(Catalogue(2, (meter(2, Aggregation.COUNT),))))
    assert partition.slice is not None
    assert partition.lacks_before == 1
    partition.slice.lacks_before = None  # it was read meanwhile
    partition.end_slice()
    partition.absorb(*_record(1, BEGIN_MS + SLICE_SPAN_MS, 2), measures, SLICE_SPAN_MS)
    partition.reopen()
    assert partition.next_offset == 1
    assert not partition.slice.lacks_before
    partition.end_slice()
    partition.look_ahead(measures_of(Catalogue(3, (meter(3, Aggregation.COUNT),))))
    partition.reopen()
    assert partition.lacks_before == 1, "of these it has nothing"
    seen.close()
