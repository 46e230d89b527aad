"""Seals: a slice that has ended is counted back and recorded, beside the slice behind it
(docs/architecture.md, "Order of effects").

Nothing of a partition changes in here. Whoever drives it takes note of how a seal went.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import structlog

from aggregator.slice.adoption import Meters
from aggregator.slice.background import Background
from aggregator.slice.open_slice import OpenSlice
from aggregator.slice.partition import Ended, Partition
from meterline.limits import COUNT_BACK_TRIES_MAX, SEALS_AT_ONCE_MAX
from meterline.ports import SILENT, OutdatedMeters, Recorder, Unsuitable, metrics
from meterline.usage import (
    AccountRow,
    Counted,
    ProgressStore,
    Seal,
    SliceDifference,
    SliceId,
    UsageStore,
    table_differences,
)

logger = structlog.get_logger()

Holdings = tuple[Mapping[str, Counted], AccountRow | None]


class Difference(NamedTuple):
    """What the usage store holds of a slice, and what was written of it."""

    stored: Holdings
    expected: tuple[Mapping[str, Counted], AccountRow]


class CountBackDiffers(Unsuitable):
    """The store does not hold what was written to it, again and again: someone must look."""


class Sealer:
    """Seals slices, so many at once. Not for use by two tasks at once."""

    def __init__(
        self,
        usage: UsageStore,
        progress: ProgressStore,
        meters: Meters,
        recorder: Recorder = SILENT,
    ) -> None:
        self._recorder = recorder
        self._usage = usage
        self._progress = progress
        self._meters = meters
        self._tasks: dict[SliceId, tuple[Ended, asyncio.Task[Difference | None]]] = {}
        self._left: set[asyncio.Task[Difference | None]] = set()  # nobody asks for these any more

    @property
    def has_room(self) -> bool:
        """Whether another seal may begin."""
        return len(self._tasks) < SEALS_AT_ONCE_MAX

    def begin(self, ended: Ended) -> None:
        """Begin to seal a slice, unless that is on its way. All its rows must be durable."""
        if not self._is_on_its_way(ended):
            if ended.slice.id in self._tasks:  # it was read again meanwhile
                self._leave_task(ended.slice.id)
            self._tasks[ended.slice.id] = ended, asyncio.create_task(self._seal(ended))

    def is_done(self, ended: Ended) -> bool:
        """Whether a seal has ended, however it did."""
        return self._is_on_its_way(ended) and self._tasks[ended.slice.id][1].done()

    def _is_on_its_way(self, ended: Ended) -> bool:
        return ended.slice.id in self._tasks and self._tasks[ended.slice.id][0] is ended

    def awaited(self, partitions: Mapping[int, Partition]) -> list[Partition]:
        """Those whose slice has ended. A seal that is on its way for others may end as it likes: it
        is true whoever sets it.
        """
        found = [it for it in partitions.values() if it.ended is not None]
        unsealed = {it.ended.slice.id for it in found if it.ended is not None}
        for slice_id in [it for it in self._tasks if it not in unsealed]:
            self._leave_task(slice_id)
        return found

    async def conclude(
        self, partition: Partition, partitions: Mapping[int, Partition], now_ms: int
    ) -> None:
        """Wait for a seal that was begun, and take note of how it went: the slice is sealed, or is
        read again. Raises `Unavailable`: begin it again.
        """
        ended = partition.ended
        assert ended is not None, "only what has ended is sealed"
        _, task = self._tasks[ended.slice.id]
        await asyncio.wait([task])
        self._tasks.pop(ended.slice.id, None)
        try:
            difference = task.result()
        except OutdatedMeters:  # whoever tries again must not do so by the same ones for ever
            await self._meters.look(partitions)
            partition.reopen()
            raise
        if difference is None:
            partition.seal_slice()
            self._recorder.count(metrics.SEALS, 1, "sealed")
            return
        if (catalogue := await self.sealed_by(ended.slice.id)) is None:
            self._differs(partition, difference)
            return
        await self._meters.look(partitions)  # new ones only do not matter: they may come always
        if self._meters.catalogue.version < catalogue or self._meters.gone or ended.slice.borrowed:
            partition.drop_slice()  # an empty one, too: it is read again
        else:
            await self._leave(partition, ended.slice, difference, max(now_ms, ended.append_ms))

    async def _leave(
        self, partition: Partition, slice_: OpenSlice, difference: Difference, at_ms: int
    ) -> None:
        """Leave a slice that somebody else has sealed. That it differs is recorded first: nobody
        would find it out again. By older meters than its seal's nothing is judged, nor by those
        that are about to go: their rows may be dropped. Nor by what the store itself has told.
        """
        tables = table_differences(difference.expected, difference.stored)
        found = SliceDifference(slice_.id, at_ms, tables, slice_.first_minute)
        if await self._progress.record_difference(found):
            logger.warning("sealed_slice_left", slice=found.place, differing=tables)
        else:
            logger.info("erased_slice_left", slice=found.place)
        partition.seal_slice()
        partition.left += 1
        self._recorder.count(metrics.SEALS, 1, "left")

    def _differs(self, partition: Partition, difference: Difference) -> None:
        """Another try: the slice is read again."""
        partition.count_back_tries += 1
        tries = partition.count_back_tries
        self._recorder.count(metrics.SEALS, 1, "differs")
        logger.warning(
            "count_back_differs",
            partition=partition.number,
            stored=difference.stored,
            expected=difference.expected,
            tries=tries,
        )
        if tries >= COUNT_BACK_TRIES_MAX:
            message = (
                f"partition {partition.number}: after {tries} tries the usage store still does not"
                f" hold what was written. Stored {difference.stored}, expected"
                f" {difference.expected}. Nothing is lost: the log has every event. Check the disk"
                " and the error log of the usage store, then start again."
            )
            raise CountBackDiffers(message)
        partition.drop_slice()

    def _leave_task(self, slice_id: SliceId) -> None:
        _, task = self._tasks.pop(slice_id)
        self._left.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Difference | None]") -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it

    async def abandon(self) -> None:
        """Nothing is on its way on return."""
        self.awaited({})
        left = list(self._left)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def stored(self, slice_: OpenSlice) -> Holdings:
        """What the usage store holds of a slice."""
        revisions = [meter.revision for meter in self._meters.catalogue.meters]
        return (
            await self._usage.count_back(slice_.id, revisions),
            await self._usage.account(slice_.id),  # a row by itself: nothing to be counted
        )

    async def sealed_by(self, slice_id: SliceId) -> int | None:
        """By which catalogue at most somebody else has sealed a slice meanwhile; None: nobody has.
        It was counted back then; since, the rows of a subject may have been erased.
        """
        last = await self._progress.last_seal(slice_id.log, slice_id.partition)
        return None if last is None or last.slice < slice_id.slice else last.catalogue

    async def _seal(self, ended: Ended) -> Difference | None:
        slice_, catalogue = ended.slice, self._meters.catalogue.version
        stored = await self.stored(slice_)
        counted: dict[str, Counted] = {}
        background = Background()
        for so_far in slice_.counting():  # a slice may have half a million tallies
            counted = so_far
            await background.give_way()
        expected = (counted, slice_.account())
        if stored != expected:
            return Difference(stored, expected)
        seal = Seal(
            *slice_.id,
            slice_.end,
            slice_.account().new,
            catalogue,
            ended.append_ms,
            slice_.last_digest(),
            *(counted[table].rows for table in ("rejects", "tallies", "members", "rejected")),
        )._replace(late=counted["late_tallies"].rows + counted["late_members"].rows)
        await self._progress.seal(seal)
        return None
