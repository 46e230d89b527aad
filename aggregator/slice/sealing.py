"""Seals: a slice that has ended is counted back and recorded, beside the slice behind it
(docs/architecture.md, "Order of effects").

Nothing of a partition changes in here. Whoever drives it takes note of how a seal went.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from weakref import WeakKeyDictionary

import structlog

from aggregator.slice.adoption import Meters
from aggregator.slice.background import Background
from aggregator.slice.ended import Difference, Ended, Holdings
from aggregator.slice.open_slice import OpenSlice
from aggregator.slice.partition import Partition
from meterline.limits import (
    COUNT_BACK_TRIES_MAX,
    SEAL_LATE_PART,
    SEAL_RESTS,
    SEALS_AT_ONCE_MAX,
    SEALS_SPREAD_PART,
    SLICE_SPAN_MS,
)
from meterline.ports import SILENT, OutdatedMeters, Recorder, Unsuitable, metrics
from meterline.usage import (
    Counted,
    ProgressStore,
    Seal,
    SliceDifference,
    SliceId,
    UsageStore,
    table_differences,
)

logger = structlog.get_logger()


class CountBackDiffers(Unsuitable):
    """The store does not hold what was written to it, again and again: someone must look."""


@dataclass(frozen=True, slots=True)
class SealRests:
    """How seals are spread that nothing waits for: rests of so many times as long as a seal took,
    the time for all of a round, and which part of a full slice is too much behind one that waits.
    """

    times: float = SEAL_RESTS
    spread_s: float = field(default_factory=lambda: SLICE_SPAN_MS / 1_000 / SEALS_SPREAD_PART)
    late_part: float = SEAL_LATE_PART

    def rest_s(self, took_s: float, seals: int, waiting: int, left_s: float) -> float:
        """Between two of so many seals of a round, where the last one took as long. Half of the
        time until slices behind end is for those that wait; looks may come late.
        """
        each_s = min(self.spread_s / seals, left_s / 2 / waiting)
        return min(self.times * took_s, max(0.0, each_s - took_s))

    def may_rest(self, took_s: float, seals: int, left_s: float) -> bool:
        """Whether so many seals, one after another, are all set before slices behind them end."""
        return took_s * seals < left_s


class Sealer:
    """Seals slices, so many at once. Not for use by two tasks at once."""

    def __init__(
        self,
        usage: UsageStore,
        progress: ProgressStore,
        meters: Meters,
        recorder: Recorder = SILENT,
    ) -> None:
        self.rests = SealRests()
        self._recorder = recorder
        self._usage = usage
        self._progress = progress
        self._meters = meters
        # begun and not concluded: those of slices that were dropped are forgotten with them
        self._seals: WeakKeyDictionary[Ended, asyncio.Task[Difference | None]] = WeakKeyDictionary()
        self._on_their_way: set[asyncio.Task[Difference | None]] = set()
        self._took_s = self._ended_s = 0.0  # of the last one that did not fail, by the loop's clock
        self._round = 1  # so many waited at most, since one was left

    def may_begin(self, partition: Partition, waiting: int, now_ms: int, *, soon: bool) -> bool:
        """Whether the seal of a partition may begin, where so many wait. Slices of all partitions
        end at one moment: what a seal costs is spread over a while, unless it is needed `soon`, or
        the slice behind it is about to end: that waits for this seal, and counting waits with it.
        """
        left_s = self._left_s(partition, now_ms)
        if soon or not self.rests.may_rest(self._took_s, waiting, left_s):
            return len(self._on_their_way) < SEALS_AT_ONCE_MAX
        self._round = max(self._round, waiting) if waiting > 1 else 1
        rested_s = asyncio.get_running_loop().time() - self._ended_s
        rest_s = self.rests.rest_s(self._took_s, self._round, waiting, left_s)
        return not self._on_their_way and rested_s >= rest_s

    def _left_s(self, partition: Partition, now_ms: int) -> float:
        """How long until the slice behind is to be able to end. Not at all where it is half full,
        or empty (the next record ends it), or while the log is caught up: spans go by faster then.
        """
        behind = partition.slice
        if behind is None:
            return inf
        if not behind.border.events or behind.border.is_filled(self.rests.late_part):
            return 0
        return behind.border.left_ms(max(now_ms, partition.append_ms)) / 1_000

    def begin(self, ended: Ended) -> None:
        """Begin to seal a slice, unless that is on its way. All its rows must be durable. Where the
        slice is dropped meanwhile, it goes on: a seal is true whoever sets it.
        """
        if ended not in self._seals:
            seal = self._seals[ended] = asyncio.create_task(self._timed(ended))
            self._on_their_way.add(seal)
            seal.add_done_callback(self._ended)

    def begun(self, ended: Ended) -> "asyncio.Task[Difference | None] | None":
        """The seal that was begun and is to be concluded."""
        return self._seals.get(ended)

    async def conclude(
        self, partition: Partition, partitions: Mapping[int, Partition], now_ms: int
    ) -> None:
        """Wait for a seal that was begun, and take note of how it went: the slice is sealed, or is
        read again. Raises `Unavailable`: begin it again; `OutdatedMeters` where newer ones, which
        are on their way by then, must be taken on before.
        """
        ended = partition.ended
        assert ended is not None, "only what has ended is sealed"
        await asyncio.wait([self._seals[ended]])
        try:
            difference = self._seals.pop(ended).result()
        except OutdatedMeters:  # whoever tries again must not do so by the same ones for ever
            await self._meters.look(partitions)
            partition.reopen()
            raise
        if difference is None:
            partition.seal_slice()
            self._recorder.count(metrics.SEALS, 1, "sealed")
            return
        await self._meters.look(partitions)
        await self._judge(partition, ended.slice, difference, max(now_ms, ended.append_ms))

    async def _judge(
        self, partition: Partition, slice_: OpenSlice, difference: Difference, at_ms: int
    ) -> None:
        """A slice differs from what is stored of it. By older meters than its seal's nothing is
        judged, nor by those that are about to go, where only what they count differs: their rows
        may be dropped. Nor is what the store itself has told. New ones do not matter.
        """
        sealed_by = await self.sealed_by(slice_.id)
        fewer = self._meters.gone and (sealed_by is not None or difference.is_of_meters)
        outdated = fewer or self._meters.catalogue.version < (sealed_by or 0)
        if outdated or (slice_.borrowed and sealed_by is not None):
            partition.drop_slice()  # an empty one, too: it is read again
            if outdated:
                raise OutdatedMeters("a slice differs, and newer meters must be known to judge it")
        elif sealed_by is None:
            self._differs(partition, difference)
        else:
            await self._leave(partition, slice_, difference, at_ms)

    async def _leave(
        self, partition: Partition, slice_: OpenSlice, difference: Difference, at_ms: int
    ) -> None:
        """Leave a slice that somebody else has sealed. That it differs is recorded first: nobody
        would find it out again.
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

    def _ended(self, seal: "asyncio.Task[Difference | None]") -> None:
        self._on_their_way.discard(seal)
        if not seal.cancelled():
            seal.exception()  # nobody asks for it where the slice was dropped

    async def abandon(self) -> None:
        """Nothing is on its way on return."""
        left = list(self._on_their_way)
        for seal in left:
            seal.cancel()
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

    async def _timed(self, ended: Ended) -> Difference | None:
        time_s = asyncio.get_running_loop().time
        began_s = time_s()
        difference = await self._seal(ended)
        self._ended_s = time_s()
        self._took_s = self._ended_s - began_s
        return difference

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
