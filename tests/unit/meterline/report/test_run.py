"""Ids and state machines of runs and deliveries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.delivery import DELIVERY_MOVES, DeliveryMove, DeliveryState, delivery_id
from meterline.report import (
    RUN_MOVES,
    UNDECIDED,
    Run,
    RunMove,
    RunState,
    Trigger,
    outcome_of,
    run_id,
    run_sources,
    run_target,
)

parts = st.tuples(st.text(), st.integers(), st.integers(), st.text(), st.integers(1))


@given(parts, parts)
def test_ids_are_functions_of_what_they_name(
    one: tuple[str, int, int, str, int], other: tuple[str, int, int, str, int]
) -> None:
    assert (delivery_id(*one) == delivery_id(*other)) == (one == other)
    assert (run_id(*one[:3], one[4]) == run_id(*other[:3], other[4])) == (
        (*one[:3], one[4]) == (*other[:3], other[4])
    )


def test_ids_never_change() -> None:
    """Receivers deduplicate by them for ever: a change here would book everything twice."""
    assert delivery_id("01R", 0, 60_000, "acme", 1) == "dlv_xw7bufiwzzi2wtqx5wclc7zql26i76qz"
    assert run_id("01R", 0, 60_000, 1) == "run_f7keeltae4a5v3pisflrjdwhfv3lksnc"


@given(parts)
def test_ids_have_no_dot_and_fit_a_header(one: tuple[str, int, int, str, int]) -> None:
    name = delivery_id(*one)
    assert name.startswith("dlv_")
    assert name[4:].isalnum()
    assert name.isascii()
    assert len(name) == 36


def test_every_move_leads_to_one_state() -> None:
    for move in RunMove:
        assert run_target(move) in RunState
        assert run_sources(move)


def test_only_a_replay_reopens_a_success_and_nothing_undecides_a_delivering_run() -> None:
    assert [move for state, move in RUN_MOVES if state is RunState.SUCCEEDED] == [RunMove.REOPEN]
    after = {target for (state, _), target in RUN_MOVES.items() if state is RunState.DELIVERING}
    assert not after & set(UNDECIDED)


def test_every_run_state_can_be_reached() -> None:
    assert set(RUN_MOVES.values()) | {RunState.SCHEDULED} == set(RunState)


def test_a_confirmed_delivery_is_delivered_from_everywhere_and_stays_until_a_replay() -> None:
    for state in DeliveryState:
        assert DELIVERY_MOVES[state, DeliveryMove.CONFIRM] is DeliveryState.DELIVERED
    moves = {move for state, move in DELIVERY_MOVES if state is DeliveryState.DELIVERED}
    assert moves == {DeliveryMove.CONFIRM, DeliveryMove.REPLAY}


def test_outcomes() -> None:
    assert outcome_of(3, 3) is RunMove.ALL_DELIVERED
    assert outcome_of(1, 3) is RunMove.SOME_DELIVERED
    assert outcome_of(0, 3) is RunMove.NONE_DELIVERED


def test_a_window_is_not_empty() -> None:
    with pytest.raises(ValueError, match="not empty"):
        Run("r", "01R", "default", 5, 5, 1, Trigger.MANUAL, 0)
