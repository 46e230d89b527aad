"""The simulated progress: a control store's side of counting."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from typing import Final

from meterline.ports import OutdatedMeters
from meterline.problem import Problem, ProblemType
from meterline.usage import (
    Borders,
    CatchingUp,
    Dropped,
    Filling,
    Lacking,
    Seal,
    SealSum,
    SliceDifference,
    SliceId,
    next_sum,
    of_kept,
    summed,
)
from tests.simulation.layouts import LayoutState, SimulatedLayouts
from tests.simulation.network import Net
from tests.simulation.stores import REPLICA_ASKED

ALL: Final = 1 << 60  # behind every offset


class ProgressState(LayoutState):
    """Seals and their sums, what is filled in, and claims, merged by the greatest."""

    def __init__(self, rng: random.Random | None = None) -> None:
        super().__init__()
        self.rng = rng or random.Random(0)
        self.replica: ProgressState | None = None  # a copy from before, that some reads reach
        self.seals: dict[tuple[int, int, int], Seal] = {}
        self.added: list[Seal] = []  # seals that were added up
        self.sums: list[SealSum] = []
        self.bounds: dict[tuple[int, int, int], int] = {}  # by log, partition and revision
        self.marks: set[tuple[SliceId, int]] = set()
        self.withheld: Callable[[], frozenset[int]] = frozenset  # revisions that nobody fills in
        self.ended: Callable[[], Collection[int]] = frozenset  # revisions that nobody counts
        self.erased_from: Callable[[SliceId], bool] = lambda _: False
        self.erases = False  # whether subjects are erased in this world
        self.pseudonyms: Callable[[SliceId], dict[str, str]] = lambda _: {}
        self.differing: dict[SliceId, SliceDifference] = {}
        self.dropped: Callable[[], tuple[Dropped, ...]] = tuple  # minutes that are not kept
        self.recorded: set[SliceId] = set()  # all that ever differed
        self.sealed: Callable[[Seal], None] = lambda _: None  # told of each that is new
        self.left_as_erased: set[SliceId] = set()  # that differ, since a subject is erased
        self.was_erased_from: Callable[[SliceId], bool] = lambda _: False
        self.least = 0  # nobody seals by an older catalogue
        self.watch: Callable[[int, Mapping[int, int]], None] = lambda *_: None

    def copied(self) -> "ProgressState":
        """As it is now."""
        copy, withheld = ProgressState(), self.withheld()
        copy.withheld = lambda: withheld
        copy.pseudonyms, copy.ended = self.pseudonyms, self.ended  # as they are now
        copy.seals, copy.marks = dict(self.seals), set(self.marks)
        copy.sums, copy.bounds = list(self.sums), dict(self.bounds)
        copy.claims, copy.ends = dict(self.claims), dict(self.ends)
        copy.layouts, copy.logs = dict(self.layouts), dict(self.logs)
        return copy

    def read(self) -> "ProgressState":
        """Whichever replica answers."""
        if self.replica is not None and self.rng.random() < REPLICA_ASKED:
            return self.replica
        return self

    def register_log(self, log_id: str, partitions: int) -> int:
        number, found = self.logs.setdefault(log_id, (len(self.logs) + 1, partitions))
        growths = self.layout(number).growths
        if found != partitions and not (growths and growths[-1].before == partitions):
            detail = f"Log {log_id} was registered with {found} partitions and has {partitions}."
            raise Problem(ProblemType.CONFLICT, detail)
        return number

    @property
    def ever(self) -> list[Seal]:
        """All seals, those that were added up, too."""
        return [*self.added, *self.seals.values()]

    def seal(self, seal: Seal) -> None:
        key = (seal.log, seal.partition, seal.slice)
        if key in self.seals and self.erased_from(SliceId(*key)):
            return
        if seal.slice < self.summed_end(seal.log, seal.partition):
            return
        if seal.catalogue < self.least:
            raise OutdatedMeters("it may tell of rows that are not kept")
        there = self.seals.get(key)
        if there is None:
            self.lower(seal)
        if there is None or seal.catalogue > there.catalogue:
            self.seals[key] = seal
        if there is None:
            self.sealed(seal)

    def summed_end(self, log: int, partition: int) -> int:
        mine = (one.end for one in self.sums if (one.log, one.partition) == (log, partition))
        return max(mine, default=0)

    def lower(self, seal: Seal) -> None:
        """A slice is sealed that newer revisions are not counted in."""
        for (log, partition, revision), end in self.bounds.items():
            if (log, partition) == (seal.log, seal.partition) and revision > seal.catalogue:
                self.bounds[log, partition, revision] = min(end, seal.slice)

    def unsettled(self, log: int, partition: int, revisions: Sequence[int]) -> list[int]:
        return [it for it in revisions if self.bounds.get((log, partition, it), 0) < ALL]

    def settle(self, log: int, partition: int, revisions: Sequence[int]) -> None:
        for revision in revisions:
            first = self.unfilled(log, partition, revision, 1)
            self.bounds[log, partition, revision] = first[0].slice if first else ALL

    def mark_filled(
        self, log: int, partition: int, slices: Sequence[int], revisions: Sequence[int]
    ) -> None:
        for revision in revisions:
            self.marks |= {(SliceId(log, partition, slice_), revision) for slice_ in slices}
        self.settle(log, partition, revisions)

    def sum_next(self, log: int, partition: int, within: Borders) -> int:
        """Seals of a partition become one sum; how many."""
        taken = next_sum(self._of(log, partition), within)
        if taken:
            self.sums.append(summed(taken))
            self.added += taken
            for seal in taken:
                del self.seals[log, partition, seal.slice]
        return len(taken)

    def all_seals(self, log: int, partition: int) -> list[Seal]:
        """Sums as if they were seals, then seals."""
        mine = [one for one in self.sums if (one.log, one.partition) == (log, partition)]
        return [*(one.as_seal() for one in mine), *self._of(log, partition)]

    def record_difference(self, difference: SliceDifference) -> bool:
        if self.was_erased_from(difference.slice_id):
            self.left_as_erased.add(difference.slice_id)
            return False
        kept = of_kept(difference, self.dropped())
        if kept is None:
            return False
        self.differing[difference.slice_id] = kept
        self.recorded.add(difference.slice_id)
        return True

    def differences_between(
        self, log: int, partition: int, first: int, end: int
    ) -> list[SliceDifference]:
        found = [self.differing[it] for it in sorted(self.differing)]
        ids = (it.slice_id for it in found)
        within = [it[:2] == (log, partition) and first <= it.slice < end for it in ids]
        return list(compress(found, within))

    def mark_mended(self, difference: SliceDifference) -> None:
        there = self.differing.get(difference.slice_id)
        if there is not None and there.found_at_ms == difference.found_at_ms:
            del self.differing[difference.slice_id]

    def last_seal(self, log: int, partition: int) -> Seal | None:
        found = self._of(log, partition)
        return found[-1] if found else None

    def append_ms_before(self, log: int, partition: int, offset: int) -> int:
        found = [one.append_ms for one in self.all_seals(log, partition) if one.slice < offset]
        return max(found, default=0)

    def _of(self, log: int, partition: int) -> list[Seal]:
        found = [s for s in self.seals.values() if s.log == log and s.partition == partition]
        return sorted(found, key=lambda seal: seal.slice)

    def unfilled(self, log: int, partition: int, revision: int, limit: int) -> list[Seal]:
        found = [
            seal
            for seal in self._of(log, partition)
            if seal.catalogue < revision
            and seal.slice >= self.bounds.get((log, partition, revision), 0)
            and (SliceId(log, partition, seal.slice), revision) not in self.marks
        ]
        return found[:limit]

    def lacking(
        self, log: int, partition: int, revisions: Sequence[int], limit: int
    ) -> list[Lacking]:
        left_out = self.withheld().union(self.ended())
        asked = sorted(revision for revision in revisions if revision not in left_out)
        lists = {it: self.unfilled(log, partition, it, 1 << 30) for it in asked}
        first = next((it for it in asked if lists[it]), None)
        if first is None:
            return []
        found = []
        for seal in lists[first][:limit]:
            lack = tuple(it for it in asked if seal in lists[it])
            gone = self.pseudonyms(SliceId(log, partition, seal.slice))
            erased = tuple(("default", *pair) for pair in sorted(gone.items()))
            found.append(Lacking(seal, lack, lack if seal.events else (), erased))
        return found

    def complete(self, log: int, catalogue: int, until_ms: Mapping[int, int]) -> None:
        self.watch(catalogue, until_ms)
        _put_greatest(self.claims, log, catalogue, until_ms)

    def complete_until(self, log: int, partitions: int, revision: int) -> int | None:
        claims = self.completions(log, revision)
        partitions = max(partitions, self.layout(log).partitions)
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


class SimulatedProgress(SimulatedLayouts):
    """`ProgressStore` as one process reaches it."""

    def __init__(self, state: ProgressState, net: Net) -> None:
        super().__init__(state, net)
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

    async def record_difference(self, difference: SliceDifference) -> bool:
        return await self._net.call(
            f"progress.record_difference {difference.place}",
            lambda: self._state.record_difference(difference),
            writes=True,
        )

    async def differences_between(
        self, log: int, partition: int, first: int, end: int
    ) -> list[SliceDifference]:
        return await self._net.call(
            "progress.differences_between",
            lambda: self._state.differences_between(log, partition, first, end),
        )

    async def differing_slices(self) -> int:
        return await self._net.call("progress.differing_slices", lambda: len(self._state.differing))

    async def mark_mended(self, difference: SliceDifference, now_ms: int) -> None:
        await self._net.call(
            f"progress.mark_mended {difference.place} at {now_ms}",
            lambda: self._state.mark_mended(difference),
            writes=True,
        )

    async def last_seal(self, log: int, partition: int) -> Seal | None:
        return await self._net.call(
            "progress.last_seal", lambda: self._state.last_seal(log, partition)
        )

    async def append_ms_before(self, log: int, partition: int, offset: int) -> int:
        return await self._net.call(
            f"progress.append_ms_before {partition}/{offset}",
            lambda: self._state.append_ms_before(log, partition, offset),
        )

    async def unfilled(self, log: int, partition: int, revision: int, limit: int) -> list[Seal]:
        return await self._net.call(
            f"progress.unfilled {partition} {revision}",
            lambda: self._state.read().unfilled(log, partition, revision, limit),
        )

    async def lacking(
        self, log: int, partition: int, revisions: Sequence[int], limit: int
    ) -> list[Lacking]:
        """Where subjects are erased no replica is asked: one that lags would have a slice filled in
        anew from events that were erased meanwhile.
        """

        def read() -> list[Lacking]:
            state = self._state if self._state.erases else self._state.read()
            return state.lacking(log, partition, revisions, limit)

        return await self._net.call(f"progress.lacking {partition} {list(revisions)}", read)

    async def begin_filling(self, *_: object) -> None:
        """How far it is, is told to nobody here."""

    async def fillings(self, _log: int) -> list[Filling]:
        return []

    async def tell_catch_ups(self, *_: object) -> None:
        """Nor is that."""

    async def catch_ups(self, _log: int) -> list[CatchingUp]:
        return []

    async def mark_filled(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        revisions: Sequence[int],
        now_ms: int = 0,
    ) -> None:
        del now_ms
        await self._net.call(
            f"progress.mark_filled {partition}/{list(slices)} {list(revisions)}",
            lambda: self._state.mark_filled(log, partition, slices, revisions),
            writes=True,
        )

    async def unsettled(self, log: int, partition: int, revisions: Sequence[int]) -> list[int]:
        return await self._net.call(
            f"progress.unsettled {partition}",
            lambda: self._state.read().unsettled(log, partition, revisions),
        )

    async def settle(self, log: int, partition: int, revisions: Sequence[int]) -> None:
        await self._net.call(
            f"progress.settle {partition} {list(revisions)}",
            lambda: self._state.settle(log, partition, revisions),
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
            lambda: self._state.read().complete_until(log, partitions, revision),
        )

    async def completions(self, log: int, catalogue: int) -> dict[int, int]:
        return await self._net.call(
            "progress.completions", lambda: self._state.read().completions(log, catalogue)
        )

    async def flushed(self, log: int, catalogue: int, offset_ends: Mapping[int, int]) -> None:
        await self._net.call(
            f"progress.flushed {catalogue} {dict(offset_ends)}",
            lambda: self._state.flushed(log, catalogue, offset_ends),
            writes=True,
        )

    async def flushed_ends(self, log: int, catalogue: int) -> dict[int, int]:
        return await self._net.call(
            "progress.flushed_ends", lambda: self._state.read().flushed_ends(log, catalogue)
        )
