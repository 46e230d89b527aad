"""What a worker does between records, by the clock it is given: flush, new catalogues,
completeness.
"""

from dataclasses import dataclass

import structlog

from aggregator.backfill.filler import Backfill
from aggregator.catalogue_debounce import CatalogueDebounce, passed
from aggregator.completeness import Completeness
from aggregator.failures import Failures
from aggregator.retention import Retention
from aggregator.slice.flush_due import FlushBounds, flush_due
from aggregator.slice.partition import Partition
from aggregator.slice.room import Room
from aggregator.step import Aggregator
from meterline.event import encode_pack
from meterline.limits import (
    BUSY_RESTS,
    CATCH_UP_TELL_MS,
    CLAIM_IDLE_MS,
    CLAIM_INTERVAL_MS,
    CLAIM_MOVED_MS,
    IDLE_SLICE_MS,
    LATE_INTERVALS,
    LATE_RESTS,
    LAYOUT_LOOK_MS,
    OPEN_SLICES_BYTES_MIN,
    RETENTION_INTERVAL_MS,
    SWITCH_CHECK_MS,
    TRIM_INTERVAL_MS,
)
from meterline.meter import CatalogueStore
from meterline.usage import CatchingUp, ProgressStore

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Intervals:
    """When a flush is due, how long the log keeps what is counted, and how much memory open slices
    may take.
    """

    flush: FlushBounds
    retention_ms: int
    open_bytes: int = OPEN_SLICES_BYTES_MIN
    open_bytes_each: int = 0  # of a partition: the bound follows the log where nobody chose one


class Housekeeping:
    """Call `tick` and `claim` often; each does what is due. Both raise `Unavailable`: call again
    after a while.

    `tick` changes slices, so nothing may be fed meanwhile. `claim` only asks and tells: it may run
    beside everything else.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        completeness: Completeness,
        intervals: Intervals,
        retention: Retention | None = None,
    ) -> None:
        self._aggregator = aggregator
        self._completeness = completeness
        self._intervals = intervals
        self._retention = retention
        self.backfill = Backfill(aggregator)  # a task of its own calls it
        self.room = Room(intervals.open_bytes)  # is asked before records are taken in
        self._dropped_ms = 0
        self._flushed_ms = 0
        self._catalogue = CatalogueDebounce()
        self._probed_ms = self._moved_ms = 0
        self._reached: tuple[int, dict[int, int]] = (-1, {})  # catalogue, and offsets
        self._trimmed_ms = 0
        self._switched_ms = 0
        self._reported_ms = 0
        self._laid_out_ms = 0
        self._catching_up: dict[int, int] = {}  # partitions that were told of, since when

    async def tick(self, now_ms: int) -> bool:
        """Do what is due at `now_ms`; True where it did something."""
        self._aggregator.now_ms = now_ms
        if self.room.look(self._aggregator.partitions, now_ms):
            logger.warning(
                "open_slices_take_turns", bytes=self.room.held_bytes, most=self.room.bytes_max
            )
        did = await self._refresh_if_due(now_ms)
        await self._aggregator.settle()
        did = await self._flush_if_due(now_ms) or did
        waited_for = self.room.is_full or self._aggregator.is_adopting
        await self._aggregator.settle_seals(soon=waited_for)
        return did

    async def claim(self, now_ms: int) -> None:
        """Tell how far everything is complete, switch meters to what is filled in, and let the log
        and the usage store drop what is old. What is away, such as an inbox topic, keeps nothing
        else from being done: the first of it is told at the end.
        """
        failures = Failures()
        for part in (
            self._probe_if_due,
            self._claim,
            self._look_at_layout_if_due,
            self._tell_catch_ups,
            self._switch_if_due,
            self._trim_if_due,
            self._drop,
        ):
            with failures.kept():
                await part(now_ms)
        failures.tell()

    async def _probe_if_due(self, now_ms: int) -> None:
        if passed(now_ms, self._probed_ms, self._claim_pause_ms(now_ms)):
            await self._completeness.probe(list(self._aggregator.partitions), now_ms)
            self._probed_ms = now_ms

    async def _claim(self, _now_ms: int) -> None:
        await self._completeness.claim()

    async def _look_at_layout_if_due(self, now_ms: int) -> None:
        if passed(now_ms, self._laid_out_ms, LAYOUT_LOOK_MS):
            await self._aggregator.look_at_layout()
            of_all = self._aggregator.log.partitions * self._intervals.open_bytes_each
            self.room.bytes_max = max(self._intervals.open_bytes, of_all)
            self._laid_out_ms = now_ms

    async def _trim_if_due(self, now_ms: int) -> None:
        """What is away is asked again after the whole interval: nothing waits for it."""
        if not passed(now_ms, self._trimmed_ms, TRIM_INTERVAL_MS):
            return
        self._trimmed_ms = now_ms
        failures = Failures()
        for partition in list(self._aggregator.partitions.values()):
            with failures.kept():
                await self._trim(partition, now_ms)
        with failures.kept():
            await self._aggregator.catalogue_store.retire(now_ms)
        if self._retention is not None and 0 in self._aggregator.partitions:
            await self._retention.sum_turn(now_ms)
        failures.tell()

    async def _tell_catch_ups(self, now_ms: int) -> None:
        """How far seen stores are, and which ones are done."""
        it = self._aggregator
        ended = self._catching_up.keys() - it.catching_up.keys()
        if not ended and not (
            it.catching_up and passed(now_ms, self._reported_ms, CATCH_UP_TELL_MS)
        ):
            return
        begun_ms = {n: self._catching_up.get(n, now_ms) for n in it.catching_up}
        going = [
            CatchingUp(n, begun_ms[n], now_ms, at.keys, at.keys_total)
            for n, at in it.catching_up.items()
        ]
        await it.progress.tell_catch_ups(it.log.number, going, sorted(ended))
        self._catching_up, self._reported_ms = begun_ms, now_ms

    def _claim_pause_ms(self, now_ms: int) -> int:
        """Seldom where nothing moves. What moved is waited for as long as it takes to tell."""
        owned = self._aggregator.partitions
        reached = self._aggregator.catalogue.version, {n: it.next_offset for n, it in owned.items()}
        if reached != self._reached:
            self._reached, self._moved_ms = reached, now_ms
        idle = passed(now_ms, self._moved_ms, CLAIM_MOVED_MS)
        return CLAIM_IDLE_MS if idle else CLAIM_INTERVAL_MS

    async def read_ahead(self) -> bool:
        """Read what open slices lack of newer meters; False where there is nothing to do for now.
        It may run beside everything else, in one task.
        """
        return await self._aggregator.read_ahead()

    def progress(self) -> tuple[dict[int, int], dict[int, int]]:
        """By partition, up to where it is durable in the usage store, and an end of the log that is
        yet to be reached.
        """
        partitions = self._aggregator.partitions
        reached = {number: it.flushed_end for number, it in partitions.items()}
        return reached, self._completeness.ends

    def behind_ms(self, now_ms: int) -> int:
        """For how long counting has been behind the log."""
        return self._completeness.behind_ms(now_ms)

    def rests(self, now_ms: int) -> int:
        """How many times as long as it worked what can wait is to rest: while counting has nothing
        before it, not at all. It is late where it has been behind for longer than flushes explain:
        what can wait rests then, before counting is so far behind that it flushes more seldom.
        """
        behind_ms = self.behind_ms(now_ms)
        if behind_ms > LATE_INTERVALS * self._intervals.flush.interval_ms:
            return LATE_RESTS
        return BUSY_RESTS if behind_ms > 0 else 0

    async def _drop(self, now_ms: int) -> None:
        """Let the usage store drop what is not kept; whoever holds the first partition does."""
        if self._retention is None or 0 not in self._aggregator.partitions:
            return
        if passed(now_ms, self._dropped_ms, RETENTION_INTERVAL_MS):
            self._dropped_ms = now_ms
            await self._retention.turn(now_ms)

    async def _refresh_if_due(self, now_ms: int) -> bool:
        """Begin to take on a newer catalogue; changes that follow each other are taken together."""
        aggregator = self._aggregator
        if not self._catalogue.due(now_ms, adopting=aggregator.is_adopting):
            return False
        begun = await aggregator.refresh_catalogue()
        self._catalogue.looked(now_ms, adopting=begun)
        return begun

    async def _switch_if_due(self, now_ms: int) -> None:
        if passed(now_ms, self._switched_ms, SWITCH_CHECK_MS):
            it = self._aggregator
            log = it.log
            store = it.catalogue_store
            await switch_filled(store, it.progress, log.number, log.partitions, now_ms)
            self._switched_ms = now_ms

    async def _flush_if_due(self, now_ms: int) -> bool:
        aggregator = self._aggregator
        if not flush_due(
            self._intervals.flush,
            aggregator.unflushed,
            self._flushed_ms,
            now_ms,
            has_news=aggregator.has_news,
            behind_ms=self.behind_ms(now_ms),
        ):
            return False
        if not await aggregator.flush_soon():
            return False
        self._flushed_ms = now_ms
        return True

    async def _trim(self, partition: Partition, now_ms: int) -> None:
        """Let the log drop old records of sealed slices, and close a slice that nothing closes.

        A partition without new records keeps its last slice open for ever, and one day its records
        expire. An empty pack ends it; the slice that begins with that pack holds nothing that could
        be lost. The last sealed record stays, however old: by it a restored log is known.
        """
        log = self._aggregator.log
        before = max(0, partition.sealed_end - 1)
        await log.trim(partition.number, before, now_ms - self._intervals.retention_ms)
        idle = now_ms - partition.append_ms > IDLE_SLICE_MS
        held = partition.slice is not None and partition.slice.border.events
        if idle and held and await log.end(partition.number) == partition.next_offset:
            await log.append(partition.number, encode_pack([]))


async def switch_filled(
    catalogue: CatalogueStore, progress: ProgressStore, log: int, partitions: int, now_ms: int
) -> list[int]:
    """Switch the revisions that wait and are filled in, in every partition of the log; their
    numbers. Any worker does it, any number of times: the store lets one (docs/architecture.md,
    "Meters that change").
    """
    done = []
    for revision in await catalogue.filling():
        until_ms = await progress.complete_until(log, partitions, revision)
        if until_ms is not None and await catalogue.switch_filled(revision, now_ms) is not None:
            done.append(revision)
    return done
