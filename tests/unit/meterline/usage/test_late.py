"""Late rows: a function of the log, and never fewer for a later slice."""

from hypothesis import given
from hypothesis import strategies as st

from aggregator.slice.open_slice import OpenSlice
from meterline.event import Record, RecordKind
from meterline.limits import LATE_ROW_MS, SLICE_SPAN_MS
from meterline.meter import Aggregation, Catalogue, measures_of
from meterline.usage import SliceId, late_before, late_rows
from meterline.window import MINUTE_MS
from tests.contract.usage.slices import HORIZON_MS, event, meter

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where a span begins


@given(st.integers(0, 2**42), st.integers(0, 2**40))
def test_a_later_slice_has_no_lower_border(append_ms: int, later_ms: int) -> None:
    assert late_before(append_ms) <= late_before(append_ms + later_ms)
    assert late_before(append_ms) * MINUTE_MS <= max(0, append_ms - LATE_ROW_MS)


@given(st.integers(0, SLICE_SPAN_MS - 1))
def test_every_record_of_a_slice_gives_the_same_border(within_ms: int) -> None:
    assert late_before(NOW_MS + within_ms) == late_before(NOW_MS)


def test_a_slice_takes_its_late_rows_however_often_it_is_flushed() -> None:
    """Those of all flushes together are what count-back expects."""
    sums, unique = meter(1), meter(2, Aggregation.UNIQUE_COUNT)
    measures = measures_of(Catalogue(1, (sums, unique)))
    made = OpenSlice(SliceId(1, 0, 0), NOW_MS, measures)
    before = late_before(NOW_MS)
    late: set[tuple[object, ...]] = set()
    times = ("2025-12-31T23:59:00Z", "2025-12-31T23:44:59Z", "2025-12-01T00:00:00Z")
    for offset, at in enumerate(times):
        record = Record(0, offset, NOW_MS + offset * 100_000, RecordKind.PACK, b"", "log")
        events = [event(one, 10 * offset + one.revision, at, {"v": 1}) for one in (sums, unique)]
        made.absorb(record, record.append_ms, events, {}, HORIZON_MS)
        flush = made.take()
        assert flush.late_tallies == late_rows(flush.tallies, before)
        late |= {row[:7] for row in (*flush.late_tallies, *flush.late_members)}
    assert made.counted()["late_tallies"].rows == 4
    assert made.counted()["late_members"].rows == 2
    assert made.counted()["tallies"].rows == 6
