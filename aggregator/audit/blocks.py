"""What an audit asks of blocks: each has what its slices add up to. What has not is made again."""

from meterline.audit import AuditSpan, Finding
from meterline.ports import Clock
from meterline.usage import (
    Block,
    BlockLedger,
    BlockRows,
    BlockState,
    SliceId,
    Unsealed,
    covering,
    may_be_made_again,
)


class BlockAudit:
    """Recounts blocks from the tallies of their slices, and withdraws those that are wrong."""

    def __init__(
        self, ledger: BlockLedger, rows: BlockRows, clock: Clock, unsealed: Unsealed
    ) -> None:
        self._ledger = ledger
        self._rows = rows
        self.clock = clock
        self._unsealed = unsealed

    async def following(self, log: int, number: int, span: AuditSpan) -> Block | None:
        """The first readable block of a log from a number on that may have slices of the span."""
        readable = (it for it in await self._ledger.blocks(log) if _is_readable(it))
        return next((it for it in readable if it.number >= number and _within(it, span)), None)

    async def findings(self, block: Block, *, repair: bool) -> list[Finding]:
        """What a block has that its slices have not, or the other way round."""
        if not await self.can_be_made_again(block):
            return []
        found = await self._differences(block)
        if not found or not await self._is_read(block):
            return []  # a larger one took its place while it was recounted
        if repair:
            await self._ledger.withdraw(block.log, [block.number], self.clock.now_ms())
        mended = repair and not await self._is_read(block)
        place = f"{block.log}.{block.number}"
        return [Finding("blocks", place, *texts, mended=mended) for texts in found]

    async def can_be_made_again(self, block: Block) -> bool:
        """Whether its slices still have all that it was made of: else it cannot be recounted."""
        return may_be_made_again(block, await self._ledger.dropped_minutes())

    async def may_change(self, slice_id: SliceId) -> bool:
        """Whether the blocks with this slice could be withdrawn, if its rows changed."""
        there = await self._ledger.blocks(slice_id.log)
        numbers = covering(there, slice_id.partition, slice_id.slice)
        dropped = await self._ledger.dropped_minutes()
        return all(may_be_made_again(it, dropped) for it in there if it.number in numbers)

    async def withdraw(self, slice_id: SliceId) -> bool:
        """The blocks with this slice are not read any more: its rows changed. False where they are,
        since they could not be made again.
        """
        there = await self._ledger.blocks(slice_id.log)
        numbers = covering(there, slice_id.partition, slice_id.slice)
        if not numbers:
            return True
        return await self._ledger.withdraw(slice_id.log, numbers, self.clock.now_ms())

    async def _differences(self, block: Block) -> list[tuple[str, str, str]]:
        """What differs. A revision that is dropped during a recount would look like a difference,
        so the block is then recounted once more.
        """
        without = await self._unsealed.revisions()
        found = await self._compared(block)
        while found and (now := await self._unsealed.revisions()) != without:
            without, found = now, await self._compared(block)
        return found

    async def _compared(self, block: Block) -> list[tuple[str, str, str]]:
        due, held = await self._rows.recount(block), await self._rows.held(block.number)
        return [
            (
                f"rows of {table}",
                f"hash sum {digest}",
                f"{held[table].digest} of {held[table].rows}",
            )
            for table, digest in sorted(due.items())
            if held[table].digest != digest
        ]

    async def _is_read(self, block: Block) -> bool:
        there = await self._ledger.blocks(block.log)
        return any(it.number == block.number and _is_readable(it) for it in there)


def _is_readable(block: Block) -> bool:
    return block.state is BlockState.READABLE


def _within(block: Block, span: AuditSpan) -> bool:
    """Whether slices of a block may lie in a span: they were sealed before it was made."""
    early = span.from_ms is not None and block.made_at_ms <= span.from_ms
    late = span.to_ms is not None and block.begin_ms >= span.to_ms
    return not early and not late
