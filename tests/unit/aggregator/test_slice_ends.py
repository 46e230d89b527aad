"""Empty packs end the open slices of partitions that get no more events: two, and no more."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from aggregator.erasure import waits_for_end
from meterline.event import Record, RecordKind, encode_pack
from meterline.limits import SLICE_SPAN_MS

EMPTY: Final = encode_pack([])
TURNS: Final = 12
DELAYS: Final = st.integers(0, 2 * SLICE_SPAN_MS)


def record(offset: int, append_ms: int, value: bytes) -> Record:
    """One of the partition that is looked at."""
    return Record(0, offset, append_ms, RecordKind.PACK, value, "log")


def sealed_end(records: list[Record]) -> int:
    """Where the open slice begins."""
    newest = records[-1].append_ms // SLICE_SPAN_MS
    return next(it.offset for it in records if it.append_ms // SLICE_SPAN_MS == newest)


@given(
    st.lists(st.tuples(DELAYS, st.booleans()), max_size=6),
    st.lists(DELAYS, min_size=TURNS, max_size=TURNS),
    st.integers(-SLICE_SPAN_MS, SLICE_SPAN_MS),
)
def test_the_last_sealed_record_is_behind_the_border_in_the_end_and_then_nothing_is_appended(
    sent: list[tuple[int, bool]], waits: list[int], ahead_ms: int
) -> None:
    now_ms, records = 100 * SLICE_SPAN_MS, list[Record]()
    for delay_ms, empty in sent:
        now_ms += delay_ms
        records.append(record(len(records), now_ms, EMPTY if empty else b"events"))
    border, appended = len(records), 0
    for wait_ms in (*waits, *[SLICE_SPAN_MS] * TURNS):
        now_ms += wait_ms
        if waits_for_end(records[-2:], border, now_ms + ahead_ms):  # another clock than the log's
            records.append(record(len(records), now_ms, EMPTY))
            appended += 1
    if not border:
        assert not records
        return
    assert sealed_end(records) - 1 >= border
    assert appended == 2 or ahead_ms  # a clock that differs has it try again
    assert not waits_for_end(records[-2:], border, now_ms + 10 * SLICE_SPAN_MS)
