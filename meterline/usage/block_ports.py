"""The ports of blocks: their records in the control store, their rows in the usage store.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from meterline.usage.block import Block, Due, Held, Stretches
from meterline.usage.cells import Dropped
from meterline.usage.rows import Seal


class BlockLedger(Protocol):
    """The records of blocks. What a record says decides what is read, never what rows there are."""

    async def blocks(self, log: int) -> list[Block]:
        """All blocks of a log that have a record, by number."""
        ...

    async def alone(self, log: int) -> bool:
        """Whether no other log was ever registered: whoever reads may then leave others aside."""
        ...

    async def begin(self, block: Block) -> None:
        """Record a block in the making, before any row of it is written."""
        ...

    async def publish(
        self, block: Block, rows: Mapping[str, int], sources: Collection[int], now_ms: int
    ) -> bool:
        """Make a block readable in place of its sources, in one transaction; False where
        `may_be_readable` says no by now: of the partitions that the log has, too. Of makers at
        once, one wins.
        """
        ...

    async def give_up(self, numbers: Collection[int], now_ms: int) -> None:
        """These blocks are gone, unless they are readable: their rows may be dropped."""
        ...

    async def kept(self, numbers: Collection[int], dropped_before: int = 0) -> bool:
        """Whether nobody may drop rows of these blocks yet, and no cells of a minute from this
        minute on: what was read of them was all there.
        """
        ...

    async def dropped_minutes(self) -> tuple[Dropped, ...]:
        """Which cells of a minute are not kept."""
        ...

    async def forget(self, numbers: Collection[int]) -> None:
        """Remove the records of blocks that are gone."""
        ...

    async def numbers(self) -> set[int]:
        """The numbers of all blocks that have a record, of any log."""
        ...

    async def withdraw(self, log: int, numbers: Collection[int], now_ms: int) -> bool:
        """These blocks, and the columns behind them, are gone at once: what is being read of them
        is not passed on, and they are made again. What is in the making is not read any more.
        False where some of the newest log cannot be made again (`may_be_made_again`): then all
        stay.
        """
        ...

    async def sealed_after(self, log: int, partition: int, offset: int, limit: int) -> list[Seal]:
        """The first sealed slices of a partition that begin at an offset or behind it."""
        ...

    async def late_kept_from(self, log: int, ends: Mapping[int, int]) -> int | None:
        """An append time: all slices that begin at the end of their partition, or behind it, were
        appended then or later, and their late rows are kept a second time. It is that of the last
        slices before the ends, and 0 where a partition has none. None where late rows may not be
        kept: those of the last sealed slices must be, and so are then those of slices that are
        begun behind them.
        """
        ...

    async def events_within(self, log: int, stretches: Stretches) -> int:
        """How many events the seals of the slices in the stretches tell of."""
        ...

    async def lacking(self, log: int, stretches: Stretches, revisions: Sequence[int]) -> int | None:
        """The lowest of these revisions, given in ascending order, that a sealed slice in the
        stretches is not counted for yet; None where all are.
        """
        ...


class BlockRows(Protocol):
    """The rows of blocks. Every block is a partition of its own in each table of blocks."""

    async def make(self, block: Block, sources: Sequence[int]) -> None:
        """Write the rows of a block: from the tallies of its slices or, with sources, from the rows
        of these blocks. Where it fails, some of them may be there.
        """
        ...

    async def due(self, block: Block, sources: Sequence[int]) -> Due:
        """What the block must weigh, computed from what it is made from."""
        ...

    async def held(self, number: int) -> Mapping[str, Held]:
        """What each table holds of the block."""
        ...

    async def recount(self, block: Block) -> Mapping[str, int]:
        """By table, the digest that it must have of a block: recounted from its slices alone,
        whatever it was made from.
        """
        ...

    async def drop(self, numbers: Collection[int]) -> None:
        """Remove all rows of these blocks."""
        ...

    async def counts(self) -> Mapping[int, Mapping[str, int]]:
        """For each block of which there are rows, how many each table has; tables without any are
        left out.
        """
        ...
