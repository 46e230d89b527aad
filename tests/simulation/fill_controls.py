"""Defences of backfill, each taken away: something must be noticed then."""

from collections.abc import Sequence
from typing import Any, Final

from meterline.usage import Lacking
from tests.simulation.erasing.controls import ALWAYS_NEW, COMING_BACK, Echoing
from tests.simulation.fates import Rates
from tests.simulation.parts import Lying, Substitutes
from tests.simulation.sum_controls import LATE


class MarkedFirst(Lying):
    """The mark of a fill is set when it begins."""

    async def lacking(
        self, log: int, partition: int, revisions: Sequence[int], limit: int
    ) -> list[Lacking]:
        if self.__dict__.get("found"):  # it looks once more before it writes
            return list(self.__dict__.pop("found"))
        found: list[Lacking] = await self._port.lacking(log, partition, revisions, limit)
        self.__dict__["found"] = found
        for one in found:
            await self._port.mark_filled(log, partition, [one.seal.slice], one.revisions)
        return found


class Unlooked(Lying):
    """What was read is written, whatever became of the slices meanwhile."""

    async def lacking(self, *asked: Any) -> list[Lacking]:
        if self.__dict__.get("found"):
            return list(self.__dict__.pop("found"))
        found: list[Lacking] = await self._port.lacking(*asked)
        self.__dict__["found"] = found
        return found


class Alike(Lying):
    """From all slices that are read together the same subjects are erased."""

    async def lacking(self, *asked: Any) -> list[Lacking]:
        found: list[Lacking] = await self._port.lacking(*asked)
        return [one._replace(erased=found[0].erased) for one in found]


class LastIsAll(Lying):
    """Where a revision is filled in up to some slice, it is so everywhere before."""

    async def mark_filled(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        revisions: Sequence[int],
        now_ms: int = 0,
    ) -> None:
        await self._port.mark_filled(log, partition, slices, revisions, now_ms)
        bounds = self._port._state.bounds  # noqa: SLF001
        for revision in revisions:
            key = log, partition, revision
            bounds[key] = max(bounds.get(key, 0), max(slices) + 1)


# Several owners, that stand still for long, and meters all the time.
CROWD: Final[dict[str, Any]] = {
    "faust": False,
    "workers": 3,
    "meters_change_s": 0.4,
    "rates": Rates(zombie=25, late=40, crash=2),
}
CONTROLS: Final[dict[str, Substitutes]] = {
    "fill marks": Substitutes(
        progress=MarkedFirst,
        profile={"meters_change_s": 1.0, "rates": Rates(crash=25), "jump_ms_max": 400_000},
    ),
    "a look before what was read is written": Substitutes(
        progress=Unlooked, profile=ALWAYS_NEW | CROWD
    ),
    "slices from which the same subjects are erased": Substitutes(
        progress=Alike, usage=Echoing, profile=COMING_BACK
    ),
    "bounds that end at what lacks": Substitutes(
        progress=LastIsAll, profile=LATE | {"meters_change_s": 0.4, "jump_ms_max": 400_000}
    ),
}
