"""Rows of revisions that nothing asks for any more are dropped, by whoever holds a log's first
partition (`meterline.usage.retention.revisions`).

Each step can be taken again, and by several at once: a notice is given once and goes on once, what
is deleted stays deleted, and a block gives way to another once. So a kill anywhere leaves what the
next step finds, and rows that come back go again.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import structlog

from aggregator.renewal import Renewer
from meterline.limits import (
    DROPPED_SLICES_READ_MAX,
    RETENTION_INTERVAL_MS,
    RETENTION_NOTICE_MS,
    SEALS_LESSENED_MAX,
)
from meterline.ports import Clock, Unavailable
from meterline.usage import (
    UNSETTLED,
    BlockLedger,
    BlockRows,
    ErasureLedger,
    RetentionLedger,
    RevisionLedger,
    RevisionNotice,
    RevisionRows,
    may_delete,
    may_lessen,
    newest_counted,
)

# Slices of one answer, and of one transaction. The store reads all rows of a revision for each
# answer, so an answer serves many transactions.
PORTIONS: Final = (DROPPED_SLICES_READ_MAX, SEALS_LESSENED_MAX)
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RevisionStores:
    """Where rows of revisions are. `block_rows` makes blocks without those that are not kept."""

    ledger: RevisionLedger
    sealed: RetentionLedger
    erasures: ErasureLedger
    rows: RevisionRows
    blocks: BlockLedger
    block_rows: BlockRows


class DroppedRevisions:
    """Gives notices of revisions, `kept_ms` after they ended, and drops their rows. With None it
    gives none, and goes on with those that were given.
    """

    def __init__(
        self,
        stores: RevisionStores,
        log: int,
        kept_ms: int | None,
        clock: Clock,
        chance: random.Random,
        wait_ms: int = RETENTION_NOTICE_MS,
        portions: tuple[int, int] = PORTIONS,
    ) -> None:
        self._wait_ms = wait_ms
        self._read_max, self._lessened_max = portions
        self._stores = stores
        self._log = log
        self._kept_ms = kept_ms
        self._clock = clock
        self._renewer = Renewer(log, stores.blocks, clock, chance)
        self._done_ms: int | None = None

    async def turn(self) -> None:
        """A part of what is due; looks once an hour whether anything is. Never fails: blocks do not
        wait for it.
        """
        now_ms = self._clock.now_ms()
        if self._done_ms is not None and 0 <= now_ms - self._done_ms < RETENTION_INTERVAL_MS:
            return
        try:
            if not await self.step():
                self._done_ms = now_ms
        except Unavailable as error:
            logger.warning("retention_waits", reason=str(error))

    async def step(self) -> bool:
        """Do the next thing that is due; False where nothing is. Raises `Unavailable`."""
        if any(one.state in UNSETTLED for one in await self._stores.erasures.unfinished()):
            return False  # its rows are on their way
        ledger, now_ms = self._stores.ledger, self._clock.now_ms()
        if self._kept_ms is not None:
            aged_ms = newest_counted(now_ms, await self._stores.sealed.sealed_ends(self._log))
            given = await ledger.give_revision_notices(aged_ms, now_ms, self._kept_ms)
            if given:
                logger.info("revisions_not_kept", revisions=given)
        notices = await ledger.revision_notices()
        for notice in notices:
            if may_lessen(notice, now_ms, self._wait_ms):
                return await self._lessened(notice, now_ms)
        due = [one for one in notices if may_delete(one, now_ms, self._wait_ms)]
        return bool(due) and await self._deleted(due, now_ms)

    async def _lessened(self, notice: RevisionNotice, now_ms: int) -> bool:
        """Some seals tell no more of the revision; first, none is made that does."""
        stores = self._stores
        if notice.closed_at_ms is None:
            await stores.ledger.close(notice.revision, now_ms)
            return True
        rows = await stores.rows.rows_by_slice(notice.revision, notice.reached, self._read_max)
        for first in range(0, len(rows), self._lessened_max):
            some = rows[first : first + self._lessened_max]
            if not await stores.ledger.lessen(notice, some, now_ms):
                return False
            notice = notice.behind(some[-1])
        if len(rows) == self._read_max:
            return True  # there may be more
        return await stores.ledger.lessen(notice, (), now_ms)

    async def _deleted(self, due: Collection[RevisionNotice], now_ms: int) -> bool:
        """Rows in slices, then one column; whether there were any. What is read of blocks gives way
        at once. What nobody reads of them is swept away with the others.
        """
        stores = self._stores
        revisions = [one.revision for one in due]
        if await stores.rows.delete_rows(revisions):
            return True
        numbers = await stores.rows.blocks_with(revisions)
        if not numbers:
            new = [one.revision for one in due if one.dropped_at_ms is None]
            if new:
                await stores.ledger.note_dropped(new, now_ms)
                logger.info("revisions_dropped", revisions=new)
            return False
        await self._renewer.drop_older(stores.block_rows, numbers)
        columns = await self._renewer.columns_with(numbers)
        if not columns:
            return False
        renewal = await self._renewer.renewed(stores.block_rows, columns[0])
        block, counts, sources = renewal
        readable = await stores.blocks.publish(block, counts, sources, now_ms)
        if not readable:
            await stores.blocks.give_up([block.number], now_ms)
        return readable
