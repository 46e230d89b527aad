"""What a run is judged by bites: what grows is found, what saws or stays is let be."""

from math import sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.judging import (
    ENOUGH_S,
    GROWTH_MAX,
    WINDOW_S,
    Points,
    by_minute,
    grown,
    handles_are_flat,
    memory_is_flat,
    meters_are_taken_on,
    nothing_is_lost,
    slopes,
    stays_below,
    tops,
    warm_s,
    windows_of,
)

RUN_S, EVERY_S = 3_600, 5
TIMES = range(0, RUN_S, EVERY_S)
WARM = warm_s(RUN_S)
LEVEL = 500e6
THREE = [1.0, 2.0, 9.0]


def growing(share: float) -> Points:
    """It grows evenly by this share of its level from the time when it is warm."""
    return [(at, LEVEL * (1 + share * (at - WARM) / (RUN_S - WARM))) for at in TIMES]


def sawing(share: float = 0.0, period_s: float = 71.0) -> Points:
    """It saws by a third of its level, and its tops grow."""
    return [(at, value * (0.7 + 0.3 * (at % period_s) / period_s)) for at, value in growing(share)]


def stepping(share: float, at_s: float) -> Points:
    """It is higher from an instant on."""
    return [(at, LEVEL * (1 + share * (at >= at_s))) for at in TIMES]


def test_a_run_is_warm_after_ten_minutes_or_its_half() -> None:
    assert (warm_s(3_600), warm_s(ENOUGH_S), warm_s(600)) == (600, 600, 300)


def test_no_window_is_shorter_than_a_slice_where_there_is_time() -> None:
    assert [windows_of(late_s) for late_s in (100, 595, 3_000, 36_000)] == [12, 2, 10, 12]


@pytest.mark.parametrize("phase_s", range(0, int(WINDOW_S), 60))
@pytest.mark.parametrize(("share", "flat"), [(0.0, True), (0.02, True), (0.2, False)])
def test_the_shortest_run_tells_growth_from_slices_that_fill(
    phase_s: int, share: float, flat: bool
) -> None:
    times = range(0, int(ENOUGH_S), EVERY_S)
    points = [
        (at, LEVEL * (0.7 + 0.3 * ((at + phase_s) % WINDOW_S) / WINDOW_S) * (1 + share * at / 600))
        for at in times
    ]
    judged = memory_is_flat("it", points, warm_s(ENOUGH_S))
    assert judged.holds is flat, judged.figures


@pytest.mark.parametrize(
    ("points", "flat"),
    [
        (growing(0.0), True),
        (growing(0.04), True),
        (growing(0.08), False),
        (growing(1.5), False),
        (growing(-0.4), True),
        (sawing(), True),
        (sawing(0.03), True),
        (sawing(0.08), False),
        (stepping(0.08, RUN_S * 2 / 3), False),
        (stepping(0.5, WARM / 2), True),  # while it was not warm
        ([(at, value * (1 + 0.01 * sin(at))) for at, value in growing(0.0)], True),
        ([*growing(0.0)[:600], (3_001, 2 * LEVEL), *growing(0.0)[601:]], True),  # one peak
        (growing(0.0)[:100], False),  # it ended before it was warm
        ([], False),
    ],
)
def test_memory_that_grows_is_found(points: Points, flat: bool) -> None:
    judged = memory_is_flat("it", points, WARM)
    assert judged.holds is flat, judged.figures


@given(share=st.floats(-0.5, 3.0), period_s=st.floats(100, 240))
def test_what_grows_is_told_to_a_hundredth(share: float, period_s: float) -> None:
    for points in (growing(share), sawing(share, period_s)):
        it = grown(points, WARM)
        assert it is not None
        assert it.more / LEVEL == pytest.approx(share, abs=0.03 + abs(share) * 0.1)
        if share > GROWTH_MAX + 0.05:
            assert not memory_is_flat("it", points, WARM).holds
        if share < GROWTH_MAX - 0.05:
            assert memory_is_flat("it", points, WARM).holds


@pytest.mark.parametrize(
    ("before", "more", "flat"),
    [(40, 0, True), (40, 10, True), (40, 30, False), (2_000, 60, True), (2_000, 200, False)],
)
def test_handles_that_grow_are_found(before: int, more: int, flat: bool) -> None:
    points = [(at, before + more * (at - WARM) / (RUN_S - WARM)) for at in TIMES]
    judged = handles_are_flat("it", points, WARM)
    assert judged.holds is flat, judged.figures


def test_a_lag_is_bounded_once_it_is_warm() -> None:
    points = [(at, 90.0 if at < WARM else 3.0) for at in TIMES]
    assert stays_below("lag", points, WARM, 60.0, "s").holds
    assert not stays_below("lag", [*points, (RUN_S, 60.1)], WARM, 60.0, "s").holds
    assert not stays_below("lag", [], WARM, 60.0, "s").holds


@pytest.mark.parametrize(
    ("made", "took_s", "holds"),
    [(3, THREE, True), (4, THREE, True), (5, THREE, False), (1, [], False), (0, [], False)],
)
def test_meters_that_are_never_taken_on_are_found(
    made: int, took_s: list[float], holds: bool
) -> None:
    assert meters_are_taken_on(made, took_s).holds is holds


def test_a_difference_is_a_loss() -> None:
    assert nothing_is_lost([]).holds
    assert not nothing_is_lost(["account: 1 new, expected 2"]).holds


def test_each_window_has_its_top() -> None:
    assert tops([(at, at) for at in range(24)], 12) == list(range(12, 24))
    assert tops([(at, at) for at in range(24)], 24) == []
    assert tops([(5, 7.0)], 0) == [7.0]


def test_a_slope_is_by_the_million_of_events() -> None:
    events = [(at, at * 1_000.0) for at in TIMES]  # of 3,000,000 events from the warm time on
    found = slopes({"grows": growing(0.3), "flat": growing(0.0), "short": []}, events, WARM)
    assert found == pytest.approx({"grows": LEVEL * 0.1, "flat": 0.0}, rel=0.05)
    assert slopes({"grows": growing(0.3)}, [], WARM) == {}


def test_each_minute_has_its_median() -> None:
    assert by_minute([(0, 1.0), (30, 5.0), (59, 2.0), (130, 7.0)]) == [2.0, 0.0, 7.0]
    assert by_minute([]) == []
