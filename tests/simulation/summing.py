"""Seals are added up in a world: the production step over simulated ports.

Nothing is dropped here, so a meter made later would count old slices, too. Sums begin when the
operator is done with meters; then every slice is old enough, as far as everything else is well.
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.retention import Retention
from meterline.usage import RetentionTerms, SealedEnd, borders, columns_of
from tests.simulation.blocks import BlocksState
from tests.simulation.late import LateState
from tests.simulation.network import Net
from tests.simulation.progress import ProgressState
from tests.simulation.stores import CatalogueState

TERMS: Final = RetentionTerms(1, None, 1)


class SumsState:
    """The control store's side."""

    def __init__(
        self, progress: ProgressState, blocks: BlocksState, catalogue: CatalogueState
    ) -> None:
        self.begun = False  # whether the operator is done with meters
        self.late: LateState | None = None  # where late usage is looked for
        self._progress = progress
        self._blocks = blocks
        self._catalogue = catalogue

    def revisions(self) -> set[int]:
        """Those that blocks must answer for."""
        return {meter.revision for meter in self._catalogue.meters}

    def sum_seals(self, log: int, before_ms: int, limit: int) -> int:
        count = 0
        if not self.begun:
            return 0
        columns = columns_of(it for it in self._blocks.records.values() if it.log == log)
        partitions = {seal.partition for seal in self._progress.seals.values()}
        for partition in sorted(partitions):
            within = borders(columns, self.revisions(), partition, before_ms)
            passed = self._progress.marks_passed.get(log, {})
            within = within.parted(
                mark for (number, _), mark in passed.items() if number == partition
            )
            if self.late is not None:
                end_max = self.late.looked.get(partition, 0)
                within = within._replace(ends=tuple(min(end, end_max) for end in within.ends))
            for _ in range(limit):
                count += self._progress.sum_next(log, partition, within)
        return count

    def ends(self, log: int) -> dict[int, SealedEnd]:
        found = {}
        for seal in sorted(self._progress.seals.values()):
            if seal.log == log:
                found[seal.partition] = SealedEnd(seal.end, seal.append_ms)
        return found


class SimulatedSums:
    """`RetentionLedger` as one process reaches it, and `UsagePeriods` without any."""

    def __init__(self, state: SumsState, net: Net) -> None:
        self._state = state
        self._net = net

    async def sealed_ends(self, log: int) -> Mapping[int, SealedEnd]:
        return await self._net.call("progress.sealed_ends", lambda: self._state.ends(log))

    async def sum_seals(self, log: int, before_ms: int, limit: int) -> int:
        return await self._net.call(
            "progress.sum_seals",
            lambda: self._state.sum_seals(log, before_ms, limit),
            writes=True,
        )

    async def periods(self) -> list[Any]:
        return []


def retention_of(state: SumsState, net: Net, log: int) -> Retention:
    """The production step over simulated ports."""
    ports: Any = SimulatedSums(state, net)
    return Retention(ports, ports, TERMS, log)
