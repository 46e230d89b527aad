"""The simulated seen store, catalogue and progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meterline.meter import Catalogue, Meter
from meterline.pack import position
from meterline.problem import Problem, ProblemType
from meterline.rows import Seal, SeenRow, SliceId
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

    def apply(self, rows: Sequence[SeenRow], applied: int) -> None:
        self._net.at_once(f"seen.apply {applied}", lambda: self._apply(rows, applied))

    def _apply(self, rows: Sequence[SeenRow], applied: int) -> None:
        self._before(self._volume)
        for row in rows:
            value = (position(row.offset, row.place), row.append_ms, row.check)
            self._volume.keys[row.key] = value
        self._volume.applied = max(self._volume.applied, applied)

    def close(self) -> None:
        """Nothing is held."""


class CatalogueState:
    """The meters, changed by an operator."""

    def __init__(self) -> None:
        self.version = 0
        self.meters: list[Meter] = []
        self.ever: list[Meter] = []

    def create(self, **defined: Any) -> Meter:
        """A new meter, or with `id` a new revision of one."""
        self.version += 1
        given: dict[str, Any] = {"id": f"m{self.version}", **defined}
        meter = Meter(
            revision=self.version,
            namespace="default",
            key=given["id"],
            name="",
            description="",
            created_at_ms=0,
            updated_at_ms=0,
            **given,
        )
        self.meters = [m for m in self.meters if m.id != meter.id] + [meter]
        self.ever.append(meter)
        return meter

    def change(self, meter: Meter, **changed: Any) -> Meter:
        """A new revision of a meter: other dimensions, another value or event type."""
        asked = replace(meter, **changed)
        return self.create(
            id=asked.id,
            aggregation=asked.aggregation,
            event_type=asked.event_type,
            value_property=asked.value_property,
            dimensions=asked.dimensions,
        )

    def delete(self, meter: Meter) -> None:
        """Logical, as everywhere."""
        self.version += 1
        self.meters = [m for m in self.meters if m.id != meter.id]

    def catalogue(self) -> Catalogue:
        return Catalogue(self.version, tuple(self.meters))


class SimulatedCatalogue:
    """`CatalogueStore` as far as aggregator and planner ask it."""

    def __init__(self, state: CatalogueState, net: Net) -> None:
        self._state = state
        self._net = net

    async def catalogue(self) -> Catalogue:
        return await self._net.call("catalogue.catalogue", self._state.catalogue)

    async def catalogue_version(self) -> int:
        return await self._net.call("catalogue.version", lambda: self._state.version)


class ProgressState:
    """Seals, fill marks and claims, merged by the greatest."""

    def __init__(self) -> None:
        self.logs: dict[str, tuple[int, int]] = {}
        self.seals: dict[tuple[int, int, int], Seal] = {}
        self.marks: set[tuple[SliceId, int]] = set()
        self.claims: dict[tuple[int, int, int], int] = {}
        self.ends: dict[tuple[int, int, int], int] = {}
        self.watch: Callable[[int, Mapping[int, int]], None] = lambda *_: None

    def register_log(self, log_id: str, partitions: int) -> int:
        number, found = self.logs.setdefault(log_id, (len(self.logs) + 1, partitions))
        if found != partitions:
            detail = f"Log {log_id} was registered with {found} partitions and has {partitions}."
            raise Problem(ProblemType.CONFLICT, detail)
        return number

    def seal(self, seal: Seal) -> None:
        key = (seal.log, seal.partition, seal.slice)
        there = self.seals.get(key)
        if there is None or seal.catalogue > there.catalogue:
            self.seals[key] = seal

    def last_seal(self, log: int, partition: int) -> Seal | None:
        found = self._of(log, partition)
        return found[-1] if found else None

    def _of(self, log: int, partition: int) -> list[Seal]:
        found = [s for s in self.seals.values() if s.log == log and s.partition == partition]
        return sorted(found, key=lambda seal: seal.slice)

    def unfilled(self, log: int, partition: int, revision: int, limit: int) -> list[Seal]:
        found = [
            seal
            for seal in self._of(log, partition)
            if seal.catalogue < revision
            and (SliceId(log, partition, seal.slice), revision) not in self.marks
        ]
        return found[:limit]

    def complete(self, log: int, catalogue: int, until_ms: Mapping[int, int]) -> None:
        self.watch(catalogue, until_ms)
        _put_greatest(self.claims, log, catalogue, until_ms)

    def complete_until(self, log: int, partitions: int, revision: int) -> int | None:
        claims = self.completions(log, revision)
        if set(range(partitions)) - claims.keys():
            return None
        if any(self.unfilled(log, number, revision, 1) for number in range(partitions)):
            return None
        return min(claims[number] for number in range(partitions))

    def completions(self, log: int, catalogue: int) -> dict[int, int]:
        return _greatest(self.claims, log, catalogue)

    def flushed(self, log: int, catalogue: int, offset_ends: Mapping[int, int]) -> None:
        _put_greatest(self.ends, log, catalogue, offset_ends)

    def flushed_ends(self, log: int, catalogue: int) -> dict[int, int]:
        return _greatest(self.ends, log, catalogue)


def _put_greatest(
    table: dict[tuple[int, int, int], int], log: int, catalogue: int, values: Mapping[int, int]
) -> None:
    for partition, value in values.items():
        key = (log, catalogue, partition)
        table[key] = max(value, table.get(key, value))


def _greatest(table: dict[tuple[int, int, int], int], log: int, catalogue: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for (of_log, of_catalogue, partition), value in table.items():
        if of_log == log and of_catalogue >= catalogue:
            found[partition] = max(value, found.get(partition, value))
    return found


class SimulatedProgress:
    """`ProgressStore` as one process reaches it."""

    def __init__(self, state: ProgressState, net: Net) -> None:
        self._state = state
        self._net = net

    async def register_log(self, log_id: str, partitions: int) -> int:
        return await self._net.call(
            "progress.register_log",
            lambda: self._state.register_log(log_id, partitions),
            writes=True,
        )

    async def seal(self, seal: Seal) -> None:
        await self._net.call(
            f"progress.seal {seal.partition}/{seal.slice} by {seal.catalogue}",
            lambda: self._state.seal(seal),
            writes=True,
        )

    async def last_seal(self, log: int, partition: int) -> Seal | None:
        return await self._net.call(
            "progress.last_seal", lambda: self._state.last_seal(log, partition)
        )

    async def unfilled(self, log: int, partition: int, revision: int, limit: int) -> list[Seal]:
        return await self._net.call(
            f"progress.unfilled {partition} {revision}",
            lambda: self._state.unfilled(log, partition, revision, limit),
        )

    async def mark_filled(self, slice_id: SliceId, revision: int) -> None:
        await self._net.call(
            f"progress.mark_filled {slice_id.partition}/{slice_id.slice} {revision}",
            lambda: self._state.marks.add((slice_id, revision)),
            writes=True,
        )

    async def complete(self, log: int, catalogue: int, until_ms: Mapping[int, int]) -> None:
        await self._net.call(
            f"progress.complete {catalogue} {dict(until_ms)}",
            lambda: self._state.complete(log, catalogue, until_ms),
            writes=True,
        )

    async def complete_until(self, log: int, partitions: int, revision: int) -> int | None:
        return await self._net.call(
            f"progress.complete_until {revision}",
            lambda: self._state.complete_until(log, partitions, revision),
        )

    async def completions(self, log: int, catalogue: int) -> dict[int, int]:
        return await self._net.call(
            "progress.completions", lambda: self._state.completions(log, catalogue)
        )

    async def flushed(self, log: int, catalogue: int, offset_ends: Mapping[int, int]) -> None:
        await self._net.call(
            f"progress.flushed {catalogue} {dict(offset_ends)}",
            lambda: self._state.flushed(log, catalogue, offset_ends),
            writes=True,
        )

    async def flushed_ends(self, log: int, catalogue: int) -> dict[int, int]:
        return await self._net.call(
            "progress.flushed_ends", lambda: self._state.flushed_ends(log, catalogue)
        )
