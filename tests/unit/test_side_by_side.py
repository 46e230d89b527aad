"""What runs side by side, and what may not."""

import re
from pathlib import Path

import pytest

from tests.side_by_side import APART, LONGEST, TOGETHER, group, turn

TESTS = Path(__file__).parents[1]
JOURNEYS = re.compile(r"\b(?:journey|embedded_journey|distributed_journey): Journey\b")


@pytest.mark.parametrize("place", [*TOGETHER, *sorted(APART)])
def test_what_is_named_is_there(place: str) -> None:
    assert (TESTS / place).exists(), "tests/side_by_side.py names it"


@pytest.mark.parametrize("name", LONGEST)
def test_what_is_begun_first_is_a_group(name: str) -> None:
    assert name in TOGETHER.values() or (TESTS / name).is_file()


def test_whoever_looks_at_the_journeys_runs_where_they_were_made() -> None:
    """Else the year's flights are sent through both set-ups once more."""
    looking = {
        f"journey/{path.name}"
        for path in (TESTS / "journey").glob("test_*.py")
        if JOURNEYS.search(path.read_text("utf-8"))
    }
    assert len(looking) > 5
    assert {place: TOGETHER.get(place) for place in looking} == dict.fromkeys(looking, "flights")


def test_a_group_is_the_closest_that_is_named() -> None:
    assert group("tests/contract/usage/test_store.py::test_x[a::b]") == "contract/usage"
    assert group("tests/journey/test_report.py::test_x") == "flights"
    assert group("tests/journey/test_keys.py::test_x") == "journey/test_keys.py"
    assert group("tests/simulation/test_seen.py::test_x") == "simulation/test_seen.py"


def test_what_shares_nothing_goes_test_by_test_and_last() -> None:
    worlds = [f"tests/simulation/test_worlds.py::test_{name}" for name in "ab"]
    assert group(worlds[0]) != group(worlds[1])
    assert turn(worlds[0]) > turn("tests/unit/test_x.py::test_x") > turn("tests/clients/test_go.py")


def test_what_is_waited_for_comes_last_of_its_group() -> None:
    flights = [place for place in TOGETHER if TOGETHER[place] == "flights"]
    in_turn = sorted(flights, key=lambda place: turn(f"tests/{place}::test_x"))
    assert in_turn == flights
    assert in_turn[-1] == "journey/test_by_schedule.py"
