"""Defences of what is known of slices, each taken away: something must be noticed then."""

from collections.abc import Sequence
from typing import Any, Final

from tests.simulation.fates import Rates
from tests.simulation.parts import Lying, Substitutes
from tests.simulation.progress import ALL
from tests.simulation.summing import SumsState

# Slices end often, their seals come late and twice, and owners stand still.
LATE: Final[dict[str, Any]] = {
    "jump_ms_max": 1_500_000,
    "rates": Rates(late=60, twice=60),
    "workers": 2,
    "faust": False,
    "lossy": 0.0,
    "log_restored": False,
    "expire_ms": 0,
}


class Settling(Lying):
    """What is not found is settled, though who looked read a copy that lags."""

    async def settle(self, log: int, partition: int, revisions: Sequence[int]) -> None:
        state = self._port._state  # noqa: SLF001
        await self._port.settle(log, partition, revisions)
        state.bounds |= {(log, partition, revision): ALL for revision in revisions}


def doubled(state: SumsState) -> None:
    """A seal that comes late is taken, though it was added up."""
    _progress(state).summed_end = lambda *_: 0


def raised(state: SumsState) -> None:
    """Whoever seals with an older catalogue leaves bounds where they are."""
    _progress(state).lower = lambda _: None


def unasked(state: SumsState) -> None:
    """Seals are added up, whatever is not filled in there yet."""
    state.revisions = set  # type: ignore[method-assign]


def _progress(state: SumsState) -> Any:
    return state._progress  # noqa: SLF001


# Meters change all the time, and not everybody knows.
UNAWARE: Final = LATE | {"replicas_lag": True, "meters_change_s": 0.3}
CONTROLS: Final[dict[str, Substitutes]] = {
    "seals that are added up once": Substitutes(sums=doubled, profile=LATE),
    "bounds that a late seal lowers": Substitutes(sums=raised, profile=UNAWARE),
    "sums of what is filled in": Substitutes(sums=unasked, profile=LATE),
    "bounds that are looked for": Substitutes(
        progress=Settling, profile=UNAWARE | {"workers": 1, "meters_change_s": 1.0}
    ),
}
