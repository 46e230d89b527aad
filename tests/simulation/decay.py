"""Rows of sealed slices that the store loses in silence, and who finds that out.

What is lost is in few answers, so a world goes on; and it is put back before the world is judged.
Only late rows are read, of slices without a block and for blocks: what answers lack then is not
looked at.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from meterline.usage import AccountRow, Counted, Seal, SliceId
from tests.simulation.network import Process
from tests.simulation.parts import Lying
from tests.simulation.progress import ProgressState
from tests.simulation.usage import UsageState

TABLES: Final = ("rejects", "late_tallies", "late_members", "accounts")


class Decay:
    """What was lost of which slices, and which processes have counted them back since."""

    def __init__(self, usage: UsageState, progress: ProgressState, rng: random.Random) -> None:
        self._usage = usage
        self._progress = progress
        self._rng = rng
        self.lost: dict[SliceId, tuple[str, Any, Any]] = {}
        self.noticed: list[tuple[Process, SliceId]] = []

    def begin(self) -> None:
        """From now on slices lose a row once they are sealed."""
        self._progress.sealed = self._lose

    def _lose(self, seal: Seal) -> None:
        if self._rng.random() < 0.3:
            return
        slice_id = SliceId(*seal[:3])
        there = [
            (table, identity, row)
            for table in TABLES
            for identity, row in self._usage.tables[table].items()
            if (row.log, row.partition, row.slice) == slice_id
        ]
        if there:
            table, _, row = self.lost[slice_id] = self._rng.choice(there)
            self._usage.delete(table, [row])

    def is_lost(self, slice_id: SliceId) -> bool:
        """Whether it still is: whoever reads the slice again writes it again, up to where he is."""
        if slice_id not in self.lost:
            return False
        table, identity, row = self.lost[slice_id]
        return bool(self._usage.tables[table].get(identity) != row)

    def lacks_late(self) -> bool:
        """Whether a late row was lost: answers through blocks may lack it, and no defence is due. A
        block that was made meanwhile lacks it for good, where the row counts nothing but a rejected
        value: the events of a block are compared with its seals.
        """
        return any(table.startswith("late") for table, *_ in self.lost.values())

    def is_seen(self, slice_id: SliceId, revisions: Sequence[int]) -> bool:
        """Whether it is, for whoever knows these revisions."""
        if not self.is_lost(slice_id):
            return False
        row = self.lost[slice_id][2]
        return getattr(row, "revision", None) in (None, *revisions)

    def unrecorded(self, revisions: Sequence[int]) -> Iterator[str]:
        """Differences that somebody found, and has not recorded. Of a revision that is not counted
        any more, whoever reads the slice again finds none.
        """
        for process, slice_id in self.noticed:
            lives = not (process.dead or process.asleep)
            differs = lives and self.is_seen(slice_id, revisions)
            if differs and slice_id not in self._progress.recorded:
                yield f"{slice_id} differs, which {process.name} has found, and nobody says so"

    def restore(self) -> None:
        """What was lost is there again."""
        self._progress.sealed = lambda _: None
        for slice_id, (table, _, row) in self.lost.items():
            if self.is_lost(slice_id):
                self._usage.put(table, [row])


class Watched(Lying):
    """A usage store, as a process reaches it who counts back."""

    def __init__(self, port: Any, decay: Decay, process: Process) -> None:
        super().__init__(port)
        self._decay = decay
        self._process = process
        self._was_lost: set[SliceId] = set()

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        was_lost = self._decay.is_seen(slice_id, revisions)
        counted: dict[str, Counted] = await self._port.count_back(slice_id, revisions)
        self._was_lost = {slice_id} if was_lost else set()
        return counted

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        account: AccountRow | None = await self._port.account(slice_id)
        if slice_id in self._was_lost and self._decay.is_lost(slice_id):
            self._decay.noticed.append((self._process, slice_id))
        return account
