"""Defences of what is said of sealed slices that differ, each taken away: it must be noticed."""

from typing import Any, Final

from meterline.usage import SliceDifference
from tests.simulation.erasing.controls import TWO
from tests.simulation.erasing.records import ErasuresState
from tests.simulation.parts import Lying, Substitutes
from tests.simulation.profile import DECAYING


class Mute(Lying):
    """A slice is left, and nobody is told."""

    async def record_difference(self, _difference: SliceDifference) -> bool:
        return True


def suspicious(state: ErasuresState) -> None:
    """A slice without an erased subject is said to differ."""
    progress: Any = state._progress  # noqa: SLF001
    progress.was_erased_from = lambda _: False


CONTROLS: Final[dict[str, Substitutes]] = {
    "slices that differ are recorded": Substitutes(progress=Mute, profile=DECAYING),
    "an erased subject is no difference": Substitutes(erasures=suspicious, profile=TWO),
}
