"""What may befall a call of a port, how often, and how long it takes: all drawn from one seed."""

import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WRITES_WEIGHT: Final = 4


class Fate(StrEnum):
    """What becomes of one call."""

    WELL = "well"
    CRASH_BEFORE = "crash before"  # the process dies before it has asked
    CRASH_AFTER = "crash after"  # it dies when it is done, before it knows
    REFUSED = "refused"  # not done, and said so
    LOST = "reply lost"  # done, and not said so
    LATE = "late effect"  # given up, and done much later
    HALF = "half done"  # done in part, and not said so
    SLOW = "slow"
    ZOMBIE = "zombie"  # the process stands still before it asks, and goes on much later
    ZOMBIE_AFTER = "zombie after"  # it stands still with the answer in its hands
    TWICE = "done twice"  # the network repeats what writes


@dataclass(frozen=True, slots=True)
class Rates:
    """Chances of a call, in thousandths, by fate."""

    crash: int = 3
    refused: int = 15
    lost: int = 15
    late: int = 20
    half: int = 10
    slow: int = 30
    zombie: int = 4
    twice: int = 6


CALM = Rates(0, 0, 0, 0, 0, 0, 0, 0)


class Fates:
    """Draws from a seed, and counts what it dealt."""

    def __init__(self, rng: random.Random, rates: Rates) -> None:
        self.rng = rng
        self.dealt: Counter[str] = Counter()
        self.away: dict[str, float] = {}  # by store: it answers nobody until then
        self._table: list[Fate] = []
        self.set(rates)

    def set(self, rates: Rates) -> None:
        """From now on these chances."""
        table = [Fate.CRASH_BEFORE] * rates.crash + [Fate.CRASH_AFTER] * rates.crash
        table += [Fate.REFUSED] * rates.refused + [Fate.LOST] * rates.lost
        table += [Fate.LATE] * rates.late + [Fate.HALF] * rates.half + [Fate.SLOW] * rates.slow
        table += [Fate.ZOMBIE] * rates.zombie + [Fate.ZOMBIE_AFTER] * rates.zombie
        table += [Fate.TWICE] * rates.twice
        self._table = table

    @property
    def calm(self) -> bool:
        """Whether nothing befalls anybody any more."""
        return not self._table

    def draw(self, *, writes: bool = False) -> Fate:
        """The fate of the next call. Those that write are few, and what they meet matters most."""
        at = int(self.rng.random() * (1000 if not writes else 1000 / WRITES_WEIGHT))
        return self._table[at] if at < len(self._table) else Fate.WELL

    def note(self, what: str) -> None:
        """It did happen."""
        self.dealt[what] += 1

    def latency_s(self) -> float:
        """Of one way through the network: mostly milliseconds."""
        draw = self.rng.random()
        if draw < 0.85:
            return draw * 0.004
        return (draw - 0.85) * (0.3 if draw < 0.98 else 6.0)
