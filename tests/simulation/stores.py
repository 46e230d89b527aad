"""The simulated seen store and catalogue."""

import asyncio
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from meterline.meter import Catalogue, FoldedRevisions, Meter, RevisionState, switched, timeline
from tests.simulation.network import Net

Seen = tuple[int, int, bytes]


@dataclass(slots=True)
class Volume:
    """The files of one partition's seen store, as they are on a worker's disk."""

    keys: dict[bytes, Seen] = field(default_factory=dict)
    applied: int = 0

    def copy(self) -> "Volume":
        return Volume(dict(self.keys), self.applied)


class SimulatedSeen:
    """`SeenStore` on a volume."""

    def __init__(self, volume: Volume, net: Net, before: Callable[[Volume], None]) -> None:
        self._volume = volume
        self._net = net
        self._before = before  # told of the state before each change: copies are made of it

    @property
    def applied(self) -> int:
        return self._volume.applied

    def get_many(self, keys: Sequence[bytes]) -> list[Seen | None]:
        return [self._volume.keys.get(key) for key in keys]

    def apply(self, keys: bytes, applied: int) -> None:
        self._net.at_once(f"seen.apply {applied}", lambda: self._apply(keys, applied))

    def _apply(self, keys: bytes, applied: int) -> None:
        self._before(self._volume)
        for key, place, append_ms, check in _PACKED.iter_unpack(keys):
            self._volume.keys[key] = (place, append_ms, check)
        self._volume.applied = max(self._volume.applied, applied)

    def bulk(self) -> "SimulatedBulk":
        return SimulatedBulk(self._volume, self._net, self._before)

    def close(self) -> None:
        """Nothing is held."""

    def discard(self) -> None:
        """Files of this world are never damaged."""
        raise AssertionError("nothing is damaged here")


_PACKED: Final = struct.Struct(">16sQQ8s")


class SimulatedBulk:
    """`SeenBulk` on a volume: a whole that a kill leaves out or in."""

    def __init__(self, volume: Volume, net: Net, before: Callable[[Volume], None]) -> None:
        self.volume = volume
        self.net = net
        self.before = before
        self.keys: list[bytes] = []

    async def add(self, keys: bytes) -> None:
        await asyncio.sleep(0.001)  # others go on
        self.net.at_once("seen.bulk", lambda: self.keys.append(keys))

    async def finish(self, applied: int) -> None:
        await asyncio.sleep(0.001)
        self.net.at_once(f"seen.bulk {applied}", lambda: self.put(applied))

    def put(self, applied: int) -> None:
        """All of it."""
        self.before(self.volume)
        for keys in self.keys:
            for key, place, append_ms, check in _PACKED.iter_unpack(keys):
                self.volume.keys[key] = (place, append_ms, check)
        self.volume.applied = max(self.volume.applied, applied)

    def give_up(self) -> None:
        """Nothing is held."""


REPLICA_ASKED: Final = 0.3  # share of the reads, where there is one


class CatalogueState:
    """The meters, changed by an operator."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.replica: Catalogue | None = None  # a copy from before, that some reads reach
        self.version = 0
        self.meters: list[Meter] = []
        self.asked_from: dict[int, int | None] = {}  # first instants of what waits for its switch
        self.switches: dict[str, list[tuple[int | None, Meter]]] = {}  # by meter, in order
        self.reported: Callable[[str], bool] = lambda _: False  # whether a report is on a meter
        self.ever: list[Meter] = []
        self.whole_from_ms: Callable[[int], int] = lambda _: 0  # of a revision: 0 where all is

    def create(self, **defined: Any) -> Meter:
        """A new meter, which answers at once."""
        self.version += 1
        name = f"m{self.version}"
        meter = Meter(
            id=name, revision=self.version, namespace="default", key=name, name="",
            description="", created_at_ms=0, updated_at_ms=0, **defined,
        )  # fmt: skip
        self.meters.append(meter)
        self.ever.append(meter)
        self.switches.setdefault(meter.id, []).append((None, meter))
        return meter

    def change(self, meter: Meter, from_ms: int | None, **changed: Any) -> Meter:
        """A revision beside the one in force, until it is filled in; what waited is given up."""
        self.version += 1
        after = replace(
            meter,
            revision=self.version,
            state=RevisionState.FILLING,
            effective_from_ms=None,
            before=None,
            **changed,
        )
        waits = [m for m in self.meters if m.id == meter.id and m.state is RevisionState.FILLING]
        self.meters = [m for m in self.meters if m not in waits] + [after]
        least_ms = self.whole_from_ms(self.version)  # what it cannot count, another one answers
        self.asked_from[after.revision] = max(from_ms or 0, least_ms) if least_ms else from_ms
        self.ever.append(after)
        return after

    def delete(self, meter: Meter) -> None:
        """Logical, as everywhere."""
        self.version += 1
        self.meters = [m for m in self.meters if m.id != meter.id]

    def catalogue(self) -> Catalogue:
        return Catalogue(self.version, tuple(self.meters))

    def ended(self) -> set[int]:
        """Revisions that left, for good."""
        return {meter.revision for meter in self.ever} - {meter.revision for meter in self.meters}

    @property
    def in_force(self) -> tuple[Meter, ...]:
        """One of each meter."""
        return self.catalogue().in_force

    def filling(self) -> list[int]:
        """What waits for its switch."""
        return [m.revision for m in self.meters if m.state is RevisionState.FILLING]

    def switch_filled(self, revision: int) -> Meter | None:
        """Put it in force; what it supersedes is folded on only where a report is on the meter."""
        after = next((m for m in self.meters if m.revision == revision), None)
        if after is None or after.state is not RevisionState.FILLING:
            return None
        before = next(m for m in self.in_force if m.id == after.id)
        from_ms = self.asked_from[revision]
        self.switches[after.id].append((from_ms, after))
        after = switched(before, after, from_ms)
        parts = {part.revision: part for part in timeline(after)}
        gone = {part.revision for part in timeline(before)} - parts.keys()
        if self.reported(after.id):
            for meter in self.meters:
                if meter.revision in gone:
                    parts[meter.revision] = replace(meter, state=RevisionState.SUPERSEDED)
            gone = set()
        self.meters = [parts.get(m.revision, m) for m in self.meters if m.revision not in gone]
        self.version += bool(gone)
        return after

    def answering(self, meter: Meter, at_ms: int) -> Meter:
        """The revision that answers an instant, as of the switch to `meter`: of all switches up to
        that one, the last that reaches so far back. Kept apart from the product's rule.
        """
        found = None
        for from_ms, after in self.switches[meter.id]:
            if from_ms is None or at_ms >= from_ms:
                found = after
            if after.revision == meter.revision:
                break
        assert found is not None, "the first answers everything"
        return found

    def read(self) -> Catalogue:
        """By whichever replica answers."""
        if self.replica is not None and self.rng.random() < REPLICA_ASKED:
            return self.replica
        return self.catalogue()


class SimulatedCatalogue:
    """`CatalogueStore` as far as aggregator and planner ask it."""

    def __init__(self, state: CatalogueState, net: Net) -> None:
        self._state = state
        self._net = net

    async def catalogue(self) -> Catalogue:
        return await self._net.call("catalogue.catalogue", self._state.read)

    async def folded_revisions(self) -> FoldedRevisions:
        found = await self.catalogue()
        return FoldedRevisions(found.version, tuple(sorted(it.revision for it in found.meters)))

    async def catalogue_version(self) -> int:
        return await self._net.call("catalogue.version", lambda: self._state.read().version)

    async def filling(self) -> list[int]:
        return await self._net.call("catalogue.filling", self._state.filling)

    async def switch_filled(self, revision: int, _now_ms: int) -> Meter | None:
        return await self._net.call(
            f"catalogue.switch_filled {revision}",
            lambda: self._state.switch_filled(revision),
            writes=True,
        )

    async def retire(self, _now_ms: int) -> set[int]:
        """What is superseded has left at once."""
        return set()
