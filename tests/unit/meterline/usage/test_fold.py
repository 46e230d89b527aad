"""How a query is cut into whole minutes and pieces, and what raw events add up to there."""

from hypothesis import given
from hypothesis import strategies as st

from meterline.meter import Aggregate, Measure
from meterline.number import UNIT
from meterline.usage import EventFold, UsageQuery, span_of
from meterline.window import HOUR_MS, MINUTE_MS, WindowSize
from tests.contract.usage.slices import event, meter

instants = st.integers(0, 4 * MINUTE_MS) | st.sampled_from(
    [minute * MINUTE_MS + more for minute in range(1, 4) for more in (-1, 0, 1)]
)


@given(instants, instants)
def test_whole_minutes_and_cut_pieces_are_the_whole_span(from_ms: int, to_ms: int) -> None:
    span = span_of(from_ms, to_ms)
    whole = [
        (minute * MINUTE_MS, (minute + 1) * MINUTE_MS) for minute in range(span.first, span.end)
    ]
    pieces = sorted([*whole, *span.cuts])
    assert all(end_ms - start_ms < MINUTE_MS for start_ms, end_ms in span.cuts)
    assert all(start_ms < end_ms for start_ms, end_ms in pieces)
    if from_ms >= to_ms:
        assert pieces == []
    else:
        edges = [from_ms, *(end_ms for _, end_ms in pieces)]
        assert [start_ms for start_ms, _ in pieces] == edges[:-1]
        assert edges[-1] == to_ms


def test_raw_events_are_counted_in_the_window_of_their_minute_and_rejected_there() -> None:
    one = meter(1)
    query = UsageQuery(one, window=WindowSize.HOUR)
    fold = EventFold(query, Measure(one), [0, HOUR_MS // MINUTE_MS, 2 * HOUR_MS // MINUTE_MS])
    told = [
        fold.add(event(one, number, f"1970-01-01T{at}Z", {"v": value}))
        for number, (at, value) in enumerate(
            [("00:00:00", 1), ("00:59:59.999", 2), ("00:30:00", "x"), ("01:00:00", 4)]
        )
    ]
    assert told == [True, True, False, True]
    assert fold.found() == {
        (0, ""): Aggregate(total=3 * UNIT, count=2, rejected=1),
        (60, ""): Aggregate(total=4 * UNIT, count=1),
    }
    assert (fold.matched, fold.counted, fold.held) == (4, 3, 2)
