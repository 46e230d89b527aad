"""`python -m tests.simulation`: worlds from seeds, each judged against the oracle.

`--schedules N` lives N worlds from fresh seeds (`--first-seed` chooses them), `--seed N --trace`
one again, with every turn, and `--controls` those in which a defence is taken away.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from typing import Final, NoReturn

from tests.simulation.defences import CONTROLS
from tests.simulation.life import Outcome, lived

TOLD_EVERY_S: Final = 2.0
SEEDS: Final = 1 << 40


def main() -> None:
    """Exits with 1 where a world is not as it must be, and says how to see it again."""
    asked = _asked()
    if asked.seed is not None:
        _replay(asked.seed, trace=asked.trace)
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
    parser.add_argument("--trace", action="store_true", help="tell every turn of it")
    parser.add_argument("--controls", action="store_true", help="take away each defence in turn")
    return parser.parse_args()


def _replay(seed: int, *, trace: bool) -> None:
    outcome = lived(seed, trace=_say if trace else None)
    _say(f"seed {seed}: {outcome.events} events, fingerprint {outcome.fingerprint}")
    if outcome.failures:
        _end(outcome)
    _say("all is as it must be")


def _schedules(schedules: int, seconds: float, first: int) -> None:
    _say(f"{schedules} schedules from seed {first} on")
    began_s = told_s = time.monotonic()
    dealt, reached = Counter[str](), Counter[str]()
    done = 0
    while done < schedules and time.monotonic() - began_s < seconds:
        outcome = lived(first + done)
        if outcome.failures:
            _end(outcome)
        done += 1
        dealt += outcome.dealt
        reached += outcome.reached
        if time.monotonic() - told_s > TOLD_EVERY_S and sys.stdout.isatty():
            told_s = time.monotonic()
            _say(f"\r{done} of {schedules}, {done / (told_s - began_s):.1f} a second", end="")
    rate = done / (time.monotonic() - began_s)
    _say(f"\r{done} schedules, seeds {first} to {first + done - 1}: 0 lost, 0 double")
    _table("faults", dealt)
    _table("needed of the product", reached)
    _say(f"{rate:.1f} schedules a second")


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


def _end(outcome: Outcome) -> NoReturn:
    _say(f"\rseed {outcome.seed} fails:")
    for failure in outcome.failures:
        _say(f"  {failure}")
    sys.exit(f"again, with every turn: python -m tests.simulation --seed {outcome.seed} --trace")


def _say(words: str, end: str = "\n") -> None:
    sys.stdout.write(words + end)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
