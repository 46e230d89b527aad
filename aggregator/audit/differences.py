"""What an audit says of sealed slices that differed when they were counted back once more. Whether
they still do, it finds out as of all slices; only then are they told as mended.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from aggregator.audit.blocks import BlockAudit
from aggregator.audit.slices import Slices
from meterline.audit import Finding
from meterline.usage import ProgressStore, SliceDifference
from meterline.window import rfc3339


class RecordedDifferences:
    """Differences that workers have recorded."""

    def __init__(self, progress: ProgressStore, blocks: BlockAudit) -> None:
        self._progress = progress
        self._blocks = blocks

    async def of(self, slices: Slices) -> list[SliceDifference]:
        """Those of these slices that were not mended since."""
        chunk = slices.chunk
        there = await self.between(chunk.log, chunk.partition, chunk.first, chunk.end)
        return [one for one in there if one.slice_id.slice in chunk.slices]

    async def between(
        self, log: int, partition: int, first: int, end: int
    ) -> list[SliceDifference]:
        """Those of slices with a name in [first, end)."""
        return await self._progress.differences_between(log, partition, first, end)

    async def settled(
        self, recorded: Sequence[SliceDifference], left: Collection[str]
    ) -> list[Finding]:
        """Findings about them, after all was written anew that could be. Those in whose place
        nothing is `left` are mended.
        """
        found: list[Finding] = []
        for one in recorded:
            mended = one.place not in left
            if mended:
                await self._progress.mark_mended(one, self._blocks.clock.now_ms())
            found += [replace(it, mended=mended) for it in recorded_findings([one])]
        return found


def recorded_findings(recorded: Sequence[SliceDifference]) -> list[Finding]:
    """What was found then, table by table."""
    return [
        Finding(it.table, one.place, f"count-back at {rfc3339(one.found_at_ms)}", *it[1:])
        for one in recorded
        for it in one.tables
    ]
