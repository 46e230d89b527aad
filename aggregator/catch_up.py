"""Taking a partition on: where to start, and the seen store brought up to that place
(docs/architecture.md, "Verdicts").
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aggregator.slice.partition import Partition
from meterline.event import Layout, Log, Record, laid_out, offset_of, record_digest
from meterline.limits import SEEN_BULKS_MAX, SEEN_SHARE_KEYS
from meterline.ports import SeenDamaged, Unavailable, Unsuitable
from meterline.usage import (
    ProgressStore,
    Seal,
    SeenExtent,
    SeenSpan,
    SeenStore,
    SliceId,
    UsageStore,
)

SEEN_KEY_BYTES: Final = 40  # of `UsageStore.seen_keys`
EVER_MS: Final = 2**62
_FIRSTS: Final = 1 << 16  # of two bytes


class LogTruncated(Unsuitable):
    """The log no longer holds records that were never counted. Nothing more is done, so nothing
    more is lost.
    """


class CountedMeanwhile(Unavailable):
    """Another worker has sealed what this one was about to read, and the log has dropped it since:
    nothing is lost. The partition is to be prepared anew.
    """


class WaitsForParent(Unavailable):
    """A partition that a log got is not counted before its parent is: nothing has failed."""


async def check_same_log(log: Log, number: int, seal: Seal | None, counted: int) -> int:
    """The end of the log. Raises `LogTruncated` where it lies before what was counted, or where the
    last record that was sealed is another one now.

    A record that the log has dropped since, and a seal without a digest, say nothing.
    """
    end = await log.end(number)
    if end < counted:
        raise ends_early(number, end, counted)
    if seal is None or seal.digest is None:
        return end
    last = seal.end - 1
    found = await log.read(number, last, 1)
    if found and found[0].offset == last:
        if record_digest(found[0]) != seal.digest:
            raise another_past(number, last, "is not the one that was counted")
    elif await log.begin(number) <= last:  # asked after the read: it may expire in between
        raise another_past(number, last, "is missing, although older records exist")
    return end


async def start_of(
    log: Log,
    usage: UsageStore,
    progress: ProgressStore,
    number: int,
    reached: int,
    losses_accepted: Mapping[int, int],
) -> int:
    """Offset of the first record to read: the border after the last sealed slice, `reached`.

    Raises `LogTruncated` where the log begins behind it and the records between held events;
    `CountedMeanwhile` where the slice is not the last one any more.
    """
    begin = await log.begin(number)
    if begin > reached:
        await check_all_counted(log, usage, progress, number, reached, begin, losses_accepted)
    return max(reached, begin)


def ends_early(number: int, end: int, counted: int) -> LogTruncated:
    """The log lost its end: what comes now would lie at offsets that were counted."""
    return LogTruncated(
        f"partition {number}: the log ends at offset {end}, but everything below {counted} was"
        " counted. The log was created again, or restored to an older state. Correct log_url,"
        " log_topic or data_dir; or restore all stores from the same moment."
    )


def another_log(record: Record, log_id: str) -> LogTruncated:
    """A record that was written to another log lies in this one."""
    return LogTruncated(
        f"partition {record.partition}: the record at offset {record.offset} belongs to log"
        f" {record.log_id}, but this log is {log_id}. The log was copied or created again. Correct"
        " log_url, log_topic or data_dir; or continue with a new log under another name."
    )


def another_past(number: int, offset: int, what: str) -> LogTruncated:
    """The log was restored to an older state and grew again, or is a copy that went its own way."""
    return LogTruncated(
        f"partition {number}: the record at offset {offset}, the last one of a slice that was"
        f" counted, {what}. The log was restored to an older state and has grown since, or it is"
        " another log. Nothing more is counted, and counts stay as they are. Stop the gateways."
        " Restore the newest state of the log. If it is lost, continue with a new log under"
        " another name, and send again everything that was sent since the restore"
    )


async def check_nothing_lost(
    log: Log,
    usage: UsageStore,
    number: int,
    start: int,
    begin: int,
    losses_accepted: Mapping[int, int],
) -> None:
    """Raise `LogTruncated` unless what is gone was an empty slice, or its loss was accepted.

    An idle partition is closed by an empty pack, which may then expire.
    """
    if losses_accepted.get(number) == begin:
        return
    account = await usage.account(SliceId(log.number, number, start))
    if account is None or account.received or offset_of(account.version) + 1 < begin:
        raise LogTruncated(
            f"partition {number}: the log begins at offset {begin}, but records from {start} on"
            " were not counted: they expired first. Restore the log from a copy that has them. If"
            f' they are lost for good, set losses_accepted to {{"{number}": {begin}}}: counting'
            " then continues without them. Set log_retention_days above your longest outage"
        )


async def check_all_counted(
    log: Log,
    usage: UsageStore,
    progress: ProgressStore,
    number: int,
    start: int,
    begin: int,
    losses_accepted: Mapping[int, int],
) -> None:
    """As `check_nothing_lost`. Raises `CountedMeanwhile` where what is gone was sealed by another
    worker: whoever was frozen, or cut off, for a while knows of an older seal.
    """
    try:
        await check_nothing_lost(log, usage, number, start, begin, losses_accepted)
    except LogTruncated:
        seal = await progress.last_seal(log.number, number)
        if seal is None or seal.end <= start:
            raise
        raise CountedMeanwhile(
            f"partition {number}: another worker has counted records from {start} on, up to"
            f" {seal.end}; it is taken on anew, if it is still this worker's"
        ) from None


class Preparation:
    """Makes partitions ready to be taken on, each by itself: their start is found, their seen
    stores are brought up to it.
    """

    def __init__(
        self,
        log: Log,
        usage: UsageStore,
        progress: ProgressStore,
        open_seen: Callable[[int], SeenStore],
        horizon_ms: int,
        losses_accepted: Mapping[int, int],
    ) -> None:
        self._log = log
        self._usage = usage
        self._progress = progress
        self._open_seen = open_seen
        self._horizon_ms = horizon_ms
        self._losses_accepted = losses_accepted
        self._bulks = asyncio.Semaphore(SEEN_BULKS_MAX)
        self.catching_up: dict[int, CatchUp] = {}

    async def prepared(self, number: int) -> Partition:
        """A partition with its seen store open. Raises `Unavailable`, and `LogTruncated`."""
        layout = await self.laid_out()
        await self._check_begun(layout, number)
        seen = self._open_seen(number)
        try:
            while True:  # again, after what may have taken minutes
                seal = await self._progress.last_seal(self._log.number, number)
                start, end = await self._start_of(number, seal, seen, layout.first(number))
                if seen.applied >= start:
                    break
                await self._catch_up(layout, number, seal, seen, start)
            # asked last: what is sealed behind a mark was so after the mark was recorded
            passed = await self._progress.marks(self._log.number)
            inherited_ms = 0 if seal is not None else await self._reached(layout, number, passed)
        except SeenDamaged:
            seen.discard()
            raise
        except BaseException:
            seen.close()
            raise
        partition = Partition(self._log.number, number, start, seen)
        partition.append_ms = inherited_ms if seal is None else seal.append_ms
        partition.routes = routes_at(passed, number, start)
        partition.log_end = end
        return partition

    async def laid_out(self) -> Layout:
        """How the log is laid out; it counts so from now on."""
        return await laid_out(self._log, self._progress.layout)

    async def _check_begun(self, layout: Layout, number: int) -> None:
        """Raise `WaitsForParent` while the parent of a partition is not sealed up to the mark
        behind which events belong to the new one: their copies would not be known.
        """
        check_known(layout, number)
        growth, log = layout.growth_of(number), self._log
        if growth is None:
            return
        parent = number % growth.before
        mark = (await self._progress.marks(log.number)).get((parent, growth.partitions))
        if mark is not None:
            seal = await self._progress.last_seal(log.number, parent)
            found = await log.read(parent, 0 if seal is None else seal.end, 1)
            if not found or found[0].offset >= mark:
                return
        raise WaitsForParent(
            f"partition {number} takes over from partition {parent}, which is not counted yet up to"
            f" where the log got {growth.partitions} partitions"
        )

    async def _reached(
        self, layout: Layout, number: int, passed: Mapping[tuple[int, int], int]
    ) -> int:
        """The append time that the history of a partition had reached where the partition came. Its
        own go on from there: keys that it takes over are not appended after its first records.
        """
        growth = layout.growth_of(number)
        if growth is None:
            return 0
        parent = number % growth.before
        mark = passed.get((parent, growth.partitions), 0)
        append_ms = await self._progress.append_ms_before(self._log.number, parent, mark)
        return append_ms or await self._reached(layout, parent, passed)

    async def _start_of(
        self, number: int, seal: Seal | None, seen: SeenStore, first: int
    ) -> tuple[int, int]:
        """Where to start, and where the log ends."""
        log = self._log
        counted = (await self._progress.flushed_ends(log.number, 0)).get(number, 0)
        reached = max(seen.applied, first if seal is None else seal.end)
        end = await check_same_log(log, number, seal, max(reached, counted))
        losses = self._losses_accepted
        start = await start_of(log, self._usage, self._progress, number, reached, losses)
        return start, end

    async def _catch_up(
        self, layout: Layout, number: int, seal: Seal | None, seen: SeenStore, start: int
    ) -> None:
        """What was appended more than a horizon before the last sealed event is left out: nothing
        that comes can repeat it, since append times of a partition do not step back. A partition
        that came with a growth takes in the keys that its parents had for it, before its own.
        """
        from_ms = 0 if seal is None else seal.append_ms - self._horizon_ms
        try:
            async with self._bulks:
                at = self.catching_up[number] = CatchUp()
                for part in layout.history(number, seen.applied, start):
                    lacks = SeenSpan(
                        self._log.number,
                        part.partition,
                        part.first,
                        part.end,
                        from_ms,
                        EVER_MS,
                        part.partitions,
                        number % part.partitions,
                    )
                    await caught_up_seen(self._usage, lacks, seen, self._horizon_ms, at)
        finally:
            self.catching_up.pop(number, None)


def check_known(layout: Layout, number: int) -> None:
    """Raise `Unsuitable` for a partition that a log was given by other hands."""
    if number >= layout.partitions:
        raise Unsuitable(
            f"the log has a partition {number}, and {layout.partitions} partitions are registered."
            " Partitions are added with `meterline migrate --partitions`: run it with the number"
            " that the topic has now"
        )


def routes_at(passed: Mapping[tuple[int, int], int], number: int, start: int) -> int:
    """By how many partitions the events of a partition belong to it, from an offset on; 0 where it
    met no mark before.
    """
    met = (it for (one, it), offset in passed.items() if one == number and offset < start)
    return max(met, default=0)


@dataclass(slots=True)
class CatchUp:
    """How many keys a seen store has taken in, of how many that it lacks."""

    keys: int = 0
    keys_total: int = 0


async def caught_up_seen(
    usage: UsageStore, lacks: SeenSpan, seen: SeenStore, horizon_ms: int, at: CatchUp
) -> None:
    """Take in the keys of a span: the seen store was lost, or is an older copy. All of them are in
    on return, or none. `at` is told how far that is.
    """
    extent = await usage.seen_extent(lacks)
    at.keys, at.keys_total = 0, extent.rows
    bulk = seen.bulk()
    try:
        for part in generations(lacks, extent, horizon_ms):
            rows = extent.rows if part == lacks else (await usage.seen_extent(part)).rows
            for low, high in shares(rows):
                keys = await usage.seen_keys(part, low, high)
                await bulk.add(keys)
                at.keys += len(keys) // SEEN_KEY_BYTES
        await bulk.finish(lacks.end)
    except BaseException:
        bulk.give_up()
        raise


def generations(lacks: SeenSpan, extent: SeenExtent, horizon_ms: int) -> Iterator[SeenSpan]:
    """The parts of a span with rows that lie in one multiple of the horizon each, older first."""
    if not extent.rows:
        return
    first, last = extent.first_ms // horizon_ms, extent.last_ms // horizon_ms
    if first == last:
        yield lacks
        return
    for number in range(first, last + 1):
        from_ms = max(lacks.from_ms, number * horizon_ms)
        to_ms = min(lacks.to_ms, (number + 1) * horizon_ms)
        yield lacks._replace(from_ms=from_ms, to_ms=to_ms)


def shares(rows: int) -> Iterator[tuple[int, int]]:
    """Spans of the first two bytes of keys, that so many rows are read by. Keys are hashes, so all
    of them have about as many.
    """
    count = min(max(1, -(-rows // SEEN_SHARE_KEYS)), _FIRSTS)
    ends = [_FIRSTS * number // count for number in range(count + 1)]
    return pairwise(ends)
