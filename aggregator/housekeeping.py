"""What a worker does between records, by the clock it is given: flush, new catalogues, completeness, backfill."""

from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.backfill import backfilled_one
from aggregator.completeness import Completeness
from aggregator.step import Aggregator
from meterline.limits import CATALOGUE_POLL_MS, CLAIM_INTERVAL_MS


@dataclass(frozen=True, slots=True)
class Pace:
    """When a flush is due, whichever comes first."""

    flush_interval_ms: int
    flush_events: int


class Housekeeping:
    """Call `tick` often; it does what is due. Raises `Unavailable`: tick again after a while."""

    def __init__(self, aggregator: Aggregator, completeness: Completeness, pace: Pace) -> None:
        self._aggregator = aggregator
        self._completeness = completeness
        self._pace = pace
        self._flushed_ms = 0
        self._catalogue_ms = 0
        self._claimed_ms = 0

    async def tick(self, now_ms: int, *, idle: bool) -> bool:
        """Do what is due at `now_ms`; True where it did something. Backfill waits until the worker is idle
        or a flush was just written, so that it never starves live events nor is starved by them."""
        aggregator = self._aggregator
        did = False
        if now_ms - self._catalogue_ms >= CATALOGUE_POLL_MS:
            did = await aggregator.refresh_catalogue()
            self._catalogue_ms = now_ms
        flushed = await self._flush_if_due(now_ms)
        if now_ms - self._claimed_ms >= CLAIM_INTERVAL_MS:
            for number in list(aggregator.partitions):
                await self._completeness.probe(number, now_ms)
            self._claimed_ms = now_ms
        await self._completeness.claim()
        if idle or flushed:
            did |= await self._backfill(list(aggregator.partitions))
        return did or flushed

    async def _flush_if_due(self, now_ms: int) -> bool:
        pending = self._aggregator.unflushed_events
        late = now_ms - self._flushed_ms >= self._pace.flush_interval_ms
        behind = any(
            p.flushed_end < p.next_offset for p in self._aggregator.partitions.values()
        )
        if pending < self._pace.flush_events and not (late and behind):
            return False
        await self._aggregator.flush()
        self._flushed_ms = now_ms
        return True

    async def _backfill(self, numbers: Sequence[int]) -> bool:
        aggregator = self._aggregator
        for number in numbers:
            if await backfilled_one(
                aggregator.usage,
                aggregator.progress,
                aggregator.catalogue,
                aggregator.log.number,
                number,
            ):
                return True
        return False
