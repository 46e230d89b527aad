"""Blocks give way to others that are made of them: under a pseudonym, or without revisions that are
not kept.
"""

import random
from collections.abc import Collection
from dataclasses import replace

from meterline.ports import Clock, Unavailable
from meterline.usage import (
    Block,
    BlockLedger,
    BlockRows,
    BlockState,
    Column,
    Renewal,
    block_number,
    columns_of,
    differences,
    unequal,
)


class Renewer:
    """Makes one block in place of a column. Whoever calls has it read."""

    def __init__(self, log: int, ledger: BlockLedger, clock: Clock, chance: random.Random) -> None:
        self._log = log
        self._ledger = ledger
        self._clock = clock
        self._chance = chance

    async def columns_with(self, numbers: Collection[int]) -> list[Column]:
        """The columns of the current log that have one of these blocks."""
        columns = columns_of(await self._ledger.blocks(self._log))
        return [it for it in columns if any(block.number in numbers for block in it.blocks)]

    async def renewed(self, rows: BlockRows, column: Column) -> Renewal:
        """The rows of a block in place of a column, counted back as those that are merged. Raises
        `Unavailable` where they differ, or the column lacks rows.
        """
        block = self._begun(column)
        await self._ledger.begin(block)
        try:
            return await self._counted_back(rows, block, column)
        except Unavailable:  # it would take room until it is taken for one that nobody makes
            await self._ledger.give_up([block.number], self._clock.now_ms())
            raise

    async def _counted_back(self, rows: BlockRows, block: Block, column: Column) -> Renewal:
        sources = [one.number for one in column.blocks]
        await rows.make(block, sources)
        due, held = await rows.due(block, sources), await rows.held(block.number)
        wrong = differences(due, held) + unequal(due, column.blocks)
        if wrong:
            raise Unavailable(f"block {block.number} differs: {'; '.join(wrong)}")
        return Renewal(block, {name: one.rows for name, one in held.items() if one.rows}, sources)

    def _begun(self, column: Column) -> Block:
        now_ms = self._clock.now_ms()
        number = block_number(now_ms, self._chance.getrandbits(32))
        first = column.blocks[0]
        block = Block(number, first.log, column.stretches, 0, column.upto, changed_at_ms=now_ms)
        return replace(block, begin_ms=first.begin_ms, end_ms=first.end_ms)

    async def drop_older(self, rows: BlockRows, numbers: Collection[int]) -> None:
        """Those of these blocks that are of older logs are read seldom: they go."""
        for log in range(1, self._log):
            mine = [it.number for it in await self._ledger.blocks(log) if it.number in numbers]
            if not mine:
                continue
            await self._ledger.withdraw(log, mine, self._clock.now_ms())
            there = await self._ledger.blocks(log)
            gone = [it.number for it in there if it.state is BlockState.GONE]
            await rows.drop(gone)
            await self._ledger.forget(gone)
