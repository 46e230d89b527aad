"""A usage store that is lost while everybody works, and the two sides of the comparison that tells
it (`meterline.usage.integrity`).

It is lost as volumes are: not mounted, another one in its place, parts gone, an older copy. What
is written meanwhile goes there. In the end the volume comes back as it was, and everybody is
started again: then everything must be as if nothing had been.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from meterline.ports import Unavailable
from meterline.usage import (
    NEWEST_SLICES,
    Holdings,
    Kept,
    Life,
    Seal,
    Sealed,
    SealedRows,
    SealSum,
    UsageIntegrity,
    check_not_older,
)
from tests.simulation.blocks import BlockRow, BlocksState
from tests.simulation.network import Net
from tests.simulation.progress import ProgressState
from tests.simulation.tables import STAGES
from tests.simulation.usage import UsageState

START_PAUSE_S: Final = 0.2
UP_S: Final = 60  # that a life says it is up
TABLES: Final = tuple(name for stage in STAGES for name in stage)


class Loss(StrEnum):
    """How a store is lost."""

    EMPTY = "a new and empty store"
    OTHER = "the store of another installation"
    TRUNCATED = "all tables without parts"
    PARTS = "a table without most of its parts"
    OLDER = "an older copy of the store"


class Binding:
    """The id of the usage store, as both stores have it."""

    def __init__(self, usage: UsageState, progress: ProgressState, blocks: BlocksState) -> None:
        self.usage = usage
        self.blocks = blocks
        self._rows: dict[int, list[BlockRow]] = {}  # of blocks, as they come back
        self.progress = progress
        self.unsealed: Callable[[], int] = lambda: 0  # revisions that no seal tells of
        self.kept: Callable[[], dict[str, Kept]] = dict  # of usage by minute
        self.known: str | None = None
        self.ids: tuple[str, ...] = ()
        self.lost: Loss | None = None
        self.whole = usage  # while it is lost: what comes back
        self._ids: tuple[str, ...] = ()

    # --- the control store's side ---

    def sealed(self, log: int, after: Mapping[int, int]) -> Sealed:
        by_partition: dict[int, list[Seal | SealSum]] = {}
        known: list[Seal | SealSum] = [*self.progress.sums]
        known += self.progress.seals.values()
        newest = max(after, default=-1)
        for seal in known:
            of_new = seal.partition > newest
            if seal.log == log and (of_new or seal.slice > after.get(seal.partition, 1 << 60)):
                by_partition.setdefault(seal.partition, []).append(seal)
        kept = self.kept()
        sums = [_summed(n, seals, kept) for n, seals in by_partition.items()]
        return Sealed(self.known, sums, self.blocks.counted(), kept, self.unsealed())

    def counted(self) -> bool:
        return bool(self.progress.seals) or any(self.progress.ends.values())

    def bind(self, store_id: str) -> str:
        self.known = self.known or store_id
        return self.known

    # --- the usage store's side ---

    def holdings(self, log: int, slices: Mapping[int, int], after: Mapping[str, str]) -> Holdings:
        accounts = self.usage.tables["accounts"]
        there = {place for place in slices.items() if (log, *place) in accounts}
        rows = {name: len(self.usage.tables[name]) for name in TABLES}
        for table, hour in after.items():
            of = self.usage.tables[table].values()
            rows[table] = sum(row.window // 60 > int(hour or -1) for row in of)
        life = Life(str(self.usage.life), UP_S)
        return Holdings(self.ids, rows, there, self.blocks.counts(), life)

    def newest(self, log: int, after: Mapping[int, int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for of, partition, slice_ in sorted(self.usage.tables["accounts"], reverse=True):
            if of == log and slice_ > after.get(partition, -1):
                found.setdefault(partition, []).append(slice_)
        return {partition: slices[:NEWEST_SLICES] for partition, slices in found.items()}

    def adopt(self, store_id: str) -> None:
        self.ids = (store_id,)

    def name(self, store_id: str) -> None:
        self.ids = self.ids or (store_id,)

    # --- what befalls it ---

    def lose(self, loss: Loss, older: UsageState, events_max: int, rng: random.Random) -> None:
        """From now on another state is there; of `events_max` events so many are sealed that parts
        can be missed.
        """
        self.whole, self.lost, self._ids = copied(self.usage), loss, self.ids
        self.usage.life += 1
        self._rows = {number: list(rows) for number, rows in self.blocks.rows.items()}
        if loss is Loss.OLDER:
            _set(self.usage, older)
            self.blocks.rows = {n: rows for n, rows in self._rows.items() if rng.random() < 0.5}
            return
        if loss is Loss.PARTS:
            sealed = sum(seal.events for seal in self.progress.ever)
            _thin(self.usage, rng.choice(("events", "seen")), 2 * sealed - events_max - 1)
            return
        self.blocks.rows = {}
        _set(self.usage, UsageState())
        self.ids = {Loss.EMPTY: (), Loss.OTHER: ("another",)}.get(loss, self.ids)

    def bring_back(self) -> None:
        """As it was."""
        self.usage.life += 1
        _set(self.usage, self.whole)
        self.blocks.rows = self._rows
        self.ids, self.lost = self._ids, None

    def sealed_in_vain(self, whole: UsageState) -> list[Seal]:
        """Seals whose events a state of the store does not hold."""
        return [
            seal
            for seal in self.progress.ever
            if len(whole.by_slice.get(("events", seal.partition, seal.slice), {})) < seal.events
        ]

    @property
    def lacking(self) -> bool:
        """Whether it is lost, and lacks what was sealed: what is written late may mend it."""
        return self.lost is not None and (
            self.ids != self._ids or bool(self.sealed_in_vain(self.usage))
        )


def _summed(partition: int, seals: list[Seal | SealSum], kept: Mapping[str, Kept]) -> SealedRows:
    counts = (
        sum(_told(seal, name, kept) for seal in seals)
        for name in ("events", "rejects", "tallies", "members", "rejected", "events")
    )
    slices = sum(it.slices if isinstance(it, SealSum) else 1 for it in seals)
    return SealedRows(partition, max(seal.slice for seal in seals), slices, *counts)


def _told(seal: Seal | SealSum, table: str, kept: Mapping[str, Kept]) -> int:
    """The rows of a table that must be there; where minutes are dropped, at least so many."""
    rows: int = getattr(seal, table)
    if table not in kept:
        return rows
    began_ms = seal.begin_ms if isinstance(seal, SealSum) else seal.append_ms
    if began_ms < kept[table].from_ms or seal.late is None:
        return 0
    return max(0, rows - seal.late)


def copied(state: UsageState) -> UsageState:
    """Its rows as they are now."""
    made = UsageState()
    made.tables = {name: dict(rows) for name, rows in state.tables.items()}
    made.by_slice = {key: dict(rows) for key, rows in state.by_slice.items()}
    made.landed, made.first_at = dict(state.landed), dict(state.first_at)
    made.redacted, made.partial = set(state.redacted), set(state.partial)
    made.pseudonyms = state.pseudonyms
    made.unerased = None if state.unerased is None else copied(state.unerased)
    made.undropped = None if state.undropped is None else copied(state.undropped)
    return made


def _set(state: UsageState, other: UsageState) -> None:
    """Its rows become those of another, which keeps its own."""
    made = copied(other)
    state.tables, state.by_slice = made.tables, made.by_slice
    state.landed, state.first_at = made.landed, made.first_at
    state.redacted, state.partial = made.redacted, made.partial
    if state.unerased is not None:
        state.unerased = made.unerased or UsageState()
    if state.undropped is not None:
        state.undropped = made.undropped or UsageState()


def _thin(state: UsageState, table: str, left: int) -> None:
    """Of a table only so many rows are left, the newest."""
    gone = list(state.tables[table])[: len(state.tables[table]) - left]
    for identity in gone:
        row = state.tables[table].pop(identity)
        del state.landed[table, identity]
        del state.by_slice[table, row.partition, row.slice][identity]


class SimulatedLedger:
    """`SealLedger` and `UsageHoldings` as one process reaches them."""

    def __init__(self, binding: Binding, net: Net) -> None:
        self._binding = binding
        self._net = net

    async def sealed(self, log: int, after: Mapping[int, int]) -> Sealed:
        return await self._net.call("progress.sealed", lambda: self._binding.sealed(log, after))

    async def counted(self) -> bool:
        return await self._net.call("progress.counted", self._binding.counted)

    async def bind(self, store_id: str, lost: str | None = None) -> str:
        assert lost is None, "nobody accepts a loss here"
        return await self._net.call(
            f"progress.bind {store_id}", lambda: self._binding.bind(store_id), writes=True
        )

    async def holdings(
        self, log: int, slices: Mapping[int, int], after: Mapping[str, str]
    ) -> Holdings:
        read = partial(self._binding.holdings, log, slices, after)
        return await self._net.call("usage.holdings", read)

    async def adopt(self, store_id: str) -> None:
        await self._net.call(
            f"usage.adopt {store_id}", lambda: self._binding.adopt(store_id), writes=True
        )

    async def name(self, store_id: str) -> None:
        await self._net.call(
            f"usage.name {store_id}", lambda: self._binding.name(store_id), writes=True
        )


class AtOnce:
    """Both sides as they are at one instant."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    async def sealed(self, log: int, after: Mapping[int, int]) -> Sealed:
        return self._binding.sealed(log, after)

    async def newest(self, log: int, after: Mapping[int, int]) -> dict[int, list[int]]:
        return self._binding.newest(log, after)


async def begun(binding: Binding, net: Net, log: int, partitions: int, name: str) -> UsageIntegrity:
    """The comparison as a start makes it, waiting for stores that are away. Raises `Unsuitable`."""
    ledger = SimulatedLedger(binding, net)
    while True:
        integrity = UsageIntegrity(ledger, ledger, log, partitions)
        try:
            await integrity.begin(name, None)
        except Unavailable:
            await asyncio.sleep(START_PAUSE_S)
        else:
            at_once = AtOnce(binding)  # nobody sets the control store back: it is never refused
            await check_not_older(at_once, at_once, log, integrity.store_id, integrity.last)
            return integrity
