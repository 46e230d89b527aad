"""What runs side by side, and what may not."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.side_by_side import (
    APART,
    IN_EVERY_SHARE,
    LONGEST,
    SHARES,
    TOGETHER,
    SideBySide,
    group,
    is_in_share,
    turn,
)
from tests.tiers import FOLDERS, Tier

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


def test_worlds_that_may_be_looked_for_long_are_begun_before_others() -> None:
    worlds = (TESTS / "simulation/test_worlds.py").read_text("utf-8")
    first, *others = re.findall(r"^def (test_\w+)", worlds, re.MULTILINE)
    assert others
    assert first == "test_without_a_defence_something_is_noticed"


def test_what_is_waited_for_comes_last_of_its_group() -> None:
    flights = [place for place in TOGETHER if TOGETHER[place] == "flights"]
    in_turn = sorted(flights, key=lambda place: turn(f"tests/{place}::test_x"))
    assert in_turn == flights
    assert in_turn[-1] == "journey/test_by_schedule.py"


LONG = [
    path.relative_to(TESTS.parent).as_posix()
    for folder, tier in FOLDERS.items()
    for path in (TESTS / folder).rglob("test_*.py")
    if tier is Tier.LONG
]


@pytest.mark.parametrize("first", [0, 1107])
def test_shares_that_follow_each_other_hold_every_long_test(first: int) -> None:
    assert len(LONG) > 60
    for path in LONG:
        held = [is_in_share(path, first + one) for one in range(SHARES)]
        assert sum(held) == (SHARES if group(path) in IN_EVERY_SHARE else 1), path


def test_a_group_is_whole_in_its_share() -> None:
    """What it shares is dear to start."""
    for share in range(SHARES):
        chosen = {group(path) for path in LONG if is_in_share(path, share)}
        assert all(is_in_share(path, share) for path in LONG if group(path) in chosen)


def test_what_takes_the_longest_is_dealt_out() -> None:
    first = ["journey/test_flights", "faults/test_faults", "journey/test_crashes"]
    paths = [*(f"tests/{name}.py" for name in first), "tests/conformance/test_door.py"]
    assert [[is_in_share(path, share) for path in paths].index(True) for share in range(4)] == [
        0, 1, 2, 3
    ]  # fmt: skip


def test_what_is_in_every_share_is_a_group_of_long_tests() -> None:
    assert {group(path) for path in LONG} >= IN_EVERY_SHARE


class Process:
    """One that runs tests, and notes which it is given."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="one of them")

    def send_runtest_some(self, places: Sequence[int]) -> None:
        assert places, "it would wait for a test for ever"
        self.given += [TESTS_OF_A_RUN[place] for place in places]

    def shutdown(self) -> None:
        self.shutting_down = True


TESTS_OF_A_RUN = [
    f"tests/journey/test_{name}.py::test_{number}" for name in "abcdefgh" for number in range(3)
]


@pytest.fixture
def run() -> Any:
    """A run of two processes, which have begun."""
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue=lambda _: ["2*popen"], option=option)
    made: Any = SideBySide(config, None)
    for process in (Process(), Process()):
        made.add_node(process)
        made.add_node_collection(process, TESTS_OF_A_RUN)
    made.schedule()
    return made


def _passed(run: Any, process: Process, first: int, end: int) -> None:
    """Some of the tests that it was given pass, one after the other."""
    for place in range(first, end):
        run.mark_test_complete(process, TESTS_OF_A_RUN.index(process.given[place]))


def _to_the_end(run: Any, processes: dict[Process, int]) -> None:
    """All that is left passes; so many tests of each process did before."""
    while run.has_pending:
        for process, first in processes.items():
            processes[process] = len(process.given)
            _passed(run, process, first, processes[process])


def test_a_process_that_dies_while_another_is_replaced_does_not_end_the_run(run: Any) -> None:
    first, second = run.nodes
    newer = [Process(), Process()]
    for died, process in zip((first, second), newer, strict=True):
        assert run.remove_node(died) == died.given[0]
        run.add_node(process)
    for process in newer:
        assert process.given == [], "it looks for tests still"
        run.add_node_collection(process, TESTS_OF_A_RUN)
        run.schedule()
    _to_the_end(run, dict.fromkeys(newer, 0))
    assert sorted(newer[0].given + newer[1].given) == TESTS_OF_A_RUN


def test_what_ended_in_a_process_that_died_is_not_begun_again(run: Any) -> None:
    first, second = run.nodes
    _passed(run, first, 0, 4)
    passed = first.given[:4]
    assert run.remove_node(first) == first.given[4]
    newer = Process()
    run.add_node(newer)
    run.add_node_collection(newer, TESTS_OF_A_RUN)
    run.schedule()
    _to_the_end(run, {second: 0, newer: 0})
    assert sorted(passed + second.given + newer.given) == TESTS_OF_A_RUN
