"""Backfill: new meter revisions are filled in from slices sealed before them, many slices and all
the revisions that lack them in one step (docs/architecture.md, "Meters that change").
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from aggregator.backfill.fold import refolded_together
from aggregator.catalogue_debounce import passed
from aggregator.slice.background import Background
from aggregator.slice.partition import Partition
from aggregator.step import Aggregator
from meterline.limits import (
    FILL_EVENTS_MAX,
    FILL_FOLDS_MAX,
    FILL_JOIN_MS,
    FILL_JOIN_MS_MAX,
    FILL_LOOK_MS,
    FILL_REVISIONS_MAX,
    FILL_SLICES_MAX,
    FILL_WAIT_MS,
    FILL_WRITE_ROWS,
)
from meterline.meter import Catalogue
from meterline.ports import Unavailable
from meterline.usage import CELL_TABLES, Flush, Lacking, ProgressStore, Seal, UsageStore

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StepBounds:
    """How much one step takes at most; always one slice and one revision at least."""

    slices: int = FILL_SLICES_MAX
    events: int = FILL_EVENTS_MAX
    folds: int = FILL_FOLDS_MAX  # events, each for so many meters
    revisions: int = FILL_REVISIONS_MAX


@dataclass(frozen=True, slots=True)
class FillStores:
    """Where slices are filled in, of one log."""

    usage: UsageStore
    progress: ProgressStore
    log: int
    bounds: StepBounds = StepBounds()


class Looked(NamedTuple):
    """What a step came to: whether it did something, and whether nothing lacks anything now."""

    did: bool
    settled: bool


async def begun(stores: FillStores, catalogue: Catalogue, number: int, now_ms: int) -> int:
    """Find out how much a partition lacks, and keep it in mind for people; how many revisions it
    may have to be filled in for. Raises `Unavailable`.
    """
    asked = await _unsettled(stores, catalogue, number)
    await stores.progress.begin_filling(stores.log, number, asked, now_ms)
    return len(asked)


async def backfilled_some(
    stores: FillStores, catalogue: Catalogue, number: int, now_ms: int, background: Background
) -> Looked:
    """Fill in the next slices of a partition, for all the revisions that lack them. What is
    withheld because of an erasure is neither done nor settled: ask again.

    The rows are those that the live fold would have written, so a killed or doubled step does no
    harm. Raises `Unavailable`.
    """
    progress, log = stores.progress, stores.log
    asked = await _unsettled(stores, catalogue, number)
    if not asked:
        return Looked(did=False, settled=True)
    most = stores.bounds.revisions
    for first in range(0, len(asked), most):
        some = asked[first : first + most]
        found = await progress.lacking(log, number, some, stores.bounds.slices)
        if found:
            await _fill(stores, catalogue, number, some, found, now_ms, background)
            return Looked(did=True, settled=False)
        await progress.settle(log, number, some)
    return Looked(did=False, settled=False)


async def _unsettled(stores: FillStores, catalogue: Catalogue, number: int) -> list[int]:
    revisions = [meter.revision for meter in catalogue.meters]
    return sorted(await stores.progress.unsettled(stores.log, number, revisions))


class Run(NamedTuple):
    """Slices that lack the same revisions, and those of these that count their events."""

    slices: list[Seal]
    revisions: tuple[int, ...]
    counting: tuple[int, ...]
    erased: tuple[tuple[str, str, str], ...]


def next_run(found: Sequence[Lacking], bounds: StepBounds) -> Run:
    """The first of these slices that lack the same revisions, within bounds (pure). Where a slice
    has many events, its oldest revisions are taken first.
    """
    first = found[0]
    chosen = first.revisions[: max(1, bounds.folds // max(1, first.seal.events))]
    run = Run([], chosen, (), first.erased)
    events = 0
    for one in found[: bounds.slices]:
        revisions, counting = _among(one.revisions, chosen), _among(one.counting, chosen)
        if events and one.seal.events and counting != run.counting:
            break
        if one.seal.events and not events:
            run = run._replace(counting=counting)
        events += one.seal.events
        within = events <= bounds.events and events * len(chosen) <= bounds.folds
        fits = (revisions, one.erased) == (chosen, run.erased) and within
        if run.slices and not fits:
            break
        run.slices.append(one.seal)
    return run


def _among(revisions: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...]:
    return chosen if revisions == chosen else tuple(it for it in revisions if it in chosen)


async def _fill(
    stores: FillStores,
    catalogue: Catalogue,
    number: int,
    asked: Sequence[int],
    found: Sequence[Lacking],
    now_ms: int,
    background: Background,
) -> None:
    """A slice whose events are not kept any more holds nothing of a revision that is newer: that is
    known of it, and answers say so.
    """
    progress, log, bounds = stores.progress, stores.log, stores.bounds
    run = next_run(found, bounds)
    if run.counting:
        meters = [it for it in catalogue.meters if it.revision in run.counting]
        made = await refolded_together(stores.usage, run.slices, meters, run.erased, background)
        # Once somebody else has filled them, their events may have been erased before they were
        # read, or while they were.
        left = await progress.lacking(log, number, asked, bounds.slices)
        if not left or next_run(left, bounds) != run:
            return
        for portion in portions(made, FILL_WRITE_ROWS):
            await background.give_way()
            await stores.usage.write(portion)
    slices = [seal.slice for seal in run.slices]
    await progress.mark_filled(log, number, slices, run.revisions, now_ms)
    await background.give_way()


def portions(made: Flush, rows_max: int) -> Iterator[Flush]:
    """The rows of cells of a flush, so many of each table at a time (pure)."""
    first = 0
    while True:
        tables = {name: getattr(made, name)[first : first + rows_max] for name in CELL_TABLES}
        if not any(tables.values()):
            return
        yield Flush(**tables)
        first += rows_max


class _Seen(NamedTuple):
    """What a partition was when it was looked at, when that was, and what came of it."""

    catalogue: int
    left: int
    at_ms: int
    settled: bool


class _Joins(NamedTuple):
    """The catalogue changed, and meters that are made next may join."""

    since_ms: int
    last_ms: int

    def over(self, now_ms: int) -> bool:
        last = passed(now_ms, self.last_ms, FILL_JOIN_MS)
        return last or passed(now_ms, self.since_ms, FILL_JOIN_MS_MAX)


class Backfill:
    """Fills in the partitions of one worker, beside counting. Call `turn` again and again, from one
    task.

    It is asked whether anything lacks when a partition is taken on, when the catalogue changes and
    where somebody else has sealed a slice; besides that seldom.
    """

    def __init__(self, aggregator: Aggregator, bounds: StepBounds | None = None) -> None:
        self._aggregator = aggregator
        self._bounds = bounds or StepBounds()
        self._background = Background()
        self._seen: dict[Partition, _Seen] = {}
        self._joins: _Joins | None = None
        self._after = -1  # the partition that had the last turn

    async def turn(self, now_ms: int) -> bool:
        """A step, of the next partition that lacks something; False where there is nothing to do
        for now. Raises `Unavailable`: call again after a while.
        """
        aggregator = self._aggregator
        owned, catalogue = aggregator.partitions, aggregator.catalogue
        self._seen = {it: seen for it, seen in self._seen.items() if it in owned.values()}
        if catalogue.version < 0:
            return False
        self._background.begin()
        await self._begin(catalogue, now_ms)
        if self._joins is not None and not self._joins.over(now_ms):
            return False
        self._joins = None
        for number in sorted(owned, key=lambda it: (it <= self._after, it)):
            partition = owned.get(number)  # it may have been given up meanwhile
            if partition in self._seen and self._due(partition, catalogue, now_ms):
                self._after = number
                if await self._step(partition, catalogue, now_ms):
                    return True
        return False

    def _due(self, partition: Partition, catalogue: Catalogue, now_ms: int) -> bool:
        seen = self._seen.get(partition)
        if seen is None or (seen.catalogue, seen.left) != (catalogue.version, partition.left):
            return True
        return passed(now_ms, seen.at_ms, FILL_LOOK_MS if seen.settled else FILL_WAIT_MS)

    async def _begin(self, catalogue: Catalogue, now_ms: int) -> None:
        """Find out how much is to be filled in, of all partitions before the first step of any: the
        end is expected by that. Meters are often made one after another. Where there is much, the
        first of them waits for the others, so that they are filled in together.
        """
        began, lacks = dict(self._seen), {}
        for number, partition in list(self._aggregator.partitions.items()):
            seen = began.get(partition)
            begins = seen is None or seen.settled or seen.catalogue != catalogue.version
            if begins and self._due(partition, catalogue, now_ms):
                left = partition.left
                lacks[number] = await self._begun(catalogue, number, now_ms)
                # what lacks some is due at once
                at_ms = now_ms - FILL_WAIT_MS if lacks[number] else now_ms
                self._seen[partition] = _Seen(catalogue.version, left, at_ms, not lacks[number])
        changed = any(seen.catalogue != catalogue.version for seen in began.values())
        idle = all(seen.settled for seen in began.values())
        if changed and (self._joins or idle) and await self._is_much(lacks):
            since_ms = self._joins.since_ms if self._joins else now_ms
            self._joins = _Joins(since_ms, now_ms)

    async def _begun(self, catalogue: Catalogue, number: int, now_ms: int) -> int:
        """Only what people are told depends on it: where it fails, the partition has its steps."""
        try:
            return await begun(self._stores, catalogue, number, now_ms)
        except Unavailable as error:
            logger.warning("backfill_not_told", partition=number, reason=str(error))
            return 1

    async def _is_much(self, lacks: Mapping[int, int]) -> bool:
        """Whether a partition takes more than a step, by how many revisions each of them lacks."""
        if not any(lacks.values()):
            return False
        bounds = self._bounds
        return any(
            one.slices_left > bounds.slices * lacks[one.partition]
            or one.events_left > bounds.events * lacks[one.partition]
            for one in await self._stores.progress.fillings(self._stores.log)
            if lacks.get(one.partition)
        )

    @property
    def _stores(self) -> FillStores:
        it = self._aggregator
        return FillStores(it.usage, it.progress, it.log.number, self._bounds)

    async def _step(self, partition: Partition, catalogue: Catalogue, now_ms: int) -> bool:
        number, left = partition.number, partition.left
        looked = await backfilled_some(self._stores, catalogue, number, now_ms, self._background)
        # One that did something is due at once.
        at_ms = now_ms - FILL_WAIT_MS if looked.did else now_ms
        self._seen[partition] = _Seen(catalogue.version, left, at_ms, looked.settled)
        return looked.did
