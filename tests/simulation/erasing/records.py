"""Erasures of a world in its control store: their records, and what they keep others from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from meterline.ports import Unavailable
from meterline.usage import (
    UNSETTLED,
    BlockState,
    Erasure,
    ErasureState,
    Hidden,
    Renewal,
    SliceId,
    erased_from,
    hidden_of,
    pseudonym_of,
)
from tests.simulation.blocks import BlocksState
from tests.simulation.network import Net
from tests.simulation.progress import ALL, ProgressState
from tests.simulation.stores import CatalogueState

NAMESPACE = "default"


class ErasuresState:
    """The records, and what the world knows of them for good."""

    def __init__(
        self, progress: ProgressState, blocks: BlocksState, catalogue: CatalogueState
    ) -> None:
        self.records: dict[str, Erasure] = {}
        self.names: dict[str, str] = {}  # by id; the product forgets them
        self.began: dict[str, int] = {}  # by id, the catalogue when it was begun
        self.blocks_before: dict[str, set[int]] = {}  # by id, those that were there at its end
        self.done: list[str] = []
        self.told: Callable[[str], None] = lambda _: None  # of each that is done
        self._progress = progress
        self._blocks = blocks
        self._catalogue = catalogue
        progress.withheld = self.withheld
        progress.ended = catalogue.ended
        progress.erased_from = self.erased_from
        progress.was_erased_from = self.was_erased_from
        progress.pseudonyms = lambda slice_id: erased_from(self.open, slice_id)
        blocks.unsettled = self.unsettled
        blocks.hidden = self.hidden

    def ask(self, subject: str, now_ms: int) -> Erasure | None:
        """A request; None where it is refused."""
        mine = [it for it in self.open if it.subject == subject]
        if mine and mine[-1].state is ErasureState.ASKED:
            return mine[-1]
        if mine and mine[-1].state is not ErasureState.SETTLED:
            return None
        name = f"{len(self.records):026d}"
        firsts = mine[-1].ends if mine else {}
        asked = Erasure(
            name, NAMESPACE, subject, pseudonym_of(name), ErasureState.ASKED, now_ms, firsts=firsts
        )
        self.records[name], self.names[name] = asked, subject
        return asked

    @property
    def open(self) -> list[Erasure]:
        """Those that are not done, the oldest first."""
        revisions = tuple(sorted(meter.revision for meter in self._catalogue.ever))
        return [
            replace(it, revisions=revisions)
            for it in self.records.values()
            if it.state is not ErasureState.DONE
        ]

    def unsettled(self) -> bool:
        """Whether no block may be made."""
        return any(it.state in UNSETTLED for it in self.records.values())

    def withheld(self) -> frozenset[int]:
        """Revisions that nobody fills in for the moment."""
        if any(it.state is ErasureState.COPYING for it in self.records.values()):
            return frozenset(meter.revision for meter in self._catalogue.ever)
        return frozenset()

    def erased_from(self, slice_id: SliceId) -> bool:
        """Whether a slice that is sealed again has rows that are on their way."""
        begun = [it for it in self.open if it.state is not ErasureState.ASKED]
        return any(slice_id.slice < it.ends.get(slice_id.partition, 0) for it in begun)

    def was_erased_from(self, slice_id: SliceId) -> bool:
        """Whether it has, or had, such rows: of whoever counts it late it differs."""
        begun = [it for it in self.records.values() if it.state is not ErasureState.ASKED]
        return any(slice_id.slice < it.ends.get(slice_id.partition, 0) for it in begun)

    def unfilled(self, erasure: Erasure) -> list[int]:
        """Revisions that are filled in when events are erased already."""
        return self._lacking(erasure, erasure.ends)

    def _lacking(self, erasure: Erasure, ends: Mapping[int, int]) -> list[int]:
        """Revisions that some slice before these ends is not counted for."""
        return [
            meter.revision
            for meter in self._catalogue.meters
            if any(
                seal.slice < end
                for number, end in ends.items()
                for seal in self._progress.unfilled(erasure.log, number, meter.revision, 1)
            )
        ]

    def hidden(self) -> tuple[Hidden, ...]:
        """What answers leave out now."""
        return tuple(hidden_of(self.open).values())

    # --- steps ---

    def set_borders(self, name: str, log: int, ends: Mapping[int, int], until_ms: int) -> None:
        if len(ends) < self._progress.layout(log).partitions:
            raise Unavailable("an end is not told")
        if self.records[name].log == 0:
            self._put(name, log=log, ends=dict(ends), log_until_ms=until_ms)

    def begin_copying(self, name: str, now_ms: int) -> str | None:
        erasure = self.records[name]
        if erasure.state is not ErasureState.ASKED:
            return None
        ends = self.slice_ends(erasure)
        if not erasure.log or ends.keys() != erasure.ends.keys():
            return "not all is sealed"
        if left := self._lacking(erasure, dict.fromkeys(ends, ALL)):
            return f"revision {left[0]} is being filled"
        self._give_up(now_ms)
        self.began[name] = self._catalogue.version
        self._put(name, state=ErasureState.COPYING, ends=ends)
        return None

    def slice_ends(self, erasure: Erasure) -> dict[int, int]:
        """Where the slices end that had the end of the log in them, if they are sealed."""
        found = {}
        layout = self._progress.layout(erasure.log)
        for number, end in erasure.ends.items():
            seals = self._progress.seals.values()
            behind = [it.end for it in seals if it.partition == number and it.end >= end]
            if end <= layout.first(number):
                found[number] = end
            elif behind:
                found[number] = min(behind)
        return found

    def switch(self, name: str, renewals: Sequence[Renewal], now_ms: int) -> None:
        if self.records[name].state is not ErasureState.COPYING:
            return
        before = dict(self._blocks.records)
        for one in renewals:
            if not self._blocks.take_place(one.block, one.rows, one.sources, now_ms):
                self._blocks.records = before  # a transaction
                raise Unavailable("its blocks were withdrawn meanwhile")
        self._give_up(now_ms)
        self._put(name, state=ErasureState.SWITCHED)

    def settle(self, name: str, now_ms: int) -> None:
        if self.records[name].state is ErasureState.SWITCHED:
            self._give_up(now_ms)
            self.blocks_before[name] = {*self._blocks.records, *self._blocks.rows}
            self._put(name, state=ErasureState.SETTLED, settled_at_ms=now_ms)

    def finish(self, name: str, now_ms: int) -> None:
        if self.records[name].state is ErasureState.SETTLED:
            self._put(name, state=ErasureState.DONE, done_at_ms=now_ms, subject=None)
            self.done.append(name)
            self.told(name)

    def _give_up(self, now_ms: int) -> None:
        there = self._blocks.records.values()
        making = [it.number for it in there if it.state is BlockState.MAKING]
        self._blocks.give_up(making, now_ms)

    def _put(self, name: str, **changed: Any) -> None:
        self.records[name] = replace(self.records[name], **changed)

    # --- what must be ---

    def is_of(self, erasure: Erasure, subject: str, partition: int, slice_: int) -> bool:
        """Whether a row of a slice is to be erased by it."""
        begun = erasure.state not in (ErasureState.ASKED, ErasureState.COPYING)
        first, end = erasure.firsts.get(partition, 0), erasure.ends.get(partition, 0)
        return begun and subject == self.names[erasure.id] and first <= slice_ < end

    def shown_as(self, subject: str, partition: int, slice_: int) -> str:
        """The subject that a row of a slice must be found under, whoever asks now."""
        for one in self.records.values():
            if self.is_of(one, subject, partition, slice_):
                return one.pseudonym
        return subject

    def erased_for(self, revision: int, pseudonym: str) -> bool:
        """Whether a revision knows of erased events only that they were there: it is younger."""
        name = next((it.id for it in self.records.values() if it.pseudonym == pseudonym), None)
        return name is not None and revision > self.began.get(name, ALL)


class SimulatedErasureLedger:
    """`ErasureLedger` as one process reaches it."""

    def __init__(self, state: ErasuresState, net: Net) -> None:
        self._state = state
        self._net = net

    async def _write(self, what: str, act: Any) -> Any:
        return await self._net.call(f"progress.{what}", act, writes=True)

    async def unfinished(self) -> list[Erasure]:
        return await self._net.call("progress.erasures", lambda: self._state.open)

    async def set_borders(
        self, erasure_id: str, log: int, ends: Mapping[int, int], log_until_ms: int
    ) -> None:
        act = partial(self._state.set_borders, erasure_id, log, ends, log_until_ms)
        await self._write(f"erasure {erasure_id} borders {dict(ends)}", act)

    async def begin_copying(self, erasure_id: str, now_ms: int) -> str | None:
        act = partial(self._state.begin_copying, erasure_id, now_ms)
        need: str | None = await self._write(f"erasure {erasure_id} copying", act)
        return need

    async def unfilled(self, erasure: Erasure) -> Sequence[int]:
        return await self._net.call("progress.erasure_lacks", lambda: self._state.unfilled(erasure))

    async def erase_refusals(self, positions: Sequence[tuple[int, int, int, int]]) -> None:
        assert not positions, "nothing is sent anew here"

    async def switch(self, erasure_id: str, renewals: Sequence[Renewal], now_ms: int) -> None:
        act = partial(self._state.switch, erasure_id, renewals, now_ms)
        await self._write(f"erasure {erasure_id} switched", act)

    async def settle(self, erasure_id: str, now_ms: int) -> None:
        act = partial(self._state.settle, erasure_id, now_ms)
        await self._write(f"erasure {erasure_id} settled", act)

    async def finish(self, erasure_id: str, now_ms: int) -> None:
        act = partial(self._state.finish, erasure_id, now_ms)
        await self._write(f"erasure {erasure_id} done", act)

    async def compact(self) -> None:
        """There are no files."""

    async def redriven(self, namespace: str) -> list[tuple[tuple[int, int, int, int], str, str]]:
        del namespace
        return []
