"""Mending slices: what the raw events and the log can prove is written again, and rows that they
disprove are deleted.

Nothing is rebuilt from events that are not proved: each must have its trace in `seen`, with its
identity and the check of its contents, and there must be as many as the seal says.
"""

import asyncio
from dataclasses import replace

from xxhash import xxh64_intdigest

from aggregator.audit.blocks import BlockAudit
from aggregator.audit.slices import SliceAudit, Slices, difference_of
from aggregator.backfill.fold import refolded
from meterline.audit import Chunk, UsageEvidence
from meterline.event import Event, Log, decode_event, decode_record, position
from meterline.limits import BACKFILL_YIELD_EVENTS
from meterline.meter import Meter
from meterline.usage import (
    CELL_TABLES,
    TEXTS,
    AccountRow,
    EventRow,
    Flush,
    Seal,
    SeenRow,
    SliceId,
    UsageStore,
)

REBUILDS_MAX = 3


class SliceRepair:
    """Mends sealed slices."""

    def __init__(
        self,
        log: Log,
        usage: UsageStore,
        evidence: UsageEvidence,
        audit: SliceAudit,
        blocks: BlockAudit,
    ) -> None:
        self._blocks = blocks
        self._log = log
        self._usage = usage
        self._evidence = evidence
        self._audit = audit

    async def mend(self, slices: Slices, seal: Seal, places: set[str]) -> bool:
        """Mend one slice as far as it can be; `places` are those with findings. Whether all of it
        was written anew, and nobody reads a block of what it was. Audit it again.
        """
        if slices.place(seal.slice) not in places:
            return False
        slice_id = SliceId(seal.log, seal.partition, seal.slice)
        if not await self._blocks.may_change(slice_id):
            return False
        if not await self._proved(slices.chunk, seal):
            return False
        await self._mend_account(slices, seal)
        meters = [it for it in slices.meters if seal.slice in it[1].slices]
        alone = replace(slices.chunk, slices=(seal.slice,))
        for meter, _ in await self._audit.concerned(alone, meters):
            await self.rebuild(slice_id, meter)
        return await self._blocks.withdraw(slice_id)

    async def rebuild(self, slice_id: SliceId, meter: Meter) -> None:
        """Write a meter's rows of a slice anew, by the code of backfill, then delete all others."""
        made = await refolded(self._usage, slice_id, meter, unerased=True)
        for _ in range(REBUILDS_MAX):
            await self._usage.write(made)
            if not await self._purged(slice_id, meter, made):
                return

    async def _purged(self, slice_id: SliceId, meter: Meter, made: Flush) -> bool:
        """Delete the rows that are not those made. True where there were some: a merge may have
        dropped a right row for a wrong one of a greater version, so they are to be written again.
        """
        some = False
        for table in CELL_TABLES:
            text = TEXTS[table]
            due = {xxh64_intdigest(text(row)) for row in getattr(made, table)}
            there = await self._evidence.row_hashes(slice_id, table, meter.revision)
            if wrong := set(there) - due:
                await self._evidence.purge(slice_id, table, meter.revision, wrong)
                some = True
        return some

    async def purge(self, slice_id: SliceId, revisions: list[int]) -> None:
        """Delete every row of cells under the name of a slice that there is not."""
        for revision in revisions:
            for table in CELL_TABLES:
                there = await self._evidence.row_hashes(slice_id, table, revision)
                if there:
                    await self._evidence.purge(slice_id, table, revision, set(there))
        await self._blocks.withdraw(slice_id)

    async def _proved(self, chunk: Chunk, seal: Seal) -> bool:
        """Whether the slice's events are all there and as they were counted, once what can be had
        from the log, or from each other, is written again.
        """
        slice_id = SliceId(seal.log, seal.partition, seal.slice)
        seen_rows = await self._audit.seen_rows(chunk, seal.slice)
        rows = await self._usage.slice_events(slice_id)
        events = {(row.offset, row.place): row for row in rows}
        for at in sorted(seen_rows.keys() - events.keys()):
            event = await self._in_log(seen_rows[at])
            if event is None:
                return False
            events[at] = _event_row(seen_rows[at], event)
            await self._usage.write(Flush(events=[events[at]]))
        if len(events) != seal.events:
            return False
        for count, (at, row) in enumerate(sorted(events.items())):
            if count % BACKFILL_YIELD_EVENTS == 0:
                await asyncio.sleep(0)
            seen_row = seen_rows.get(at)
            if seen_row is None:
                seen_row = _trace_of(row)
                if seen_row is None:
                    return False
                await self._usage.write(Flush(seen=[seen_row]))
            if difference_of(row, seen_row) is not None:
                return False
        return True

    async def _in_log(self, seen_row: SeenRow) -> Event | None:
        """The event of a trace as the log still holds it."""
        if seen_row.log != self._log.number:
            return None
        for record in await self._log.read(seen_row.partition, seen_row.offset, 1):
            items = decode_record(record)
            if record.offset != seen_row.offset or seen_row.place >= len(items):
                return None
            item = items[seen_row.place]
            if isinstance(item, Event) and (item.key, item.check) == (seen_row.key, seen_row.check):
                return item
        return None

    async def _mend_account(self, slices: Slices, seal: Seal) -> None:
        """An account that is gone, or cannot be true, is counted from the rows."""
        kept = await self._evidence.kept(slices.chunk)
        rows = {one.what: one.rows for one in kept if one.slice == seal.slice}
        account = next((one for one in slices.accounts if one.slice == seal.slice), None)
        if account is not None and _can_be_true(account, seal):
            return
        passed_over = [rows.get(kind, 0) for kind in ("duplicate", "conflict", "invalid")]
        last = await self._last_position(slices.chunk, seal)
        counted = AccountRow(
            seal.log,
            seal.partition,
            seal.slice,
            last,
            seal.events + sum(passed_over),
            seal.events,
            *passed_over,
        )
        await self._evidence.purge_account(SliceId(seal.log, seal.partition, seal.slice))
        await self._usage.write(Flush(accounts=[counted]))

    async def _last_position(self, chunk: Chunk, seal: Seal) -> int:
        """The last position of a slice; of a pack that ended in refusals, where its events end."""
        slice_id = SliceId(seal.log, seal.partition, seal.slice)
        rows = await self._usage.slice_events(slice_id)
        last = [row.place for row in rows if row.offset == seal.end - 1]
        assert chunk.end >= seal.end, "it lies within"
        return position(seal.end - 1, max(last, default=0))


def _can_be_true(account: AccountRow, seal: Seal) -> bool:
    total = account.new + account.duplicate + account.conflict + account.invalid
    ends = position(seal.end - 1, 0) <= account.version < position(seal.end, 0)
    return account.received == total and account.new == seal.events and ends


def _event_row(seen_row: SeenRow, event: Event) -> EventRow:
    return EventRow(
        *seen_row[:7],
        event.namespace,
        event.type,
        event.subject,
        event.source,
        event.id,
        event.time_ms,
        event.recorded_ms,
        event.text,
    )


def _trace_of(row: EventRow) -> SeenRow | None:
    try:
        event = decode_event(row.text)
    except (ValueError, RecursionError, OverflowError):
        return None
    return SeenRow(*row[:7], event.check) if event.key == row.key else None
