"""Lives of aggregator workers: the production shells over simulated ports."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aggregator.catch_up import LogTruncated
from aggregator.completeness import Completeness, InboxDrained
from aggregator.drivers.poll_worker import PollWorker
from aggregator.housekeeping import Housekeeping, Intervals
from aggregator.retention import Retention
from aggregator.slice.flush_due import FlushBounds
from aggregator.slice.sealing import CountBackDiffers, SealRests
from aggregator.step import Aggregator
from meterline.event import Log
from meterline.limits import (
    CLOCK_SKEW_MS,
    FLUSH_BYTES,
    POLL_BUSY_S,
    PRODUCE_DEADLINE_MS,
    SLICE_EVENTS_MAX,
)
from meterline.meter import CatalogueStore
from meterline.ports import Clock
from meterline.usage import ProgressStore, SeenStore, UsageStore
from tests.simulation.profile import Profile
from tests.simulation.stores import Volume

LAG_MS = PRODUCE_DEADLINE_MS + CLOCK_SKEW_MS
PRESSING_EVENTS = 4  # behind a slice: its seal waits no longer. Slices are never full in here


class DiskFull(Exception):
    """The seen store cannot write."""


@dataclass(slots=True)
class Disk:
    """A worker's own disk: it outlives its processes, but may be lost, or come back older."""

    volumes: dict[int, Volume] = field(default_factory=dict)
    before: dict[int, list[Volume]] = field(default_factory=dict)

    def volume(self, number: int) -> Volume:
        return self.volumes.setdefault(number, Volume())

    def keep_copy(self, number: int, volume: Volume) -> None:
        self.before.setdefault(number, []).append(volume.copy())


@dataclass(frozen=True, slots=True)
class Ports:
    """All that an aggregator is made of, as one process reaches it."""

    log: Log
    usage: UsageStore
    progress: ProgressStore
    catalogue: CatalogueStore
    open_seen: Callable[[int], SeenStore]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is the same for every worker of a world."""

    horizon_ms: int
    retention_ms: int
    flush_events: int
    flush_interval_ms: int
    open_bytes: int
    aggregator: type[Aggregator] = Aggregator
    completeness: type[Completeness] = Completeness


def housekept(
    ports: Ports, terms: Terms, drained: InboxDrained | None, retention: Retention
) -> tuple[Aggregator, Housekeeping]:
    """The production parts, put together as the composition root does."""
    aggregator = terms.aggregator(
        ports.log, ports.usage, ports.progress, ports.catalogue, ports.open_seen, terms.horizon_ms
    )
    aggregator.sealer.rests = SealRests(late_part=SLICE_EVENTS_MAX / PRESSING_EVENTS)
    bounds = FlushBounds(terms.flush_interval_ms, terms.flush_events, FLUSH_BYTES)
    intervals = Intervals(bounds, terms.retention_ms, terms.open_bytes)
    completeness = terms.completeness(aggregator, LAG_MS, drained)
    return aggregator, Housekeeping(aggregator, completeness, intervals, retention)


async def _some_news(_timeout_s: float) -> None:
    """There may be some, soon."""
    await asyncio.sleep(POLL_BUSY_S)


async def poll(parts: tuple[Aggregator, Housekeeping], clock: Clock, stop: asyncio.Event) -> None:
    """The life of a worker on every partition."""
    aggregator, housekeeping = parts
    await PollWorker(aggregator, housekeeping, clock, _some_news).run(stop)


def may_end_so(error: BaseException | None, profile: Profile, *, restored: bool) -> bool:
    """Whether a worker may end with this: it is then started again. Whoever says that records of
    the log are lost must be right: they expired, or an older state was `restored`.
    """
    if error is None or isinstance(error, DiskFull):
        return True
    if isinstance(error, LogTruncated):
        return restored or bool(profile.expire_ms)
    if isinstance(error, CountBackDiffers):
        return profile.replicas_lag  # one that lags for long is as one that lost rows
    return isinstance(error, RuntimeError) and "but the log has more" in str(error)
