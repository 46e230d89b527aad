"""A share of the simulation in every run of the tests; `make simulate` runs 10,000 schedules."""

import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.simulation.__main__ import KINDS, kinds_of, world_of
from tests.simulation.defences import CONTROLS
from tests.simulation.life import lived
from tests.simulation.parts import Substitutes

# A share of each kind: `make simulate` lives hundreds of them.
FRESH_WORLDS = 24
LOST_WORLDS = 8
ERASING_WORLDS = 16
DROPPING_WORLDS = 14  # of each sort
DECAYING_WORLDS = 24
GROWING_WORLDS = 10  # of each sort
MINUTES_WORLDS = 15  # of each sort
NARROW_WORLDS = 24
AGAIN = "python -m tests.simulation --seed {seed}"
FAULTS_MIN = 10  # kinds of faults that so many worlds bring about
CONTROL_SEEDS_MAX = 600
# What the simulation found in the product, and seeds that show it where the mending is taken away.
# What a seed means changes with the simulation: look for new ones with `--controls` then.
MENDED = {
    "success within the produce deadline": (53,),
    "the account in the count-back": (109,),
    "pauses that end when a clock is set back": (62, 77),
    "decided is what was staged": (34, 220, 300),
    "blocks that a slow clock made": (9, 10),
    "slices that somebody else has sealed": (1,),
    "events that came back without data": (73, 102, 107, 134),
    "statements of a block that write once": (73, 91),
}

# Worlds of `make simulate` that showed what has a test of its own now: trimming, borders of slices,
# a record of a block that was written again after it was forgotten, a catalogue that lagged. In the
# last one a store forgot events of an open slice before a newer meter was folded from them.
ONCE_FAILED = (603936366360, 269200052507, 26169410650, 693353727021, 231825703780, 764660140930)
# Those that lose their store: whoever starts first may look before another gave the store its id.
# A late first start named a store that another installation had by then: the next one is of a test.
# In the last one nothing was taken away after all: more events came than the loss was reckoned by.
ONCE_FAILED_LOST = (893860928134, 467144884999, 801607630437)
# A worker held records for a week, until nothing of the subject was left: the harness let it.
# Statements that made a block came again, after its rows were dropped.
ONCE_FAILED_ERASING = (185840147305, 986112980411)
# Newer meters waited for a seal that nobody asked for, while rows of older ones were dropped.
ONCE_FAILED_DROPPING = (986112980874,)

# Where a control is known to bite, and is looked for first.
BITES = {
    "rows that are there twice and count once": 1,
    "completeness with new partitions": 28,
    "looks by append times": 1,
    "strays that do not count": 0,
    "gateways that know where events belong": 2,
    "a wait before the marks": 28,
    "append times that go on from a parent's": 4,
    "what open slices took in before": 2,
    "a reading of what is durable": 38,
    "answers that did not see the switch": 2,
    "first position wins": 8,
    "whole slices": 6,
    "overlay": 4,
    "count-back": 2,
    "catalogue in the seal": 6,
    "one winner per materialization": 22,
    "delivered is what was answered": 1,
    "runs that mark themselves": 158,
    "proved prefix": 0,
    "the digest in the seal": 10,
    "the comparison of both stores": 0,
    "blocks that neither overlap nor leave out": 472,
    "blocks that are kept while they are read": 3,
    "blocks that are read when they are whole": 17,
    "blocks of sealed slices": 2,
    "seen store": 4,
    "version": 14,
    "catch-up from the seen table": 14,
    "completeness from the leader's end": 3,
    "fill marks": 125,
    "a look before what was read is written": 0,
    "slices from which the same subjects are erased": 13,
    "bounds that end at what lacks": 243,
    "the search for late usage": 8,
    "the inbox in the completeness": 23,
    "one pinned replica": 13,
    "completeness by catalogue": 22,
    "the count-back of blocks": 26,
    "the revisions of a block": 1,
    "the comparison of blocks": 10,
    "seals that tell of less": 8,
    "minutes that are refused": 15,
    "minutes that blocks have": 70,
    "the comparison where minutes are dropped": 1,
    "late rows along the log": 34,
    "blocks under a pseudonym that have what was dropped": 2,
    "seals that are added up once": 1,
    "bounds that a late seal lowers": 12,
    "sums of what is filled in": 20,
    "bounds that are looked for": 280,
    "slices that differ are recorded": 3,
    "an erased subject is no difference": 3,
    "meters that are filled before": 13,
    "copies that are counted back": 15,
    "what comes back goes again": 0,
    "replaced blocks that are gone": 15,
    "a border that stands": 78,
    "blocks under the pseudonym": 19,
    "steps in one life of the store": 65,
    "no block meanwhile": 1,
    "erased slices that are sealed": 9,
    "rows that are deleted after the switch": 8,
    "keys of a whole horizon": 52,
    "every share of the keys": 16,
    "a notice that comes while minutes are read": 13,
    "the life of the store": 2,
    "keys before the offset that tells of them": 48,
    "copies before the switch": 2,
    "keys of a slice that has ended": 4,
    "seals before newer meters": 44,
    "slices that an empty pack ends": 1,
    "the last seal, before records are said to be lost": 74,
}


def fails_by_it(seed: int, without: Substitutes) -> bool:
    """Whether this world fails without the defence, and with it does not."""
    if not lived(seed, without).failures:
        return False
    assert lived(seed, Substitutes(profile=without.profile)).failures == ()
    return True


@pytest.mark.parametrize("defence", [name for name in CONTROLS if name not in MENDED])
def test_without_a_defence_something_is_noticed(defence: str) -> None:
    """Those of `MENDED` have a test of their own, which is stricter: their seeds alone must do.

    It comes first: whatever bites elsewhere now is looked for in hundreds of worlds, and a run of
    all tests is not to end with that.
    """
    without = CONTROLS[defence]
    known = BITES.get(defence, 0)
    seeds = dict.fromkeys([known, *range(CONTROL_SEEDS_MAX)])
    bites = next((seed for seed in seeds if fails_by_it(seed, without)), None)
    if bites is None:
        pytest.fail(f"{CONTROL_SEEDS_MAX} schedules without it, and nothing is noticed")
    if bites != known:  # told by `pytest -rP`
        sys.stdout.write(f'"{defence}": {bites},  # in BITES, then it is found at once\n')


@pytest.mark.parametrize("name", MENDED)
def test_what_was_found_and_mended(name: str) -> None:
    assert any(fails_by_it(seed, CONTROLS[name]) for seed in MENDED[name])


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_worlds_that_failed_once_are_well(seed: int) -> None:
    assert lived(seed).failures == ()


@pytest.mark.parametrize("seed", ONCE_FAILED_LOST)
def test_worlds_that_failed_once_and_lose_their_store_are_well(seed: int) -> None:
    assert lived(seed, world_of(["lost-store"])).failures == ()


@pytest.mark.parametrize("seed", ONCE_FAILED_ERASING)
def test_worlds_that_failed_once_and_erase_subjects_are_well(seed: int) -> None:
    assert lived(seed, world_of(["erasures"])).failures == ()


@pytest.mark.parametrize("seed", ONCE_FAILED_DROPPING)
def test_worlds_that_failed_once_and_drop_revisions_are_well(seed: int) -> None:
    assert lived(seed, world_of(["dropping"])).failures == ()


def test_fresh_seeds() -> None:
    first = secrets.randbelow(1 << 40)
    seeds = range(first, first + FRESH_WORLDS)
    sys.stdout.write(f"seeds {first} to {seeds[-1]}\n")
    dealt: Counter[str] = Counter()
    lives = 0
    for seed in seeds:
        outcome = lived(seed)
        assert outcome.failures == (), f"{AGAIN} --trace".format(seed=seed)
        assert outcome.events, f"seed {seed}: a world without events shows nothing"
        dealt += outcome.dealt
        lives += 1
    assert lives == FRESH_WORLDS
    assert len(dealt) >= FAULTS_MIN, f"only {sorted(dealt)} happened in {lives} worlds"


def _all_well(kinds: Sequence[str], worlds: int) -> tuple[Counter[str], Counter[str]]:
    """What was dealt and what was reached in fresh worlds of these kinds without a failure."""
    first = secrets.randbelow(1 << 40)
    again = " ".join([AGAIN, *(f"--{name}" for name in kinds), "--trace"])
    sys.stdout.write(f"seeds {first} to {first + worlds - 1}\n")
    dealt: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for seed in range(first, first + worlds):
        outcome = lived(seed, world_of(kinds))
        assert outcome.failures == (), again.format(seed=seed)
        dealt += outcome.dealt
        reached += outcome.reached
    return dealt, reached


def test_a_usage_store_that_is_lost_is_told_and_what_comes_back_is_whole() -> None:
    dealt, _ = _all_well(["lost-store"], LOST_WORLDS)
    assert any(what.startswith("usage store lost") for what in dealt)


@pytest.mark.parametrize(
    ("kinds", "worlds"),
    [(["erasures"], ERASING_WORLDS), (["lost-store", "erasures"], LOST_WORLDS // 2)],
)
def test_subjects_are_erased_and_totals_stay(kinds: Sequence[str], worlds: int) -> None:
    _, reached = _all_well(kinds, worlds)
    assert reached["subjects erased"] >= worlds, reached
    assert reached["answers refused, since a subject was erased meanwhile"]


@pytest.mark.parametrize("others", [[], ["lost-store"]], ids=["kept", "lost"])
def test_rows_of_revisions_that_ended_go_and_no_number_changes(others: Sequence[str]) -> None:
    _, reached = _all_well([*others, "dropping"], DROPPING_WORLDS)
    assert reached["seals that tell of less"]


def test_sealed_slices_that_differ_are_recorded_and_no_others() -> None:
    _, reached = _all_well(["decaying"], DECAYING_WORLDS)
    assert reached["sealed slices recorded, since they differ"]


@pytest.mark.parametrize(
    "others", [[], ["lost-store"], ["erasures"]], ids=["kept", "lost", "erasures"]
)
def test_a_log_gets_more_partitions_and_each_event_counts_once(others: Sequence[str]) -> None:
    _, reached = _all_well([*others, "growing"], GROWING_WORLDS)
    assert reached["logs that have grown"] == GROWING_WORLDS
    assert reached["slices sealed in new partitions"]


@pytest.mark.parametrize(
    "others",
    [[], ["lost-store"], ["dropping"], ["erasures"]],
    ids=["kept", "lost", "revisions", "erasures"],
)
def test_minutes_go_and_answers_are_right_or_refused(others: Sequence[str]) -> None:
    _, reached = _all_well([*others, "minutes"], MINUTES_WORLDS)
    assert reached["periods of minutes dropped"] >= MINUTES_WORLDS // 5, reached
    assert reached["answers where minutes are not kept"], reached
    erased = (reached["subjects erased"], reached["answers without minutes and names"])
    assert all(erased) if "erasures" in others else not any(erased), reached


def test_every_kind_of_world_is_among_those_of_a_run() -> None:
    met = Counter(frozenset(kinds_of(number)) for number in range(60))
    assert set().union(*met) == set(KINDS)
    together = {frozenset(kinds) for kinds in met if len(kinds) > 1}
    assert together == {
        frozenset({"lost-store", "erasures"}),
        frozenset({"lost-store", "minutes"}),
        frozenset({"lost-store", "growing"}),
        frozenset({"erasures", "growing"}),
        frozenset({"dropping", "minutes"}),
        frozenset({"erasures", "minutes"}),
        frozenset({"growing", "narrow"}),
    }


def test_partitions_that_take_turns_count_as_others_do() -> None:
    _, reached = _all_well(["narrow"], NARROW_WORLDS)
    assert reached["times that partitions waited for memory"] >= NARROW_WORLDS, reached


@pytest.mark.parametrize("seed", [3, 4])
def test_a_seed_replays_to_the_letter_in_any_process(seed: int) -> None:
    lines: list[str] = []
    outcome = lived(seed, trace=lines.append)
    assert lived(seed).fingerprint == outcome.fingerprint, "a trace changes nothing"
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--trace"]
    for hashing in ("1", "2"):
        done = subprocess.run(
            command, env={"PYTHONHASHSEED": hashing}, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[: len(lines)] == lines
        assert outcome.fingerprint in done.stdout
