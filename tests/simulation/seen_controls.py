"""Controls of catch-up: what a seen store that was brought up must know, and when it may say so."""

from typing import Final

from meterline.usage import SeenExtent, SeenSpan
from tests.simulation.parts import Lying, Substitutes
from tests.simulation.profile import MINUTE_MS
from tests.simulation.stores import SimulatedBulk


class Shortened(Lying):
    """Keys are brought of half a horizon only."""

    def _later(self, span: SeenSpan) -> SeenSpan:
        return span._replace(from_ms=span.from_ms + 10 * MINUTE_MS)

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        extent: SeenExtent = await self._port.seen_extent(self._later(span))
        return extent

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        keys: bytes = await self._port.seen_keys(self._later(span), low, high)
        return keys


class _Hasty(SimulatedBulk):
    async def finish(self, applied: int) -> None:
        self.volume.applied = max(self.volume.applied, applied)
        await super().finish(applied)


class HastySeen(Lying):
    """It says that keys are in before they are."""

    def bulk(self) -> SimulatedBulk:
        made: SimulatedBulk = self._port.bulk()
        return _Hasty(made.volume, made.net, made.before)


class _Partial(SimulatedBulk):
    async def add(self, keys: bytes) -> None:
        if not self.keys:
            await super().add(keys)


class PartialSeen(Lying):
    """The first share of the keys is taken for all of them."""

    def bulk(self) -> SimulatedBulk:
        made: SimulatedBulk = self._port.bulk()
        return _Partial(made.volume, made.net, made.before)


SHORT: Final = {"horizon_ms": 20 * MINUTE_MS, "jump_ms_max": 400_000}
CONTROLS: Final = {
    "keys of a whole horizon": Substitutes(usage=Shortened, profile=SHORT),
    "keys before the offset that tells of them": Substitutes(seen=HastySeen),
    "every share of the keys": Substitutes(seen=PartialSeen),
}
