"""The pace of replays, and what they are asked for in words."""

from hypothesis import given
from hypothesis import strategies as st

from meterline.delivery import (
    DELIVERY_MOVES,
    DeliveryMove,
    DeliveryQuery,
    DeliveryState,
    due_after,
    portion,
    replayable,
    summary_of,
)
from meterline.limits import REPLAY_PER_SECOND_MAX, REPLAY_STEP_MAX

PACES = st.integers(1, REPLAY_PER_SECOND_MAX)


@given(PACES, st.integers(1, 50))
def test_steps_in_a_row_keep_the_pace(per_second: int, steps: int) -> None:
    now_ms, taken = 0, 0
    for _ in range(steps):
        count = portion(per_second)
        assert 1 <= count <= REPLAY_STEP_MAX
        taken += count
        now_ms = due_after(per_second, count, now_ms)
    assert taken * 1_000 <= per_second * now_ms, "never faster"
    assert now_ms < taken * 1_000 / per_second + steps, "a millisecond a step slower at most"


def test_a_pace_has_steps_of_a_quarter_of_a_second() -> None:
    assert [portion(pace) for pace in (1, 7, 8, 400, 1_000)] == [1, 1, 2, 100, 100]
    assert due_after(3, 1, 10) == 344


def test_only_failed_ones_where_failed_ones_are_asked_for() -> None:
    everything = replayable(DeliveryQuery(report_id="r"))
    assert everything == {s for s, move in DELIVERY_MOVES if move is DeliveryMove.REPLAY}
    assert replayable(DeliveryQuery(failed_since_ms=0)) == {DeliveryState.FAILED}


def test_what_it_is_asked_for_is_told() -> None:
    query = DeliveryQuery("01R", "run_1", "ada", (), 0, 60_000, 1_000, 5)
    assert summary_of(query) == (
        "report 01R, run run_1, subject ada, from 1970-01-01T00:00:00Z,"
        " to 1970-01-01T00:01:00Z, failed since 1970-01-01T00:00:01Z"
    )
