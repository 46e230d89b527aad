"""Defences of blocks, each taken away: something must be noticed then."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from meterline.usage import Block, BlockState, Due, Seal, columns_of
from tests.simulation.blocks import BlocksState, Known
from tests.simulation.fates import Rates
from tests.simulation.parts import Substitutes
from tests.simulation.profile import LOST, MINUTES

ENOUGH: Final = 1 << 60


def unasked(state: BlocksState) -> None:
    """Whoever made a block has it read."""
    state.may = lambda *_: True


def uncounted(state: BlocksState) -> None:
    """A block weighs what it weighs."""

    def due(block: Block, *_: Any) -> Due:
        weights = {name: one.weight for name, one in state.held(block.number).items()}
        return Due(weights, ENOUGH, ENOUGH, ENOUGH)

    _put(state, due=due)


def believed(state: BlocksState) -> None:
    """Nobody asks whether what was read was still kept."""
    _put(state, kept=lambda *_: True)


def filled(state: BlocksState) -> None:
    """A revision is taken to be counted in all slices."""
    _put(state, lacking=lambda *_: None)


def half_made(state: BlocksState) -> None:
    """Blocks are read while they are made."""

    def note(log: int, now_ms: int) -> None:
        there = [
            replace(it, state=BlockState.READABLE) if it.state is BlockState.MAKING else it
            for it in state.records.values()
            if it.log == log
        ]
        state.known = [*state.known[-5:], Known(now_ms, columns_of(there), ())]

    _put(state, note=note)


def repeated(state: BlocksState) -> None:
    """A statement that is executed again writes its rows again."""
    _put(state, written=lambda _: ())


def uncompared(state: BlocksState) -> None:
    """Nobody compares how many rows a block has with how many were counted. Older builds make
    blocks beside this one: their statements write again.
    """
    repeated(state)
    _put(state, damaged=lambda: False)


def unsealed(state: BlocksState) -> None:
    """Slices that are not sealed get into blocks, too."""
    sealed_after = state.sealed_after

    def begun_too(log: int, partition: int, offset: int, limit: int) -> list[Seal]:
        seals = sealed_after(log, partition, offset, limit)
        accounts = sorted(
            row
            for row in state.usage.tables["accounts"].values()
            if row.log == log and row.partition == partition and row.slice >= offset
        )
        behind = [row for row in accounts if not seals or row.slice >= seals[-1].end]
        return seals + [
            Seal(log, partition, row.slice, row.slice + 1, 0, ENOUGH, 0, None, 0, 0, 0, 0)
            for row in behind[:1]
        ]

    _put(state, sealed_after=begun_too)


def _put(state: BlocksState, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        assert callable(getattr(state, name)), name
        setattr(state, name, method)


# Many slices are sealed there, and much happens to what is written.
BUSY: Final[dict[str, Any]] = {
    "jump_ms_max": 1_500_000,
    "rates": Rates(half=30, twice=30, late=20),
    "lossy": 0.0,
    "log_restored": False,
    "expire_ms": 0,
}
REPEATED: Final = BUSY | {"rates": Rates(crash=1, twice=150)}
# Users ask by blocks, and what was compared a moment ago is good for a second.
ASKED: Final = LOST | MINUTES | {"rates": Rates(crash=1, twice=150)}
CONTROLS: Final[dict[str, Substitutes]] = {
    "blocks that neither overlap nor leave out": Substitutes(blocks=unasked, profile=BUSY),
    "the count-back of blocks": Substitutes(blocks=uncounted, profile=BUSY | {"lossy": 0.3}),
    "blocks that are kept while they are read": Substitutes(blocks=believed, profile=BUSY),
    "the revisions of a block": Substitutes(blocks=filled, profile=BUSY),
    "blocks that are read when they are whole": Substitutes(blocks=half_made, profile=BUSY),
    "the comparison of blocks": Substitutes(blocks=uncompared, profile=REPEATED),
    "statements of a block that write once": Substitutes(blocks=repeated, profile=ASKED),
    "blocks of sealed slices": Substitutes(blocks=unsealed, profile=BUSY),
}
