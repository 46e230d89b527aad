"""Rows of revisions are dropped in a world: the production step over simulated ports.

Whatever is superseded or discarded is unneeded at once, and a minute takes the place of a day: that
a copy of a store is older is not what this shows.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aggregator.dropped_revisions import DroppedRevisions, RevisionStores
from meterline.meter import MeterRevision, RevisionState, unneeded
from meterline.ports import Clock
from meterline.usage import (
    CheckedBlockRows,
    CheckedRevisionRows,
    RevisionNotice,
    RevisionRows,
    Seal,
    SealSum,
    SliceId,
    SliceRows,
    UsageIntegrity,
    unsealed_of,
)
from tests.simulation.block_makers import SimulatedBlockLedger, SimulatedBlockRows
from tests.simulation.blocks import BlocksState
from tests.simulation.lost_store import Binding
from tests.simulation.network import Net
from tests.simulation.profile import Profile
from tests.simulation.stores import CatalogueState
from tests.simulation.summing import SimulatedSums, SumsState

COUNTED: Final = ("tallies", "members", "rejected")
WAIT_MS: Final = 60_000  # so long workers have to know newer meters
PORTIONS: Final = (3, 2)  # slices of one answer, and of one transaction
CELLS: Final = (*COUNTED, "late_tallies", "late_members")


class DropsState:
    """Both sides of it. `on`: whether revisions are dropped in this world."""

    def __init__(
        self, binding: Binding, catalogue: CatalogueState, sums: SumsState, profile: Profile
    ) -> None:
        self.on = profile.drops_revisions
        self.notices: dict[int, RevisionNotice] = {}
        self.met: Counter[str] = Counter()
        self.blocks: BlocksState = binding.blocks
        self.progress = binding.progress
        self.binding = binding
        self.sums = sums
        self._catalogue = catalogue
        binding.unsealed = lambda: len(self.unsealed())
        self.blocks.unsealed = self.unsealed

    def unsealed(self) -> tuple[int, ...]:
        """The revisions that no seal tells of."""
        return unsealed_of(self.notices.values())

    def told_too_much(self) -> str | None:
        """A table that has fewer rows than seals tell of: the store would be said to be lost."""
        if self.binding.lost is not None:
            return None
        sealed = [rows.by_table() for rows in self.binding.sealed(1, {}).rows]
        after = {table: one.after for table, one in self.binding.kept().items()}
        held = self.binding.holdings(1, {}, after).rows
        for table in COUNTED:
            need, there = sum(it[table] for it in sealed), held[table]
            if need > there:
                return f"seals tell of {need} rows of {table}, and there are {there}"
        return None

    def _rows(self, table: str) -> dict[Any, Any]:
        found: dict[Any, Any] = self.binding.usage.tables[table]
        return found

    # --- the control store's side ---

    def give(self, now_ms: int) -> list[int]:
        found = sorted(self._unneeded() - self.notices.keys())
        for number in found:
            self.notices[number] = RevisionNotice(number, self._catalogue.version, now_ms)
        return found

    def close(self, revision: int, now_ms: int) -> None:
        there = self.notices[revision]
        if there.closed_at_ms is None:
            self.notices[revision] = there._replace(closed_at_ms=now_ms)
            self.mind(there.catalogue)

    def mind(self, catalogue: int) -> None:
        """Nobody seals by an older one from now on."""
        self.progress.least = max(self.progress.least, catalogue)

    def _unneeded(self) -> set[int]:
        """Of meters that are deleted all are kept here."""
        live = {it.revision: it for it in self._catalogue.meters}
        found: set[int] = set()
        for id_ in {it.id for it in live.values()}:
            known = []
            for meter in self._catalogue.ever:
                if meter.id == id_ and (there := live.get(meter.revision)) is not None:
                    before = None if there.before is None else there.before.revision
                    known.append(MeterRevision(there, 0, before=before))
                elif meter.id == id_:
                    over = replace(meter, state=RevisionState.SUPERSEDED)
                    known.append(MeterRevision(over, 0, ended_at_ms=0, folded=False))
            found |= unneeded(known, 1, 0)
        return found

    def lessen(self, notice: RevisionNotice, rows: Sequence[SliceRows], now_ms: int) -> bool:
        if self.notices[notice.revision] != notice:
            self.met["seals that somebody else lessened"] += 1
            return False
        if not rows:
            self.notices[notice.revision] = notice._replace(lessened_at_ms=now_ms)
            return True
        for row in rows:
            self.less(notice.revision, row)
        self.notices[notice.revision] = notice.behind(rows[-1])
        return True

    def less(self, revision: int, row: SliceRows) -> None:
        """The seal of a slice, or the sum that it is in, tells of so many rows less."""
        self.met["seals that tell of less"] += 1
        key = row[:3]
        if key in self.progress.seals:
            seal = self.progress.seals[key]
            if seal.catalogue >= revision:
                self.progress.seals[key] = seal._replace(**_less(seal, row))
            return
        self.progress.sums = [
            it._replace(**_less(it, row))
            if (it.log, it.partition) == row[:2] and it.slice <= row.slice < it.end
            else it
            for it in self.progress.sums
        ]

    def note(self, revisions: Collection[int], now_ms: int) -> None:
        for number in revisions:
            there = self.notices[number]
            if there.dropped_at_ms is None:
                self.met["revisions dropped"] += 1
                self.notices[number] = there._replace(dropped_at_ms=now_ms)

    # --- the usage store's side ---

    def by_slice(self, revision: int, after: SliceId, limit: int) -> list[SliceRows]:
        counts: dict[tuple[int, int, int], Counter[str]] = {}
        for table in COUNTED:
            for row in self._rows(table).values():
                place = (row.log, row.partition, row.slice)
                if row.revision == revision and place > after:
                    counts.setdefault(place, Counter())[table] += 1
        found = [SliceRows(*at, *(n[it] for it in COUNTED)) for at, n in sorted(counts.items())]
        return found[:limit]

    def delete(self, revisions: Collection[int], rng: random.Random | None = None) -> bool:
        """All of their rows; with `rng` those of some tables."""
        some = False
        for table in CELLS:
            rows = self._rows(table)
            gone = [key for key, row in rows.items() if row.revision in revisions]
            some |= bool(gone)
            if rng is not None and rng.random() < 0.5:
                continue
            for key in gone:
                row = rows.pop(key)
                self.binding.usage.by_slice[table, row.partition, row.slice].pop(key, None)
        return some

    def blocks_with(self, revisions: Collection[int]) -> set[int]:
        return {
            number
            for number, rows in self.blocks.rows.items()
            if any(row.cell.revision in revisions for row in rows)
        }

    def dropper(
        self, net: Net, log: int, clock: Clock, integrity: UsageIntegrity | None
    ) -> DroppedRevisions | None:
        """The production step over simulated ports; None where nothing is dropped."""
        if not self.on:
            return None
        ports: Any = SimulatedDrops(self, net)
        rows: RevisionRows = ports
        blocks: Any = SimulatedBlockRows(self.blocks, net)
        stores = RevisionStores(
            ports,
            SimulatedSums(self.sums, net),  # type: ignore[arg-type]
            ports,
            rows if integrity is None else CheckedRevisionRows(rows, integrity, _passed_s),
            SimulatedBlockLedger(self.blocks, net),
            blocks if integrity is None else CheckedBlockRows(blocks, integrity),
        )
        chance = random.Random(log)
        return DroppedRevisions(stores, log, 0, clock, chance, WAIT_MS, PORTIONS)


def _passed_s() -> float:
    return asyncio.get_running_loop().time()


def _less(seal: Seal | SealSum, row: SliceRows) -> dict[str, Any]:
    return {it: max(0, getattr(seal, it) - getattr(row, it)) for it in COUNTED}


class SimulatedDrops:
    """`RevisionLedger` and `RevisionRows` as one process reaches them. Nobody is erased."""

    def __init__(self, state: DropsState, net: Net) -> None:
        self._state = state
        self._net = net

    async def unfinished(self) -> list[Any]:
        return []

    async def give_revision_notices(self, _aged_ms: int, now_ms: int, _kept_ms: int) -> list[int]:
        act = partial(self._state.give, now_ms)
        return await self._net.call("progress.give_revision_notices", act, writes=True)

    async def revision_notices(self) -> list[RevisionNotice]:
        def read() -> list[RevisionNotice]:
            return sorted(self._state.notices.values())

        return await self._net.call("progress.revision_notices", read)

    async def close(self, revision: int, now_ms: int) -> None:
        act = partial(self._state.close, revision, now_ms)
        await self._net.call(f"progress.close {revision}", act, writes=True)

    async def lessen(self, notice: RevisionNotice, rows: Sequence[SliceRows], now_ms: int) -> bool:
        act = partial(self._state.lessen, notice, rows, now_ms)
        return await self._net.call(f"progress.lessen {notice.revision}", act, writes=True)

    async def note_dropped(self, revisions: Collection[int], now_ms: int) -> None:
        act = partial(self._state.note, revisions, now_ms)
        await self._net.call("progress.note_dropped", act, writes=True)

    async def rows_by_slice(self, revision: int, after: SliceId, limit: int) -> list[SliceRows]:
        read = partial(self._state.by_slice, revision, after, limit)
        return await self._net.call(f"usage.rows_by_slice {revision}", read)

    async def delete_rows(self, revisions: Collection[int]) -> bool:
        return await self._net.call(
            f"usage.delete_rows {sorted(revisions)}",
            lambda: self._state.delete(revisions),
            part=lambda rng: self._state.delete(revisions, rng),
            writes=True,
        )

    async def blocks_with(self, revisions: Collection[int]) -> Collection[int]:
        return await self._net.call("usage.blocks_with", lambda: self._state.blocks_with(revisions))
