"""Raw events of sealed slices, folded once more: for the revisions that a slice lacks, and for
audits. The rows are those that the live fold would have written.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from aggregator.slice.background import Background
from aggregator.slice.fold import SliceFold
from meterline.event import Event, decode_event, is_erased, position
from meterline.limits import BACKFILL_YIELD_EVENTS
from meterline.meter import Catalogue, Meter, measures_of
from meterline.ports import Unavailable
from meterline.usage import Flush, RawEvent, Seal, SliceId, UsageStore, late_before, late_rows

LOOKED_EVERY: Final = 16  # events: to look at the time costs as much as a part of folding one
_NOBODY: Final[Mapping[str, str]] = {}


class Refold:
    """Slices of one partition, one after the other, into the rows of some meters. Events of
    subjects that are `erased` (by namespace: their pseudonyms) and came back count as what was left
    of them: without data, under these pseudonyms.
    """

    def __init__(
        self,
        log: int,
        partition: int,
        meters: Sequence[Meter],
        erased: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        newest = max(meter.revision for meter in meters)
        self._measures = measures_of(Catalogue(newest, tuple(meters)))
        self._erased = erased or {}
        self._log, self._partition = log, partition
        self._fold: SliceFold | None = None
        self._late_before = 0
        self._made = Flush()

    def add(self, slice_: int, append_ms: int, at: int, text: bytes) -> None:
        """The next event, by position."""
        if self._fold is None or self._fold.id.slice != slice_:
            self._finish()
            self._fold = SliceFold(SliceId(self._log, self._partition, slice_), self._measures)
            self._late_before = late_before(append_ms)
        event = decode_event(text)
        self._fold.add(_left(event, self._erased.get(event.namespace, _NOBODY)), at)

    def rows(self) -> Flush:
        """All of them, at the end."""
        self._finish()
        return self._made

    def _finish(self) -> None:
        if self._fold is None:
            return
        tallies, members, rejected = self._fold.take()
        before, self._fold = self._late_before, None
        self._made.extend(
            Flush(
                tallies=tallies,
                members=members,
                rejected=rejected,
                late_tallies=late_rows(tallies, before),
                late_members=late_rows(members, before),
            )
        )


def _left(event: Event, erased: Mapping[str, str]) -> Event:
    """What is left of an event once its subject is erased."""
    if event.subject not in erased:
        return event
    return structs.replace(event, subject=erased[event.subject], data=None)


async def refolded_together(
    usage: UsageStore,
    seals: Sequence[Seal],
    meters: Sequence[Meter],
    gone: Iterable[tuple[str, str, str]],
    background: Background,
) -> Flush:
    """The rows of meters in slices of one partition: each raw event is read and decoded once. Of
    `gone` see `Lacking.erased`.
    """
    erased: dict[str, dict[str, str]] = {}
    for namespace, subject, pseudonym in gone:
        erased.setdefault(namespace, {})[subject] = pseudonym
    log, partition = seals[0].log, seals[0].partition
    fold = Refold(log, partition, meters, erased)
    slices = [seal.slice for seal in seals if seal.events]
    types = sorted({(meter.namespace, meter.event_type) for meter in meters})
    async for portion in usage.raw_events(log, partition, slices, seals[-1].end, types):
        for count, event in enumerate(portion):
            if count % LOOKED_EVERY == 0:
                await background.give_way(now=False)
            _take(fold, event)
        await background.give_way()
    return fold.rows()


def _take(fold: Refold, event: RawEvent) -> None:
    fold.add(event.slice, event.append_ms, position(event.offset, event.place), event.text)


async def refolded(
    usage: UsageStore,
    slice_id: SliceId,
    meter: Meter,
    upto: int | None = None,
    *,
    unerased: bool = False,
) -> Flush:
    """The rows of a meter in a slice, made from its raw events; of an open one, up to a position.
    Raises `Unavailable` where they must be `unerased`, and some are not: they would make other rows
    than before.
    """
    fold = Refold(slice_id.log, slice_id.partition, [meter])
    rows = await usage.slice_events(slice_id, [(meter.namespace, meter.event_type)])
    if unerased and any(is_erased(row.text) for row in rows):
        raise Unavailable("a subject of this slice was erased meanwhile")
    for count, row in enumerate(rows):
        if count % BACKFILL_YIELD_EVENTS == 0:
            await asyncio.sleep(0)
        at = position(row.offset, row.place)
        if upto is None or at <= upto:
            fold.add(row.slice, row.append_ms, at, row.text)
    return fold.rows()
