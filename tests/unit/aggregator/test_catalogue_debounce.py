"""When a worker takes a newer catalogue on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalogue_debounce import CatalogueDebounce
from meterline.limits import (
    CATALOGUE_PAUSE_MS,
    CATALOGUE_PAUSE_MS_MAX,
    CATALOGUE_POLL_MS,
    REREADS_PER_CATALOGUE,
)

BEGAN_MS = 1_000_000


def changed(ends: dict[int, int]) -> CatalogueDebounce:
    """A pace just after a change."""
    pace = CatalogueDebounce()
    assert pace.due(BEGAN_MS, ends)
    pace.changed(BEGAN_MS, ends)
    return pace


def first_due(pace: CatalogueDebounce, at_ms: int, reached: dict[int, int]) -> int:
    """The first instant from then on at which the catalogue is looked at, asked every 100 ms."""
    while not pace.due(at_ms, reached):
        at_ms += 100
    return at_ms


def test_a_catalogue_without_news_is_looked_at_once_a_second() -> None:
    pace = CatalogueDebounce()
    assert pace.due(BEGAN_MS, {})
    pace.looked(BEGAN_MS)
    assert not pace.due(BEGAN_MS + CATALOGUE_POLL_MS - 1, {})
    assert pace.due(BEGAN_MS + CATALOGUE_POLL_MS, {})


def test_after_a_change_that_cost_nothing_five_seconds_pass() -> None:
    pace = changed({0: 10, 1: 20})
    assert first_due(pace, BEGAN_MS, {0: 10, 1: 20}) == BEGAN_MS + CATALOGUE_PAUSE_MS


@pytest.mark.parametrize("reread_ms", [2_000, 7_000])
def test_after_one_that_took_long_five_times_as_long_passes(reread_ms: int) -> None:
    pace = changed({0: 10, 1: 20})
    for at_ms in range(BEGAN_MS, BEGAN_MS + reread_ms, 500):
        assert not pace.due(at_ms, {0: 10, 1: 19})
    assert not pace.due(BEGAN_MS + reread_ms, {0: 10, 1: 20})
    due_ms = first_due(pace, BEGAN_MS + reread_ms, {0: 10, 1: 20})
    assert due_ms == BEGAN_MS + REREADS_PER_CATALOGUE * reread_ms


def test_a_partition_that_was_given_up_is_not_waited_for() -> None:
    pace = changed({0: 10, 1: 20})
    assert not pace.due(BEGAN_MS + CATALOGUE_PAUSE_MS, {0: 5, 1: 20})
    assert pace.due(BEGAN_MS + CATALOGUE_PAUSE_MS, {1: 20}) is False, "what is known takes as long"
    assert first_due(pace, BEGAN_MS, {1: 20}) == BEGAN_MS + 5 * CATALOGUE_PAUSE_MS


@given(
    st.lists(st.tuples(st.integers(-400_000, 4_000_000), st.integers(0, 30)), max_size=50),
)
def test_whatever_clocks_and_readers_do_it_is_looked_at_again_soon(
    steps: list[tuple[int, int]],
) -> None:
    pace = changed({0: 30})
    now_ms = BEGAN_MS
    for passing_ms, reached in steps:
        now_ms += passing_ms
        if pace.due(now_ms, {0: reached}):
            pace.looked(now_ms)
    latest_ms = max(now_ms, BEGAN_MS) + CATALOGUE_PAUSE_MS_MAX
    assert first_due(pace, now_ms, {0: 0}) < latest_ms + 100
