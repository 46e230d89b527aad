"""Defences of erasures, each taken away: something must be noticed then."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from aggregator.erasure import Eraser
from aggregator.slice.sealing import Sealer
from meterline.usage import Erasure, Flush, Hidden, SliceId, begun_at_ms
from tests.simulation.erasing.records import ErasuresState
from tests.simulation.erasing.rows import CELLS
from tests.simulation.fates import Rates
from tests.simulation.parts import Lying, SealedOtherwise, Substitutes
from tests.simulation.profile import ERASING

ECHO_S: Final = 4.0


class Unmasked(Lying):
    """Nothing is hidden from anybody."""

    async def all(self) -> tuple[Hidden, ...]:
        return ()

    async def of(self, _revisions: Collection[int]) -> tuple[Hidden, ...]:
        return ()

    async def confirm(self, *_: Any) -> None:
        """As it was."""


class Unconfirmed(Lying):
    """Nobody asks whether what was hidden still is."""

    async def confirm(self, *_: Any) -> None:
        """As it was."""


class Uncompared(Lying):
    """Copies are not counted back."""

    async def copy(self, erasure: Erasure) -> None:
        port = self._port
        for table in CELLS:
            act = partial(port._copied, table, erasure)  # noqa: SLF001
            await port._change(f"copy_{table}", act)  # noqa: SLF001


class Echoing(Lying):
    """What is written comes once more, some seconds later."""

    async def write(self, flush: Flush) -> None:
        await self._port.write(flush)
        self.__dict__.setdefault("echoes", []).append(asyncio.ensure_future(self._again(flush)))

    async def _again(self, flush: Flush) -> None:
        await asyncio.sleep(ECHO_S)
        await self._port.write(flush)


class Unwatchful(Eraser):
    """What comes back stays."""

    async def _watched(self, erasure: Erasure) -> None:
        rows = self._stores.rows
        nothing: Any = Nothing(rows)
        object.__setattr__(self._stores, "rows", nothing)
        try:
            await super()._watched(erasure)
        finally:
            object.__setattr__(self._stores, "rows", rows)


class Nothing(Lying):
    """Rows are not touched."""

    async def redact(self, _erasure: Erasure) -> None:
        """Not any more."""

    async def delete(self, _erasure: Erasure) -> None:
        """Not any more."""


class Hasty(Eraser):
    """It is told as done, whatever the log has."""

    def _own(self, erasure: Erasure, _begins: Mapping[int, int]) -> Mapping[int, int]:
        return erasure.ends


class Blind(Eraser):
    """Blocks that were replaced are not looked at."""

    async def _old_blocks(self, _erasure: Erasure) -> list[int]:
        return []


class ByTheClock(Eraser):
    """A block that was made before, by a clock that is behind, is waited for though it is read."""

    async def _old_blocks(self, erasure: Erasure) -> list[int]:
        numbers = await self._stores.rows.blocks_with(erasure)
        return [it for it in numbers if begun_at_ms(it) <= (erasure.settled_at_ms or 0)]


class Distrustful(Sealer):
    """Nobody else has sealed a slice."""

    async def sealed_by(self, slice_id: SliceId) -> int | None:  # noqa: ARG002
        return None


class Suspicious(SealedOtherwise):
    """A slice that differs is read again, though somebody else has sealed it."""

    sealed_by = Distrustful


def unsealed(state: ErasuresState) -> None:
    """Slices are erased that are not sealed."""
    _put(state, slice_ends=lambda erasure: dict(erasure.ends))


def unfilled(state: ErasuresState) -> None:
    """Nobody waits until meters are filled in, and their copies are made."""
    _put(state, _lacking=lambda *_: [])


def making(state: ErasuresState) -> None:
    """Blocks are made meanwhile."""
    _blocks(state).unsettled = lambda: False


def trusting(state: ErasuresState) -> None:
    """Whatever lies in the store is filled in, with its data."""
    _progress(state).pseudonyms = lambda _: {}


def _put(state: ErasuresState, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        assert callable(getattr(state, name)), name
        setattr(state, name, method)


def _progress(state: ErasuresState) -> Any:
    return state._progress  # noqa: SLF001


def _blocks(state: ErasuresState) -> Any:
    return state._blocks  # noqa: SLF001


BUSY: Final = ERASING | {"erases_s": 1.5, "wild_clocks": False}
ALWAYS_NEW: Final = BUSY | {"meters_change_s": 0.5}
RETURNING: Final = BUSY | {"rates": Rates(late=60, twice=60, half=20)}
COMING_BACK: Final = BUSY | {"meters_change_s": 0.4, "rates": Rates(crash=0)}
STANDING: Final = {"faust": False, "workers": 3, "meters_change_s": 0.7}
TWO: Final = BUSY | STANDING | {"rates": Rates(zombie=15, crash=1)}
FORGETFUL: Final = BUSY | {"lossy": 0.4}
CONTROLS: Final[dict[str, Substitutes]] = {
    "rows that are there twice and count once": Substitutes(masks=Unmasked, profile=BUSY),
    "answers that did not see the switch": Substitutes(masks=Unconfirmed, profile=BUSY),
    "erased slices that are sealed": Substitutes(erasures=unsealed, profile=BUSY),
    "meters that are filled before": Substitutes(erasures=unfilled, profile=ALWAYS_NEW),
    "events that came back without data": Substitutes(
        erasures=trusting, usage=Echoing, profile=COMING_BACK
    ),
    "no block meanwhile": Substitutes(erasures=making, profile=BUSY),
    "copies that are counted back": Substitutes(erased_rows=Uncompared, profile=FORGETFUL),
    "what comes back goes again": Substitutes(eraser=Unwatchful, profile=RETURNING),
    "blocks that a slow clock made": Substitutes(
        eraser=ByTheClock, profile=ERASING | {"wild_clocks": True}
    ),
    "slices that somebody else has sealed": Substitutes(aggregator=Suspicious, profile=TWO),
    "a log that has dropped it": Substitutes(eraser=Hasty, profile=BUSY),
    "replaced blocks that are gone": Substitutes(eraser=Blind, profile=BUSY),
}
