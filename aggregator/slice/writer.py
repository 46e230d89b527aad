"""The writer: one flush on its way to the usage store while the next is folded.

A flush that failed is kept and written again, before anything else; so rows are never dropped, and
what was promised as flushed is only what the store has acknowledged.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Final, NamedTuple

from aggregator.slice.partition import Partition
from aggregator.slice.tracing import CountedTraces, Traced
from meterline.event import Verdict
from meterline.ports import SILENT, Recorder, metrics
from meterline.usage import Flush, ProgressStore, UsageStore

_TABLES: Final = tuple(one.name for one in fields(Flush))


class Reached(NamedTuple):
    """How far a partition is when a flush is durable.

    Where its slice was dropped meanwhile (`epoch`), rows are still true, but nothing is claimed.
    """

    partition: Partition
    epoch: int
    end: int


class Writer:
    """Writes flushes one after the other. Not for use by two tasks at once."""

    def __init__(
        self,
        usage: UsageStore,
        progress: ProgressStore,
        traces: CountedTraces,
        recorder: Recorder = SILENT,
    ) -> None:
        self._recorder = recorder
        self._usage = usage
        self._progress = progress
        self._flush: Flush | None = None  # not known to be durable
        self._reached: Sequence[Reached] = ()
        self._catalogue = -1
        self._task: asyncio.Task[None] | None = None
        self._traces = traces
        self._traced: Sequence[Traced] = ()

    @property
    def busy(self) -> bool:
        """Whether a flush is on its way right now."""
        return self._task is not None and not self._task.done()

    @property
    def owes(self) -> bool:
        """Whether there is a flush that is not known to be durable."""
        return self._flush is not None

    def start(self, flush: Flush, reached: Sequence[Reached], catalogue: int) -> None:
        """Begin to write; what was begun before must be finished."""
        assert not self.owes, "one flush at a time"
        self._traced = self._traces.take_out()
        self._flush, self._reached, self._catalogue = flush, reached, catalogue
        self._task = asyncio.create_task(self._write(flush))

    async def finish(self) -> None:
        """Return when nothing is owed. Raises `Unavailable`: call again, the rows are kept."""
        if self._flush is None:
            return
        task, self._task = self._task, None
        if task is None:
            task = asyncio.create_task(self._write(self._flush))
        await task
        for partition, epoch, end in self._reached:
            if partition.epoch == epoch:
                partition.flushed_end = max(partition.flushed_end, end)
                partition.recorded = (self._catalogue, end)
        self._flush, self._reached = None, ()

    async def abandon(self) -> None:
        """Wait for what is on its way, however it ends, and owe nothing."""
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # it was asked for: nobody else will
        self._flush, self._reached, self._task = None, (), None

    async def _write(self, flush: Flush) -> None:
        time_s = asyncio.get_running_loop().time
        began_s, began_ns = time_s(), self._traces.tracer.now_ns()
        if flush.accounts:
            await self._usage.write(flush)
        current = [it for it in self._reached if it.partition.epoch == it.epoch]
        if current:
            ends = {it.partition.number: it.end for it in current}
            await self._progress.flushed(current[0].partition.log, self._catalogue, ends)
        if flush.accounts:
            self._recorder.observe(metrics.FLUSH_SECONDS, time_s() - began_s)
            _tell(self._recorder, flush)
            self._traces.tell(self._traced, began_ns, len(flush.events))


def _tell(recorder: Recorder, flush: Flush) -> None:
    """What a flush made durable."""
    verdicts = Counter(row.kind for row in flush.rejects)
    verdicts[Verdict.NEW.value] = len(flush.events)
    for verdict, events in verdicts.items():
        if events:
            recorder.count(metrics.VERDICTS, events, verdict)
    for table in _TABLES:
        if rows := len(getattr(flush, table)):
            recorder.count(metrics.FLUSH_ROWS, rows, table)
    if flush.events:
        recorder.observe(metrics.TALLIES_PER_EVENT, len(flush.tallies) / len(flush.events))
