"""When a worker looks for a newer catalogue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalogue_debounce import CatalogueDebounce
from meterline.limits import CATALOGUE_PAUSE_MS_MAX, CATALOGUE_POLL_MS

BEGAN_MS = 1_000_000


def begun() -> CatalogueDebounce:
    """One that has just found a newer catalogue."""
    pace = CatalogueDebounce()
    assert pace.due(BEGAN_MS, adopting=False)
    pace.looked(BEGAN_MS, adopting=True)
    return pace


def first_due(pace: CatalogueDebounce, at_ms: int) -> int:
    """The first instant from then on at which the catalogue is looked at, asked every 100 ms."""
    while not pace.due(at_ms, adopting=False):
        at_ms += 100
    return at_ms


def test_a_catalogue_without_news_is_looked_at_once_a_second() -> None:
    pace = CatalogueDebounce()
    assert pace.due(BEGAN_MS, adopting=False)
    pace.looked(BEGAN_MS, adopting=False)
    assert not pace.due(BEGAN_MS + CATALOGUE_POLL_MS - 1, adopting=False)
    assert pace.due(BEGAN_MS + CATALOGUE_POLL_MS, adopting=False)


@pytest.mark.parametrize(("took_ms", "pause_ms"), [(100, 900), (2_000, 2_000), (7_000, 7_000)])
def test_from_one_to_the_next_is_as_much_time_as_the_last_took(took_ms: int, pause_ms: int) -> None:
    pace = begun()
    for at_ms in range(BEGAN_MS, BEGAN_MS + took_ms, 100):
        assert not pace.due(at_ms, adopting=True)
    assert first_due(pace, BEGAN_MS + took_ms) == BEGAN_MS + took_ms + pause_ms


@given(st.lists(st.tuples(st.integers(-400_000, 4_000_000), st.booleans()), max_size=50))
def test_whatever_clocks_do_it_is_looked_at_again_soon(steps: list[tuple[int, bool]]) -> None:
    pace = begun()
    now_ms = latest_ms = BEGAN_MS
    for passing_ms, adopting in steps:
        now_ms += passing_ms
        latest_ms = max(latest_ms, now_ms)
        if pace.due(now_ms, adopting=adopting):
            pace.looked(now_ms, adopting=adopting)
    assert first_due(pace, now_ms) < latest_ms + CATALOGUE_PAUSE_MS_MAX + 100
