"""Steps of erasures, each left out or taken in another order: something must be noticed then."""

from typing import Any, Final

from aggregator.erasure import Eraser
from meterline.usage import Erasure, Renewal
from tests.simulation.erasing.controls import BUSY
from tests.simulation.fates import Rates
from tests.simulation.parts import Lying, Substitutes
from tests.simulation.profile import ERASING, LOST


class SwitchedFirst(Eraser):
    """The record is switched before its rows are copied: a kill between the two loses them."""

    async def _switched(self, erasure: Erasure) -> Erasure:
        await self._stores.ledger.switch(erasure.id, [], self._clock.now_ms())
        return await super()._switched(erasure)


class DeletedFirst(Eraser):
    """Rows under the name are deleted while answers still read them."""

    async def _switched(self, erasure: Erasure) -> Erasure:
        await self._stores.rows.copy(erasure)
        await self._stores.rows.delete(erasure)
        return await super()._switched(erasure)


class SettledFirst(Eraser):
    """It is told as settled before anything was deleted, and nobody deletes it any more."""

    async def _settled(self, erasure: Erasure) -> Erasure:
        await self._stores.ledger.settle(erasure.id, self._clock.now_ms())
        return await self._now(erasure)

    async def _watched(self, erasure: Erasure) -> None:
        rows = self._stores.rows
        idle: Any = _Idle(rows)
        object.__setattr__(self._stores, "rows", idle)
        try:
            await super()._watched(erasure)
        finally:
            object.__setattr__(self._stores, "rows", rows)


class _Idle(Lying):
    """Cells are not deleted."""

    async def delete(self, _erasure: Erasure) -> None:
        """Somebody else's work."""


class Payloads(Lying):
    """Raw events, refused events and rejected values stay as they are."""

    async def redact(self, _erasure: Erasure) -> None:
        """As it was."""


class Uncopied(Lying):
    """Nothing is written under the pseudonym."""

    async def copy(self, _erasure: Erasure) -> None:
        """As it was."""


class Unrenewed(Lying):
    """Blocks keep the name."""

    async def switch(self, erasure_id: str, _renewals: list[Renewal], now_ms: int) -> None:
        await self._port.switch(erasure_id, [], now_ms)


class Restless(Eraser):
    """No empty pack ends the slice of a partition that gets no more events."""

    async def _close_slices(self, _erasure: Erasure, _now_ms: int) -> None:
        """Somebody will send something."""


DYING: Final = BUSY | {"rates": Rates(crash=25)}
CONTROLS: Final[dict[str, Substitutes]] = {
    "copies before the switch": Substitutes(eraser=SwitchedFirst, profile=DYING),
    "rows that are deleted after the switch": Substitutes(eraser=DeletedFirst, profile=BUSY),
    "rows that are deleted before it is told": Substitutes(eraser=SettledFirst, profile=BUSY),
    "payloads that are taken out": Substitutes(erased_rows=Payloads, profile=BUSY),
    "rows under the pseudonym": Substitutes(erased_rows=Uncopied, profile=BUSY),
    "slices that an empty pack ends": Substitutes(eraser=Restless, profile=BUSY),
    "blocks under the pseudonym": Substitutes(erasure_ledger=Unrenewed, profile=ERASING),
    "steps in one life of the store": Substitutes(
        erased_compared=False, profile=LOST | ERASING | {"erases_s": 0.7}
    ),
}
