"""The aggregator's step: records in, durable rows out, in an order that makes every crash harmless.

Order of effects (docs/architecture.md, "Order of effects"). A flush: events, rejects, seen ->
tallies, members -> account. A seal: count-back -> seal row -> seen store -> (the shell's) offset
commit. Nothing here loops for ever or reads a clock.
"""

import asyncio
from collections.abc import Callable, Mapping

from aggregator.catch_up import (
    CatchUp,
    CountedMeanwhile,
    Preparation,
    another_log,
    check_all_counted,
    check_known,
)
from aggregator.failures import Failures
from aggregator.slice.adoption import Meters
from aggregator.slice.flush_due import Unflushed
from aggregator.slice.partition import Partition
from aggregator.slice.sealing import Sealer
from aggregator.slice.tracing import CountedTraces
from aggregator.slice.writer import Reached, Writer
from meterline.event import Log, Record, RecordKind
from meterline.limits import LOG_READ_RECORDS_MAX, UNFLUSHED_BYTES_MAX
from meterline.meter import Catalogue, CatalogueStore
from meterline.ports import SILENT, OutdatedMeters, Recorder, SeenDamaged, Unavailable, metrics
from meterline.usage import Flush, ProgressStore, SeenStore, UsageStore


class Aggregator:
    """Partitions of one log on their way into the usage store. Not safe for use by two tasks at
    once.
    """

    def __init__(
        self,
        log: Log,
        usage: UsageStore,
        progress: ProgressStore,
        catalogue_store: CatalogueStore,
        open_seen: Callable[[int], SeenStore],
        horizon_ms: int,
        losses_accepted: Mapping[int, int] | None = None,
        recorder: Recorder = SILENT,
    ) -> None:
        self.now_ms = 0  # as of the latest turn of whoever drives it
        self._recorder = recorder
        self._losses_accepted = losses_accepted or {}
        self._preparation = Preparation(
            log, usage, progress, open_seen, horizon_ms, self._losses_accepted
        )
        self.log = log
        self.usage = usage
        self.progress = progress
        self.partitions: dict[int, Partition] = {}
        self._first_catalogue = asyncio.Lock()
        self.catalogue_store = catalogue_store
        self._horizon_ms = horizon_ms
        self.traces = CountedTraces()
        self._writer = Writer(usage, progress, self.traces, recorder)
        self._meters = Meters(catalogue_store, usage)
        self.sealer = Sealer(usage, progress, self._meters, recorder)

    # --- partitions ---

    async def open(self, number: int) -> Partition:
        """Take a partition on, and wait until that is done."""
        if number not in self.partitions:
            self.take_on(await self.prepared(number))
        return self.partitions[number]

    async def prepared(self, number: int) -> Partition:
        """A partition that can be taken on. Until it is, nothing changes for others, so this may
        run beside everything else. Raises `Unavailable`: call again.
        """
        async with self._first_catalogue:  # a later one is taken on between records only
            if self.catalogue.version < 0:
                await self.refresh_catalogue()
        return await self._preparation.prepared(number)

    @property
    def catching_up(self) -> Mapping[int, CatchUp]:
        """Partitions that will be taken on, whose seen stores are being brought up."""
        return self._preparation.catching_up

    async def look_at_layout(self, number: int = 0) -> None:
        """Take note of partitions that the log has got. Raises `Unsuitable` for an unknown one."""
        check_known(await self._preparation.laid_out(), number)

    def take_on(self, partition: Partition) -> None:
        """Count a partition that was prepared, from now on."""
        partition.look_ahead(self._meters.ahead)
        self.partitions[partition.number] = partition
        self._recorder.count(metrics.REBALANCES, 1, "taken")

    def close(self, number: int) -> None:
        """Let go of a partition; its open slice is somebody else's to read again."""
        partition = self.partitions.pop(number, None)
        if partition is not None:
            partition.drop_slice()
            partition.seen.close()
            self._recorder.count(metrics.REBALANCES, 1, "released")

    async def close_all(self) -> None:
        """Let go of every partition and of what is on its way."""
        await self._writer.abandon()
        await self.sealer.abandon()
        for number in list(self.partitions):
            self.close(number)

    # --- records ---

    async def feed(self, record: Record, follows: int) -> bool:
        """Take in a record; True also for what was taken in before. Raises `Unavailable`: feed it
        again then.

        `follows` says that no record lies between that offset and this record. False means that
        records are missing before it (a slice was dropped): read them from the log first. It is
        also False where the partition had to be given back: take it on again.
        """
        partition = self.partitions[record.partition]
        if record.offset < partition.next_offset:
            return True
        if follows > partition.next_offset:
            return False
        if record.log_id not in ("", self.log.id):
            raise another_log(record, self.log.id)
        try:
            return await self._taken(partition, record, follows)
        except SeenDamaged:
            self._give_back(partition)
            return False

    async def _taken(self, partition: Partition, record: Record, follows: int) -> bool:
        if sum([p.untaken_bytes for p in self.partitions.values()]) >= UNFLUSHED_BYTES_MAX:
            await self.flush()  # the store is slower than the log: wait, memory is bounded
            if partition.next_offset < follows:  # a slice may be dropped with a flush
                return False
        items = partition.items_of(record)
        if partition.closes_with(record, items):
            await self._end_slice(partition)
            if partition.next_offset < follows:
                return False
        if record.kind is RecordKind.MARK:
            await self._sealed(partition)
            if partition.next_offset < follows:
                return False
        if (routes := partition.mark_in(record)) is not None:
            # all before it is sealed; whoever begins behind it must know of it
            of = self.log.number, partition.number
            await self.progress.pass_mark(*of, routes, record.offset)
            partition.routes = routes
        partition.absorb(record, items, self._meters.measures, self._horizon_ms)
        self.traces.take_in(record, items)
        return True

    async def _end_slice(self, partition: Partition) -> None:
        """The open slice ends, by newer meters where they are ready. Its seal is waited for only
        where these would wait for ever, and by the slice behind it: one at a time of a partition,
        so that memory is bounded.
        """
        await self._sealed(partition)
        if self._meters.come_first(self.partitions):
            await self.flush()
        if partition.slice is None:  # it was dropped with what came first
            return
        if self._meters.let_end_beside(partition, self.partitions):
            partition.end_slice()
        else:
            await self.seal(partition)

    def _give_back(self, partition: Partition) -> None:
        """A damaged seen store gives way to a new one: the partition is prepared anew, and its open
        slice read again. Until then it is not this worker's.
        """
        partition.drop_slice()
        partition.seen.discard()
        del self.partitions[partition.number]

    async def read_some(self, number: int) -> int:
        """Feed the next records from the log itself; how many there were."""
        follows = self.partitions[number].next_offset
        try:
            records = await self.log.read(number, follows, LOG_READ_RECORDS_MAX)
        except Unavailable:
            self._recorder.count(metrics.STORE_ERRORS, 1, "log")
            raise
        if records and records[0].offset > follows:
            await self.check_truncation(number)
        for record in records:
            if not await self.feed(record, follows):
                break
            follows = record.offset + 1
            await asyncio.sleep(0)  # whoever shares the loop (the gateway, embedded) gets its turn
        return len(records)

    async def check_truncation(self, number: int) -> None:
        """Raise `LogTruncated` where records that were not taken in yet are gone from the log.
        Where another worker has counted them, the partition is let go of, and `CountedMeanwhile`
        raised: this worker was not told yet that it is not its own any more.

        Other gaps between offsets mean nothing.
        """
        follows = self.partitions[number].next_offset
        begin = await self.log.begin(number)
        if begin <= follows:
            return
        stores, accepted = (self.log, self.usage, self.progress), self._losses_accepted
        try:
            await check_all_counted(*stores, number, follows, begin, accepted)
        except CountedMeanwhile:
            self.close(number)
            raise

    # --- effects ---

    async def flush(self) -> None:
        """Everything taken in is durable on return. Raises `Unavailable`: call again, the rows are
        kept.
        """
        await self._finish()
        if self._begin_flush():
            await self._finish()

    async def settle(self) -> None:
        """Take note of a flush that has ended. Raises `Unavailable` where it failed: call again."""
        if not self._writer.busy:
            await self._finish()

    async def _finish(self) -> None:
        """Nothing is owed on return. A catalogue that came with the flush is that of all claims."""
        await self._writer.finish()
        self._meters.settle()

    async def flush_soon(self) -> bool:
        """Begin to write what changed, unless a flush is still on its way; false then. Raises
        `Unavailable` for the one before: call again, the rows are kept.
        """
        if self._writer.busy:
            return False
        await self._finish()
        return self._begin_flush()

    @property
    def unflushed(self) -> Unflushed:
        """Counted by partition: what is dropped with a slice, or given up with its partition, is
        not waited for.
        """
        held = self.partitions.values()
        events, size = [it.untaken_events for it in held], [it.untaken_bytes for it in held]
        return Unflushed(sum(events), sum(size))

    @property
    def has_news(self) -> bool:
        """Whether there is anything that a flush would tell the world."""
        version = self.catalogue.version
        if self._writer.owes or self._meters.is_ready(self.partitions):
            return True
        return any(p.recorded != (version, p.next_offset) for p in self.partitions.values())

    def _begin_flush(self) -> bool:
        adopts = self._meters.adopt(self.partitions)
        version = self._meters.version
        rows, reached = Flush(), []
        for partition in self.partitions.values():
            partition.tell_counts(self._recorder)
            end = partition.next_offset
            for slice_ in partition.unsealed():
                if adopts or partition.taken_end < slice_.end:
                    rows.extend(slice_.take())
            partition.taken_end = end
            partition.untaken_events = partition.untaken_bytes = 0
            if partition.recorded != (version, end):
                reached.append(Reached(partition, partition.epoch, end))
        if reached:
            self._writer.start(rows, reached, version)
        return bool(reached)

    async def seal(self, partition: Partition) -> None:
        """Finish the open slice: flush, count back, record it. Where the store differs, the slice
        is read again; and so it is where newer meters must be known first.
        """
        await self._sealed(partition)
        await self.flush()  # newer meters may come with it
        if partition.slice is not None:  # else it was dropped with that: it is read again
            partition.end_slice()
            await self._sealed(partition)

    async def _sealed(self, partition: Partition) -> None:
        """Wait until the slice that has ended is sealed, or is read again."""
        while partition.ended is not None:
            if partition.is_ended_durable:
                self.sealer.begin(partition.ended)
                await self._concluded(partition)
            else:
                await self.flush()

    async def _concluded(self, partition: Partition) -> None:
        """Conclude a seal. Where newer meters must come first, what they wait for in other
        partitions is done here: the caller may try again and again, and let nothing else be done.
        """
        try:
            await self.sealer.conclude(partition, self.partitions, self.now_ms)
        except OutdatedMeters:
            await self.flush()
            await self.settle_seals()
            raise

    async def settle_seals(self, *, soon: bool = True) -> None:
        """Begin seals, and take note of those that are set. Raises `Unavailable` where one failed,
        after all others: call again. Without `soon` what they cost is spread over a while.
        """
        failures = Failures()
        waiting = [it for it in self.partitions.values() if it.ended is not None]
        for partition in waiting:
            with failures.kept():
                await self._settle_seal(partition, len(waiting), soon=soon)
        failures.tell()

    async def _settle_seal(self, partition: Partition, waiting: int, *, soon: bool) -> None:
        if partition.ended is None:  # meanwhile
            return
        seal = self.sealer.begun(partition.ended)
        if seal is not None and seal.done():
            try:
                await self.sealer.conclude(partition, self.partitions, self.now_ms)
            except SeenDamaged:
                self._give_back(partition)
        elif (
            seal is None
            and partition.is_ended_durable
            and self.sealer.may_begin(partition, waiting, self.now_ms, soon=soon)
        ):
            self.sealer.begin(partition.ended)

    @property
    def is_sealing(self) -> bool:
        """Whether slices that have ended wait for their seals."""
        return any(it.ended is not None for it in self.partitions.values())

    # --- the catalogue ---

    @property
    def catalogue(self) -> Catalogue:
        """That by which all below each `flushed_end` is counted."""
        return self._meters.catalogue

    @property
    def is_adopting(self) -> bool:
        """Whether a newer catalogue is on its way, and nothing is claimed by it so far."""
        return self._meters.is_adopting

    async def refresh_catalogue(self) -> bool:
        """Begin to take on a newer catalogue, if there is one. Whether one is on its way: nothing
        is dropped, and a flush takes it on once `read_ahead` has nothing left to do.
        """
        return await self._meters.look(self.partitions)

    async def read_ahead(self) -> bool:
        """A step of taking a newer catalogue on, beside everything else; False where there is
        nothing to do for now. Raises `Unavailable`: call again after a while.
        """
        return await self._meters.read(self.partitions)
