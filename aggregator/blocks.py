"""Blocks are made: of sealed slices, beside counting, by whoever holds a log's first partition.

Order of effects: record (in the making) -> rows -> counted back -> record (readable). A reader sees
a block only after the last one, and then all of it. Rows are dropped only when the record says that
nobody reads them. So a kill at any step leaves rows that nobody reads, and `sweep` removes them.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from meterline.limits import (
    BLOCK_FAN,
    BLOCK_KEPT_MS,
    BLOCK_MAKING_MS,
    BLOCK_SLICES_MAX,
    BLOCK_TALLIES_MAX,
)
from meterline.meter import CatalogueStore
from meterline.ports import Clock
from meterline.usage import (
    COUNTED_STATES,
    Block,
    BlockLedger,
    BlockRows,
    BlockState,
    Column,
    Due,
    Held,
    Seal,
    Stretch,
    Stretches,
    begun_at_ms,
    block_number,
    columns_of,
    differences,
    ends_of,
    merge_due,
    unequal,
)

logger = structlog.get_logger()
_WAYS: Final = 3  # of having something to do: `BlockMaker._due`
_Made = tuple[Block, Sequence[int], Sequence[Seal]]  # from these blocks, or from these slices


class BlockMaker:
    """Makes the blocks of one log, one at a time. Any number of makers at once do no harm."""

    def __init__(
        self,
        log: int,
        partitions: int,
        ledger: BlockLedger,
        rows: BlockRows,
        catalogue: CatalogueStore,
        clock: Clock,
        chance: random.Random,
        fan: int = BLOCK_FAN,
    ) -> None:
        self._fan = fan
        self._turn = 0
        self._log = log
        self.partitions = partitions  # of the log now: it may get more
        self._ledger = ledger
        self._rows = rows
        self._catalogue = catalogue
        self._clock = clock
        self._chance = chance

    async def step(self) -> bool:
        """Make the next block that is due, or merge some; False where nothing is due, or where it
        was in vain. Raises `Unavailable`. What was begun in vain is given up.
        """
        there = await self._ledger.blocks(self._log)
        due = await self._due(columns_of(there))
        if due is None:
            return False
        block, *_ = due
        await self._ledger.begin(block)
        try:
            readable = await self._made(there, due)
        except Exception:
            await self._ledger.give_up([block.number], self._clock.now_ms())
            raise
        if not readable:  # it is tried again soon: what is left of each try must not pile up
            await self._ledger.give_up([block.number], self._clock.now_ms())
        return readable

    async def _made(self, there: Sequence[Block], due: _Made) -> bool:
        """Whether a block can be read."""
        block, sources, _ = due
        await self._rows.make(block, sources)
        wrong, held = await self._wrong(there, due)
        if wrong:
            logger.warning("block_differs", block=block.number, differences=wrong)
            return False
        counts = {name: one.rows for name, one in held.items() if one.rows}
        readable = await self._ledger.publish(block, counts, sources, self._clock.now_ms())
        logger.info(
            "block_made",
            block=block.number,
            rows=sum(counts.values()),
            of=len(sources),
            readable=readable,
        )
        return readable

    async def _wrong(
        self, there: Sequence[Block], made: _Made
    ) -> tuple[list[str], Mapping[str, Held]]:
        """What keeps a block from being read, and the rows that it has."""
        block, sources, seals = made
        held, due = await self._rows.held(block.number), await self._rows.due(block, sources)
        wrong = differences(due, held)
        if sources:
            return wrong + unequal(due, [it for it in there if it.number in sources]), held
        events = await self._ledger.events_within(self._log, block.stretches)
        return wrong + _lacking(block, due, seals, events), held

    async def sweep(self) -> None:
        """Drop the rows that nobody reads: of blocks that were given up, or replaced long enough
        ago, and of those without a record. Blocks whose rows are not all there are withdrawn, as
        long as they can be made again.
        """
        there = await self._ledger.blocks(self._log)
        counts = await self._rows.counts()
        wrong = [it.number for it in there if _is_damaged(it, counts.get(it.number, {}))]
        if wrong:
            gone = await self._ledger.withdraw(self._log, wrong, self._clock.now_ms())
            logger.warning("blocks_withdrawn" if gone else "blocks_are_lost", blocks=wrong)
        over = [it.number for it in there if self._is_over(it)]
        await self._ledger.give_up(over, self._clock.now_ms())
        unread = {
            it.number for it in await self._ledger.blocks(self._log) if it.state is BlockState.GONE
        }
        known = await self._ledger.numbers()
        lone = {number for number in counts.keys() - known if self._is_old(number)}
        await self._rows.drop(sorted((unread | lone) & counts.keys()))
        await self._ledger.forget(unread)

    def _is_over(self, block: Block) -> bool:
        now_ms = self._clock.now_ms()
        if block.state is BlockState.MAKING:
            return self._is_old(block.number)
        replaced = block.state is BlockState.REPLACED
        return replaced and now_ms - block.changed_at_ms > BLOCK_KEPT_MS

    def _is_old(self, number: int) -> bool:
        """Whether whoever makes this block, or made it, has given up by now. A number from far
        ahead was given by a clock that was wrong.
        """
        return abs(self._clock.now_ms() - begun_at_ms(number)) > BLOCK_MAKING_MS

    async def _due(self, columns: Sequence[Column]) -> _Made | None:
        """Newer revisions, what was sealed since, or merging: which of them comes first changes
        with each step. So none keeps another from being done, however much of it there is, and
        whether or not it can be done.
        """
        version, revisions = await self._catalogue.folded_revisions()
        if _newest(columns, revisions) > version:
            return None  # it lags: which newer revisions must be counted is not known by it
        self._turn += 1
        for way in range(self._turn, self._turn + _WAYS):
            match way % _WAYS:
                case 0:
                    found = await self._newer(columns, revisions)
                case 1:
                    found = await self._next(columns, revisions)
                case _:
                    found = self._merged(columns)
            if found is not None:
                return found
        return None

    def _merged(self, columns: Sequence[Column]) -> _Made | None:
        merge = merge_due(columns, self._fan)
        if merge is None:
            return None
        block = self._begun(merge.stretches, 0, merge.upto)
        begin_ms, end_ms = merge.sources[0].begin_ms, merge.sources[-1].end_ms
        numbers = tuple(source.number for source in merge.sources)
        return replace(block, begin_ms=begin_ms, end_ms=end_ms), numbers, ()

    async def _newer(self, columns: Sequence[Column], revisions: Sequence[int]) -> _Made | None:
        """What the first column lacks that lacks some: of revisions that all its slices are counted
        for by now, or of those that other columns have and nobody counts any more. Only columns
        that have the same are merged.
        """
        newest = _newest(columns, revisions)
        for column in columns:
            newer = [revision for revision in revisions if revision > column.upto]
            upto = await self._counted_upto(column.stretches, newer, newest)
            if upto > column.upto and (not newer or newer[0] <= upto):
                first = column.blocks[0]
                block = self._begun(column.stretches, column.upto, upto)
                return replace(block, begin_ms=first.begin_ms, end_ms=first.end_ms), (), ()
        return None

    async def _next(self, columns: Sequence[Column], revisions: Sequence[int]) -> _Made | None:
        """The slices that were sealed behind the last column, as many as a block may have."""
        begin_ms = columns[-1].end_ms if columns else 0
        ends = ends_of(columns[-1].stretches) if columns else {}
        chosen: list[Seal] = []
        stretches: list[Stretch] = []
        for number in range(max(self.partitions, len(ends))):
            first = ends.get(number, 0)
            seals = await self._ledger.sealed_after(self._log, number, first, BLOCK_SLICES_MAX)
            mine = _beginning(seals, BLOCK_TALLIES_MAX // self.partitions)
            stretches.append(Stretch(number, first, mine[-1].end if mine else first))
            chosen += mine
        if not chosen:
            return None
        newest = _newest(columns, revisions)
        upto = await self._counted_upto(tuple(stretches), _unlike(chosen, revisions), newest)
        if upto < 1:
            return None
        late_ms = await self._ledger.late_kept_from(self._log, ends_of(stretches))
        end_ms = 0 if late_ms is None else max(begin_ms, late_ms)
        block = self._begun(tuple(stretches), 0, upto)
        return replace(block, begin_ms=begin_ms, end_ms=end_ms), (), chosen

    async def _counted_upto(
        self, stretches: Stretches, revisions: Sequence[int], newest: int
    ) -> int:
        """Slices in the stretches are counted for all revisions up to this one."""
        if not revisions:
            return newest
        lacking = await self._ledger.lacking(self._log, stretches, revisions)
        return newest if lacking is None else lacking - 1

    def _begun(self, stretches: Stretches, after: int, upto: int) -> Block:
        now_ms = self._clock.now_ms()
        number = block_number(now_ms, self._chance.getrandbits(32))
        return Block(number, self._log, stretches, after, upto, changed_at_ms=now_ms)


def _newest(columns: Sequence[Column], revisions: Sequence[int]) -> int:
    """The newest revision that is counted, or was when a column was made. Numbers between those of
    meters are of no use to anybody: a column must not differ from another one by them.
    """
    return max([*(column.upto for column in columns), *revisions], default=0)


def _beginning(seals: Sequence[Seal], tallies_max: int) -> Sequence[Seal]:
    """As many of the first slices as a block may have of a partition; at least one."""
    tallies = 0
    for at, seal in enumerate(seals):
        tallies += seal.tallies + seal.members
        if at and tallies > tallies_max:
            return seals[:at]
    return seals


def _unlike(seals: Sequence[Seal], revisions: Sequence[int]) -> list[int]:
    """The revisions that are newer than the catalogue of one of the seals."""
    oldest = min((seal.catalogue for seal in seals), default=0)
    return [revision for revision in revisions if revision > oldest]


def _lacking(block: Block, due: Due, seals: Sequence[Seal], events: int) -> list[str]:
    """What the slices lack of what their seals tell of: the store lags, or lost some."""
    needed = {"events": (due.events, events)}
    if not block.after:
        needed["tallies"] = (due.tallies, sum(seal.tallies for seal in seals))
        needed["members"] = (due.members, sum(seal.members for seal in seals))
    return [
        f"its slices have {there} {name}, sealed were {sealed}"
        for name, (there, sealed) in needed.items()
        if there < sealed
    ]


def _is_damaged(block: Block, counts: Mapping[str, int]) -> bool:
    """Whether a block that may be read has not the rows that were counted."""
    return block.state in COUNTED_STATES and dict(counts) != dict(block.rows or {})
