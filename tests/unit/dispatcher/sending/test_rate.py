"""Deliveries at even distances."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.sending.rate import Pace
from meterline import limits

HERE, THERE = ("default", "x"), ("default", "y")


@given(
    st.floats(0.1, 500),
    st.lists(st.integers(0, 3_000), min_size=1, max_size=60),
)
def test_turns_are_never_nearer_than_the_pace_and_none_waits_for_nothing(
    per_second: float, pauses_ms: list[int]
) -> None:
    pace, now_ms, turns = Pace(per_second), 1_000_000, []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        free = pace.slots([HERE], now_ms)[HERE]
        for _ in range(min(free, 5)):
            wait_ms = pace.take(HERE, now_ms)
            assert 0 <= wait_ms <= limits.PACE_AHEAD_MS
            turns.append(now_ms + wait_ms)
    apart_ms = 1_000 / per_second
    for before, later in pairwise(turns):
        assert later - before >= apart_ms - 1  # rounded to milliseconds
    # within any second no more than the pace, but for the one that begins it
    for start in turns:
        assert sum(start <= turn < start + 1_000 for turn in turns) <= per_second + 2


def test_an_endpoint_does_not_wait_for_another() -> None:
    pace = Pace(1)
    assert [pace.take(HERE, 0) for _ in range(3)] == [0, 1_000, 2_000]
    assert pace.take(THERE, 0) == 0
    assert pace.slots([HERE, THERE], 0) == {HERE: 0, THERE: 0}
    assert pace.slots([HERE, THERE], 2_500) == {HERE: 1, THERE: 1}


def test_without_a_pace_nothing_waits() -> None:
    pace = Pace()
    assert pace.slots([HERE], 0) == {}
    assert [pace.take(HERE, 0) for _ in range(3)] == [0, 0, 0]
