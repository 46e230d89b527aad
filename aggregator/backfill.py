"""Backfill: a new meter revision is filled in from the raw events of slices sealed before it
(docs/architecture.md, "Meters that change").
"""

import asyncio
from collections.abc import Mapping

from msgspec import structs

from aggregator.slice.fold import SliceFold
from meterline.event import Event, decode_event, is_erased, position
from meterline.limits import BACKFILL_YIELD_EVENTS
from meterline.meter import Catalogue, Meter, measures_of
from meterline.ports import Unavailable
from meterline.usage import Flush, ProgressStore, Seal, SliceId, UsageStore, late_before, late_rows


async def backfilled_one(
    usage: UsageStore, progress: ProgressStore, catalogue: Catalogue, log: int, number: int
) -> bool:
    """Fill the oldest slice of a partition that lacks a meter's revision; False where none does.

    The rows are those that the live fold would have written, so a killed or doubled backfill does
    no harm.
    """
    meters = {meter.revision: meter for meter in catalogue.meters}
    filled: list[int] = []
    due: tuple[Meter, Seal] | None = None
    for revision in await progress.unsettled(log, number, list(meters)):
        seals = await progress.unfilled(log, number, revision, 1)
        if seals:
            due = meters[revision], seals[0]
            break
        filled.append(revision)
    if filled:
        await progress.settle(log, number, filled)
    if due is None:
        return False
    await _fill(usage, progress, *due)
    return True


async def _fill(usage: UsageStore, progress: ProgressStore, meter: Meter, seal: Seal) -> None:
    """A slice whose events are not kept any more holds nothing of a revision that is newer: that is
    known of it, and answers say so.
    """
    slice_id = SliceId(seal.log, seal.partition, seal.slice)
    if seal.events and seal.append_ms >= await progress.counted_from(meter.revision):
        erased = await progress.erased_from(slice_id, meter.revision)
        made = await refolded(usage, slice_id, meter, erased=erased)
        # Once somebody else has filled it, its events may have been erased before they were read.
        left = await progress.unfilled(seal.log, seal.partition, meter.revision, 1)
        if not left or left[0].slice != seal.slice:
            return
        await usage.write(made)
    await progress.mark_filled(slice_id, meter.revision)


def _left(event: Event, erased: Mapping[str, str]) -> Event:
    """What is left of an event once its subject is erased."""
    if event.subject not in erased:
        return event
    return structs.replace(event, subject=erased[event.subject], data=None)


async def refolded(
    usage: UsageStore,
    slice_id: SliceId,
    meter: Meter,
    upto: int | None = None,
    *,
    unerased: bool = False,
    erased: Mapping[str, str] | None = None,
) -> Flush:
    """The rows of a meter in a slice, made from its raw events; of an open one, up to a position.
    Events of `erased` subjects that came back count as what was left of them: without data, under
    these pseudonyms. Raises `Unavailable` where they must be `unerased`, and some are not: they
    would make other rows than before.
    """
    fold = SliceFold(slice_id, measures_of(Catalogue(meter.revision, (meter,))))
    rows = await usage.slice_events(slice_id, [(meter.namespace, meter.event_type)])
    if unerased and any(is_erased(row.text) for row in rows):
        raise Unavailable("a subject of this slice was erased meanwhile")
    for count, row in enumerate(rows):
        if count % BACKFILL_YIELD_EVENTS == 0:
            await asyncio.sleep(0)
        at = position(row.offset, row.place)
        if upto is None or at <= upto:
            fold.add(_left(decode_event(row.text), erased or {}), at)
    tallies, members, rejected = fold.take()
    before = late_before(rows[0].append_ms) if rows else 0
    return Flush(
        tallies=tallies,
        members=members,
        rejected=rejected,
        late_tallies=late_rows(tallies, before),
        late_members=late_rows(members, before),
    )
