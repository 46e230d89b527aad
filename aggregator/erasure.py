"""Erasures are carried out, by whoever holds a log's first partition (`meterline.usage.erasure`).

Each step can be taken again, and by several at once: rows under the pseudonym are the same however
often they are written, what is deleted is named by its borders, and the record moves once. So a
kill anywhere leaves what the next step finds.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from aggregator.renewal import Renewer
from meterline.event import Layout, Log, Record, encode_pack, laid_out
from meterline.limits import CLOCK_SKEW_MS, ERASURE_AGAIN_S, SLICE_SPAN_MS
from meterline.ports import Clock, Unavailable
from meterline.usage import (
    BlockLedger,
    BlockRows,
    BlockState,
    ErasedRows,
    Erasure,
    ErasureLedger,
    ErasureState,
    begun_at_ms,
    may_finish,
)

logger = structlog.get_logger()
_EMPTY: Final = encode_pack([])
_UNREAD: Final = (BlockState.MAKING, BlockState.GONE)
_ENDS: Final = 2  # packs that end slices: the last sealed record stays in the log


@dataclass(frozen=True, slots=True)
class ErasedStores:
    """Where a subject is erased. `renewed` makes the rows of blocks under its pseudonym; `compact`
    lets the log's files shrink by what was trimmed, `retention_ms` after it was counted.
    """

    ledger: ErasureLedger
    rows: ErasedRows
    blocks: BlockLedger
    renewed: Callable[[Erasure], BlockRows]
    log: Log
    compact: Callable[[], Awaitable[None]]
    retention_ms: int
    layout: Callable[[int], Awaitable[Layout]]  # of a log, as it is registered now


def waits_for_end(last: Sequence[Record], border: int, now_ms: int) -> bool:
    """Whether an empty pack is to end a partition's open slice, by its `last` two records (pure):
    its five minutes are over, and of the packs that end slices too few lie behind the border of an
    erasure.
    """
    if not last or _slice_of(last[-1]) >= now_ms // SLICE_SPAN_MS:
        return False
    ends = [it for it in last if it.offset >= border and it.value == _EMPTY]
    return len({_slice_of(it) for it in ends}) < _ENDS


def _slice_of(record: Record) -> int:
    return record.append_ms // SLICE_SPAN_MS


class Eraser:
    """Carries out erasures, step by step."""

    def __init__(self, stores: ErasedStores, clock: Clock, chance: random.Random) -> None:
        self._stores = stores
        self._clock = clock
        self._looked_ms: dict[str, int] = {}
        self._renewer = Renewer(stores.log.number, stores.blocks, clock, chance)

    async def turn(self) -> None:
        """Take each erasure as far as it goes. One that must wait does not delay others."""
        for erasure in await self._stores.ledger.unfinished():
            try:
                await self.step(erasure)
            except Unavailable as error:
                logger.warning("erasure_waits", erasure=erasure.id, reason=str(error))

    async def step(self, erasure: Erasure) -> None:
        """The next steps of one erasure, until it must wait. Raises `Unavailable`: call again."""
        if erasure.state is ErasureState.ASKED:
            erasure = await self._begun(erasure)
        if erasure.state is ErasureState.COPYING:
            erasure = await self._switched(erasure)
        if erasure.state is ErasureState.SWITCHED:
            erasure = await self._settled(erasure)
        elif erasure.state is ErasureState.SETTLED:
            await self._watched(erasure)

    async def _begun(self, erasure: Erasure) -> Erasure:
        """Where the log ends, first; then all below must be counted, and its slices sealed."""
        stores, now_ms = self._stores, self._clock.now_ms()
        if not erasure.log:
            # events may lie in partitions that the log got since it was opened
            await laid_out(stores.log, stores.layout)
            ends = {number: await stores.log.end(number) for number in range(stores.log.partitions)}
            until_ms = now_ms + self._stores.retention_ms + SLICE_SPAN_MS
            await stores.ledger.set_borders(erasure.id, stores.log.number, ends, until_ms)
        need = await stores.ledger.begin_copying(erasure.id, now_ms)
        if need is not None:
            logger.info("erasure_waits", erasure=erasure.id, reason=need)
            await self._close_slices(erasure, now_ms)
        return await self._now(erasure)

    async def _close_slices(self, erasure: Erasure, now_ms: int) -> None:
        """A partition without new records keeps its last slice open: an empty pack ends it, once
        its five minutes are over. And what follows it lets the log drop what was before.
        """
        log, ends = self._stores.log, (await self._now(erasure)).ends
        for partition in range(log.partitions):
            end = await log.end(partition)
            last = await log.read(partition, max(0, end - 2), 2)
            if waits_for_end(last, ends.get(partition, 0), now_ms):
                await log.append(partition, _EMPTY)

    async def _switched(self, erasure: Erasure) -> Erasure:
        """Copies, then raw events, then the record, and with it all of the control store."""
        stores = self._stores
        # After its revisions were listed: one that is made meanwhile is not copied either way.
        erasure = replace(erasure, unfilled=tuple(await stores.ledger.unfilled(erasure)))
        await stores.rows.copy(erasure)
        numbers = await stores.rows.blocks_with(erasure)
        made_of, columns = stores.renewed(erasure), await self._renewer.columns_with(numbers)
        renewals = [await self._renewer.renewed(made_of, column) for column in columns]
        redriven = await stores.ledger.redriven(erasure.namespace)
        refusals = await stores.rows.refusals_of(erasure, redriven)
        await stores.ledger.erase_refusals(refusals)  # they are not found once they are redacted
        await stores.rows.redact(erasure)
        await stores.ledger.switch(erasure.id, renewals, self._clock.now_ms())
        logger.info("erasure_switched", erasure=erasure.id)
        return await self._now(erasure)

    async def _settled(self, erasure: Erasure) -> Erasure:
        """Rows under the name are deleted."""
        stores = self._stores
        await stores.rows.delete(erasure)
        numbers = await stores.rows.blocks_with(erasure)
        await self._renewer.drop_older(stores.renewed(erasure), numbers)
        await stores.rows.forget()
        await stores.ledger.settle(erasure.id, self._clock.now_ms())
        await stores.ledger.compact()
        logger.info("erasure_settled", erasure=erasure.id)
        return await self._now(erasure)

    async def _watched(self, erasure: Erasure) -> None:
        """What comes back while the log holds it goes again. Then the name is forgotten."""
        stores, now_ms = self._stores, self._clock.now_ms()
        looked_ms = self._looked_ms.get(erasure.id)
        begins = {number: await stores.log.begin(number) for number in erasure.ends}
        over = may_finish(erasure, self._own(erasure, begins), now_ms)
        over = over and not await self._old_blocks(erasure)
        if not over and looked_ms is not None and now_ms - looked_ms < ERASURE_AGAIN_S * 1_000:
            return
        self._looked_ms[erasure.id] = now_ms
        await stores.rows.redact(erasure)
        await stores.rows.delete(erasure)
        await stores.rows.forget()
        if now_ms >= (erasure.log_until_ms or 0) and not over:
            await self._close_slices(erasure, now_ms)
        if not over:
            return
        await stores.compact()
        await stores.ledger.finish(erasure.id, now_ms)
        await stores.ledger.compact()
        logger.info("erasure_done", erasure=erasure.id)

    def _own(self, erasure: Erasure, begins: Mapping[int, int]) -> Mapping[int, int]:
        """Of a log before this one nothing is read any more."""
        return begins if erasure.log == self._stores.log.number else erasure.ends

    async def _old_blocks(self, erasure: Erasure) -> list[int]:
        """Blocks that have the name and are to go: those that nobody reads, in the making or with
        rows that came back, and replaced ones of before it was settled, until all have read them.
        One that is read has no rows of before under it, whenever it was made by its clock; nor has
        one that was replaced since.
        """
        numbers = await self._stores.rows.blocks_with(erasure)
        if not numbers:
            return []
        until_ms = (erasure.settled_at_ms or 0) + CLOCK_SKEW_MS
        recorded = await self._stores.blocks.numbers()
        there = await self._stores.blocks.blocks(self._stores.log.number)
        states = {it.number: it.state for it in there}

        def is_old(number: int) -> bool:
            if number not in recorded or states.get(number) in _UNREAD:
                return True
            readable = states.get(number) is BlockState.READABLE
            return not readable and begun_at_ms(number) <= until_ms

        return [number for number in numbers if is_old(number)]

    async def _now(self, erasure: Erasure) -> Erasure:
        """The record as it stands."""
        there = await self._stores.ledger.unfinished()
        return next((one for one in there if one.id == erasure.id), erasure)
