"""Defences of erasures that stand beside another one, each taken away alone.

Five others have no control yet. So many schedules of `LATE` showed nothing, each with its defence
taken away: `unfilled` alone 300, `withheld` 400, `erased_from` 300, `ended` 237 since no standby
is asked where subjects are erased; and of a world that erases the same subjects again, `firsts`
300. That is no proof that they are not needed: meters must be made,
filled or sealed by somebody late between two calls of an erasure.
"""

from collections.abc import Mapping
from typing import Any, Final

from tests.simulation.erasing.controls import BUSY
from tests.simulation.erasing.records import ErasuresState
from tests.simulation.fates import Rates
from tests.simulation.parts import Substitutes


def borders_that_move(state: ErasuresState) -> None:
    """The record of a border that lands last stands."""

    def moved(name: str, log: int, ends: Mapping[int, int], until_ms: int) -> None:
        state._put(name, log=log, ends=dict(ends), log_until_ms=until_ms)  # noqa: SLF001

    state.set_borders = moved  # type: ignore[method-assign]


# Copies take their time, meters change meanwhile, and somebody always comes late.
LATE: Final[dict[str, Any]] = BUSY | {
    "erases_s": 0.5,
    "copies_take_s": 1.0,
    "faust": False,
    "workers": 3,
    "meters_change_s": 0.7,
    "hour_zombies_s": 1.2,
    "rates": Rates(zombie=20, crash=1),
}
CONTROLS: Final[dict[str, Substitutes]] = {
    "a border that stands": Substitutes(erasures=borders_that_move, profile=LATE),
}
