"""Defences of dropped revisions, each taken away: something must be noticed then."""

from collections.abc import Callable
from typing import Any, Final

from tests.simulation.dropping import DropsState
from tests.simulation.fates import Rates
from tests.simulation.parts import Substitutes
from tests.simulation.profile import DROPS


def unlessened(state: DropsState) -> None:
    """Seals go on telling of rows that are deleted."""
    _put(state, less=lambda *_: None)


def _put(state: DropsState, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        assert callable(getattr(state, name)), name
        setattr(state, name, method)


# Slices end often, and their seals come late.
LATE: Final[dict[str, Any]] = DROPS | {
    "jump_ms_max": 1_500_000,
    "rates": Rates(late=60, twice=60),
    "workers": 2,
    "faust": False,
    "lossy": 0.0,
}
CONTROLS: Final[dict[str, Substitutes]] = {
    "seals that tell of less": Substitutes(drops=unlessened, profile=LATE),
}
