"""Stores whose answers are given out only when nothing was lost."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import fields

from meterline.usage.block_ports import BlockRows
from meterline.usage.erasure import ErasedRows
from meterline.usage.integrity.comparison import (
    Standing,
    UsageIntegrity,
    WholeLife,
    check_same,
)
from meterline.usage.ports import LateEvents, Life, UsageStore
from meterline.usage.query import UsageQuery, UsageRow
from meterline.usage.retention.periods import UsagePeriods
from meterline.usage.retention.revisions import RevisionRows
from meterline.usage.rows import Flush, RawEvent, SeenRow


class CheckedUsageStore:
    """A `UsageStore` whose answers are given only when the store has lost nothing.

    The check comes after each answer: a store that was replaced before it is found out. Where keys
    of events, or events, are read to be kept elsewhere, another one comes before. Every method
    raises `StoreLost`, too.
    """

    def __init__(
        self, store: UsageStore, integrity: UsageIntegrity, standing: Standing | None = None
    ) -> None:
        self._store = store
        self._check = integrity.check
        self._standing = standing  # None: each answer is followed by a comparison of its own
        self._write = integrity.checked(store.write)
        self._written: set[int] = set()  # partitions that this process has written rows of
        self.count_back = integrity.checked(store.count_back)
        self.account = integrity.checked(store.account)
        self.answers = integrity.checked(store.answers)
        self.accounts = integrity.checked(store.accounts)
        self.slice_events = integrity.enclosed(store.slice_events)
        self.seen_extent = integrity.enclosed(store.seen_extent)
        self.seen_keys = integrity.enclosed(store.seen_keys)
        self.usage_values = integrity.checked(store.usage_values)
        self.usage_sum = integrity.checked(store.usage_sum)
        self.rejected = integrity.checked(store.rejected)
        self.listed_events = integrity.checked(store.listed_events)
        self.event_subjects = integrity.checked(store.event_subjects)
        self.new_events = integrity.checked(store.new_events)
        self.close = store.close

    async def write(self, flush: Flush) -> None:
        """See the port. Before the first rows of a partition there is a check, too: who does not
        know of a server that was added would write them to a wrong one.
        """
        partitions = _partitions(flush)
        if not partitions <= self._written:
            await self._check()
        await self._write(flush)
        self._written |= partitions

    async def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        """See the port; one check comes at first, another one before the end is told."""
        before = await self._check()
        async for rows in self._store.seen_between(log, partition, offset_first, offset_end):
            yield rows
        check_same(before, await self._check())

    async def raw_events(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        end: int,
        namespaced_types: Sequence[tuple[str, str]],
    ) -> AsyncIterator[list[RawEvent]]:
        """See the port; one check comes at first, another one before the end is told."""
        before = await self._check()
        asked = self._store.raw_events(log, partition, slices, end, namespaced_types)
        async for rows in asked:
            yield rows
        check_same(before, await self._check())

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        """See the port."""
        async with aclosing(self.usage_rows(query)) as blocks:
            return [row async for rows in blocks for row in rows]

    async def usage_rows(
        self, query: UsageQuery, life: Life | None = None
    ) -> AsyncGenerator[list[UsageRow], None]:
        """See the port; the first part is checked: what the others tell was read by then, too. A
        life of the store that was found whole a moment ago need not be looked at again.
        """
        held = None if self._standing is None else self._standing.held
        checked = False
        life = life if held is None else held.life
        async with aclosing(self._store.usage_rows(query, life)) as blocks:
            async for rows in blocks:
                if not checked:
                    await self._stands(held)
                    checked = True
                yield rows
        if not checked:
            await self._stands(held)

    async def _stands(self, held: WholeLife | None) -> None:
        if self._standing is None:
            await self._check()
        else:
            await self._standing.stands(held)

    async def usage_by_subject(
        self, query: UsageQuery, rows_max: int
    ) -> AsyncIterator[list[UsageRow]]:
        """See the port; the check comes before each portion, and before the end is told."""
        async for rows in self._store.usage_by_subject(query, rows_max):
            await self._check()
            yield rows
        await self._check()


def _partitions(flush: Flush) -> set[int]:
    """Those that a flush has rows of. Without accounts, it is of one."""
    if flush.accounts:
        return {row.partition for row in flush.accounts}
    tables = (getattr(flush, one.name) for one in fields(flush))
    return {rows[0].partition for rows in tables if rows}


class CheckedLateEvents:
    """`LateEvents` of a store that has lost nothing: what is overlooked now is never looked for
    again.
    """

    def __init__(self, events: LateEvents, integrity: UsageIntegrity) -> None:
        self.touched = integrity.checked(events.touched)


class CheckedBlockRows:
    """`BlockRows` of a store that has lost nothing: what a block must weigh is told only then.
    `due` raises `StoreLost`, too.
    """

    def __init__(self, rows: BlockRows, integrity: UsageIntegrity) -> None:
        self.make, self.held, self.recount = rows.make, rows.held, rows.recount
        self.due = integrity.checked(rows.due)
        self.drop, self.counts = rows.drop, rows.counts


class CheckedPeriods:
    """`UsagePeriods` of a store that has lost nothing: what it lacks may be made again only of what
    would be dropped. All but `drop`, before which `reach` is asked, raise `StoreLost`, too.
    """

    def __init__(self, periods: UsagePeriods, integrity: UsageIntegrity) -> None:
        self.periods = integrity.checked(periods.periods)
        self.reach = integrity.checked(periods.reach)
        self.drop = periods.drop


class CheckedErasedRows:
    """`ErasedRows` of a store that is whole before and after each question, in one life of it. A
    store that was empty for a moment has nothing to erase, and the erasure would be taken for done.
    Every method raises `StoreLost`, too. `passed_s` gives seconds of a clock that only goes on.
    """

    def __init__(
        self, rows: ErasedRows, integrity: UsageIntegrity, passed_s: Callable[[], float]
    ) -> None:
        self.copy = integrity.within_one_life(rows.copy, passed_s)
        self.refusals_of = integrity.within_one_life(rows.refusals_of, passed_s)
        self.redact = integrity.within_one_life(rows.redact, passed_s)
        self.delete = integrity.within_one_life(rows.delete, passed_s)
        self.blocks_with = integrity.within_one_life(rows.blocks_with, passed_s)
        self.forget = rows.forget


class CheckedRevisionRows:
    """`RevisionRows` of a store that is whole before and after each question, in one life of it:
    what it answers is subtracted from seals. All raise `StoreLost`, too. `passed_s` as above.
    """

    def __init__(
        self, rows: RevisionRows, integrity: UsageIntegrity, passed_s: Callable[[], float]
    ) -> None:
        self.rows_by_slice = integrity.within_one_life(rows.rows_by_slice, passed_s)
        self.delete_rows = integrity.within_one_life(rows.delete_rows, passed_s)
        self.blocks_with = integrity.within_one_life(rows.blocks_with, passed_s)
