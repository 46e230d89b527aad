"""Defences of usage by minute that is dropped, each taken away: something must be noticed then."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from meterline.usage import Block
from tests.simulation.blocks import BlockRow, BlocksState, Sight
from tests.simulation.minutes import MinutesState
from tests.simulation.parts import Substitutes
from tests.simulation.profile import ERASING, LOST, MINUTES


def told(state: MinutesState) -> None:
    """Whatever is asked is told from what is left."""
    state.lack = lambda *_: None


def unasked(state: MinutesState) -> None:
    """Minutes go when they are old, whether blocks have them or not."""
    state.why = lambda *_, **__: None


def unconfirmed(state: MinutesState) -> None:
    """Nobody asks whether a notice came while an answer was read."""
    kept = state.blocks.kept
    _put(state.blocks, kept=lambda numbers, _=0: kept(numbers, 1 << 40))


def scattered(state: MinutesState) -> None:
    """Late rows of slices without a block are looked for by time, where they may be dropped."""
    state.along_log = lambda table: table


def compared(state: MinutesState) -> None:
    """The comparison of both stores takes what is dropped for lost."""
    if state.on:
        state._binding.kept = dict  # noqa: SLF001


def remade(state: BlocksState) -> None:
    """A block under a pseudonym is made of the copies in its slices, as far as they are kept."""
    made_of = state._from  # noqa: SLF001

    def of_slices(block: Block, sources: Sequence[int], sight: Sight) -> list[BlockRow]:
        if sight.named == Sight().named:
            return made_of(block, sources, sight)
        return [row for row in made_of(block, (), Sight()) if sight.named(row) == row]

    _put(state, _from=of_slices)


def _put(state: Any, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        assert callable(getattr(state, name)), name
        setattr(state, name, method)


OFTEN: Final[dict[str, Any]] = MINUTES | {"lossy": 0.0}
CONTROLS: Final[dict[str, Substitutes]] = {
    "minutes that are refused": Substitutes(minutes=told, profile=OFTEN),
    "minutes that blocks have": Substitutes(minutes=unasked, profile=OFTEN),
    "a notice that comes while minutes are read": Substitutes(minutes=unconfirmed, profile=OFTEN),
    "late rows along the log": Substitutes(minutes=scattered, profile=OFTEN),
    "the comparison where minutes are dropped": Substitutes(
        minutes=compared, profile=LOST | MINUTES
    ),
    "blocks under a pseudonym that have what was dropped": Substitutes(
        blocks=remade, profile=ERASING | OFTEN
    ),
}
