"""`python -m tests.simulation`: worlds from seeds, each judged against the oracle.

`--schedules N` lives N worlds from fresh seeds (`--first-seed` chooses them), `--seed N --trace`
one again, with every turn, and `--controls` those in which a defence is taken away. Some worlds are
of a kind that no seed draws; a failure is told with the options that live it again.
"""

import argparse
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Collection, Generator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.simulation.defences import CONTROLS
from tests.simulation.life import Outcome, lived
from tests.simulation.parts import Substitutes
from tests.simulation.profile import (
    DECAYING,
    DROPS,
    ERASING,
    FEW,
    GROWING,
    LOST,
    MINUTES,
    NARROW,
)

TOLD_EVERY_S: Final = 2.0  # on a terminal
LOGGED_EVERY_S: Final = 30.0
FAILURES_MAX: Final = 10  # then there is enough to look at
AGAIN: Final = "python -m tests.simulation"
SEEDS: Final = 1 << 40
KINDS: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "lost-store": (LOST, "its usage store is lost once"),
    "erasures": (ERASING, "subjects are erased in it"),
    "decaying": (DECAYING, "sealed slices lose rows in it"),
    "dropping": (DROPS, "rows of revisions that ended are dropped in it"),
    "minutes": (MINUTES, "usage by minute is dropped in it"),
    "growing": (GROWING, "its log gets more partitions"),
    "narrow": (NARROW, "open slices have little memory in it"),
}
"""What no seed draws, and what it is."""
PLACES: Final[Mapping[str, Collection[tuple[int, int]]]] = {
    "lost-store": [(20, 19)],
    "erasures": [(3, 2)],
    "decaying": [(15, 3)],
    "dropping": [(15, 6), (15, 12)],
    "minutes": [(15, 9), (15, 11), (15, 12)],
    "growing": [(15, 1), (15, 7), (60, 17), (60, 19)],
    "narrow": [(15, 10), (60, 22)],
}
"""Of so many worlds, which one is of a kind. It is of two kinds only where both go together."""


def main() -> None:
    """Exits with 1 where a world is not as it must be, and says how to see it again."""
    asked = _asked()
    if asked.seed is not None:
        kinds = [name for name in KINDS if getattr(asked, name.replace("-", "_"))]
        _replay(asked.seed, world_of(kinds), trace=asked.trace)
    elif asked.controls:
        _controls(asked.schedules, asked.first_seed or 0)
    else:
        first = secrets.randbelow(SEEDS) if asked.first_seed is None else asked.first_seed
        _schedules(asked.schedules, asked.seconds, first)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000, help="how many worlds")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most so long")
    parser.add_argument("--first-seed", type=int, help="the seed of the first; others follow it")
    parser.add_argument("--seed", type=int, help="live this world again")
    for name, (_, words) in KINDS.items():
        parser.add_argument(f"--{name}", action="store_true", help=words)
    parser.add_argument("--trace", action="store_true", help="tell every turn of it")
    parser.add_argument("--controls", action="store_true", help="take away each defence in turn")
    asked = parser.parse_args()
    if asked.schedules < 1:
        parser.error("--schedules: at least 1, or nothing is shown")
    return asked


def kinds_of(number: int) -> list[str]:
    """What world `number` of a run is of."""
    return [
        name for name, places in PLACES.items() if any(number % of == one for of, one in places)
    ]


def world_of(kinds: Collection[str]) -> Substitutes:
    """What is substituted in a world of these kinds."""
    profile: dict[str, Any] = {}
    for name in kinds:
        profile |= KINDS[name][0]
    if {"lost-store", "growing"} <= set(kinds):
        profile |= FEW
    return Substitutes(profile=profile)


def _replay(seed: int, substitutes: Substitutes, *, trace: bool) -> None:
    outcome = lived(seed, substitutes, _say if trace else None)
    _say(f"seed {seed}: {outcome.events} events, fingerprint {outcome.fingerprint}")
    if outcome.failures:
        _tell_failure(outcome)
        sys.exit(1)
    _say("all is as it must be")


def _schedules(schedules: int, seconds: float, first: int) -> None:
    _say(f"{schedules} schedules from seed {first} on")
    began_s = told_s = time.monotonic()
    terminal = sys.stdout.isatty()
    every_s = TOLD_EVERY_S if terminal else LOGGED_EVERY_S
    total = Total()
    with closing(_outcomes(schedules, first)) as outcomes:
        for outcome in outcomes:
            kinds = kinds_of(total.done)
            total.add(outcome)
            if outcome.failures:
                _tell_failure(outcome, "".join(f" --{name}" for name in kinds))
            if len(total.failed) >= FAILURES_MAX or time.monotonic() - began_s >= seconds:
                break
            if time.monotonic() - told_s > every_s:
                told_s = time.monotonic()
                left_s = (schedules - total.done) * (told_s - began_s) / total.done
                failed = len(total.failed)
                words = f"{total.done} of {schedules}, {failed} failed, {left_s:.0f} s to go"
                _say(f"\r{words}  " if terminal else words, "" if terminal else "\n")
    total.tell(first, time.monotonic() - began_s)
    if not total.done or (total.done < schedules and seconds == float("inf") and not total.failed):
        sys.exit(f"{total.done} of {schedules} schedules were lived")
    if total.failed:
        sys.exit(f"{len(total.failed)} of {total.done} schedules failed: {total.failed}")


def _outcomes(schedules: int, first: int) -> Generator[Outcome]:
    """Of all worlds, in order; as many are lived at a time as there are processors."""
    with ProcessPoolExecutor(min(schedules, os.cpu_count() or 1)) as pool:
        try:
            yield from pool.map(partial(_lived, first), range(schedules))
        finally:
            pool.shutdown(cancel_futures=True)


def _lived(first: int, number: int) -> Outcome:
    return lived(first + number, world_of(kinds_of(number)))


@dataclass
class Total:
    """What was lived through."""

    done: int = 0
    failed: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    dealt: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """One world more."""
        self.done += 1
        self.kinds += outcome.kinds
        self.dealt += outcome.dealt
        self.reached += outcome.reached
        if outcome.failures:
            self.failed.append(outcome.seed)

    def tell(self, first: int, took_s: float) -> None:
        """All of it."""
        last = first + self.done - 1
        _say(f"\r{self.done} schedules, seeds {first} to {last}, in {took_s:.0f} s")
        _table("worlds", self.kinds)
        _table("faults", self.dealt)
        _table("needed of the product", self.reached)
        if not self.failed:
            _say("0 lost, 0 double, 0 claimed too early")


def _controls(schedules: int, first: int) -> None:
    deaf = []
    for name, substitutes in CONTROLS.items():
        failed = sum(bool(lived(first + n, substitutes).failures) for n in range(schedules))
        _say(f"without {name}: {failed} of {schedules} schedules fail")
        if not failed:
            deaf.append(name)
    if deaf:
        sys.exit(f"nothing is noticed without: {', '.join(deaf)}")


def _table(title: str, counts: Counter[str]) -> None:
    _say(f"{title}:")
    for name, count in counts.most_common():
        _say(f"  {count:>9}  {name}")


def _tell_failure(outcome: Outcome, how: str = "") -> None:
    _say(f"\rseed {outcome.seed} fails:")
    for failure in outcome.failures:
        _say(f"  {failure}")
    _say(f"  again, with every turn: {AGAIN} --seed {outcome.seed}{how} --trace")


def _say(words: str, end: str = "\n") -> None:
    sys.stdout.write(words + end)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
