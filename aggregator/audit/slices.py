"""What an audit asks of slices: rows against the account, events against their traces, and every
meter's cells against a recount (docs/architecture.md).
"""

import asyncio
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from aggregator.backfill.fold import refolded
from meterline.audit import (
    ABSENT,
    ERASED,
    PRESENT,
    AuditStep,
    CellDifference,
    CellRows,
    Chunk,
    Finding,
    Kept,
    Recount,
    Strange,
    TallyValues,
    UsageEvidence,
    cell_named,
    described,
    values_of,
)
from meterline.event import Event, Verdict, decode_event, is_erased, offset_of
from meterline.limits import AUDIT_FINDINGS_MAX, AUDIT_METERS_UNASKED, BACKFILL_YIELD_EVENTS
from meterline.meter import Meter, decode_groups
from meterline.usage import (
    EVENTS,
    REJECTS,
    SEEN,
    AccountRow,
    EventRow,
    Flush,
    Seal,
    SeenRow,
    SliceId,
    UsageStore,
)

_PASSED_OVER = (Verdict.DUPLICATE.value, Verdict.CONFLICT.value, Verdict.INVALID.value)
_THERE = TallyValues(0, 0, 0, 0, 0, 0, 0, 0, b"", 0)


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices of one partition that are audited together, and what is known of them.

    `meters` are those whose cells they must hold, each with the slices and up to which position.
    `gone` are the tables whose rows of these slices are not kept any more. Copies of events that
    came before `firsts_gone` may name a first one that is not kept.
    """

    chunk: Chunk
    seals: tuple[Seal, ...]
    accounts: tuple[AccountRow, ...]
    known: frozenset[int]  # slices that may have rows at these offsets
    meters: tuple[tuple[Meter, Chunk], ...]
    gone: frozenset[str] = frozenset()
    firsts_gone: bool = False

    def place(self, slice_: int) -> str:
        """A slice, as findings name it."""
        return f"{self.chunk.log}.{self.chunk.partition}.{slice_}"


_Row = TypeVar("_Row", bound=Hashable)


class SliceAudit:
    """Looks at slices; changes nothing."""

    def __init__(self, usage: UsageStore, evidence: UsageEvidence) -> None:
        self._usage = usage
        self._evidence = evidence

    async def findings(
        self,
        slices: Slices,
        step: AuditStep,
        *,
        payloads: bool,
        suspects: Collection[str] = frozenset(),
    ) -> list[Finding]:
        """Everything that differs. Slices in which something does are looked at more closely, and
        so are `suspects`, by their places.
        """
        kept = await self._evidence.kept(slices.chunk)
        step.erased += sum(one.rows for one in kept if one.what == ERASED)
        kept = [one for one in kept if one.what != ERASED]
        found = account_findings(slices) + row_findings(slices, kept)
        if not slices.gone & {EVENTS, SEEN}:
            strange = await self._evidence.strange(slices.chunk, AUDIT_FINDINGS_MAX)
            found += [
                _strange(slices, one)
                for one in strange
                if one.table != REJECTS or not slices.firsts_gone
            ]
        for meter, chunk in await self.concerned(slices.chunk, slices.meters):
            recount = await self._recounted(chunk, meter, step)
            found += [_cell(slices, meter, one) for one in recount.differences]
        suspects = {one.place for one in found} | set(suspects)
        for slice_ in slices.chunk.slices:
            if payloads or slices.place(slice_) in suspects:
                altered = await self.altered(slices.chunk, slice_)
                found += [_strange(slices, one) for one in altered]
        return list({one.key: one for one in found}.values())

    async def concerned(
        self, chunk: Chunk, meters: Sequence[tuple[Meter, Chunk]]
    ) -> Sequence[tuple[Meter, Chunk]]:
        """Those of the meters that have events or cells in a chunk: tenants may have thousands that
        have none.
        """
        if len(meters) <= AUDIT_METERS_UNASKED:
            return meters
        touched = await self._evidence.touched(chunk)
        return [(meter, one) for meter, one in meters if touched.has_any_of(meter)]

    async def _recounted(self, chunk: Chunk, meter: Meter, step: AuditStep) -> Recount:
        recount = await self._evidence.recount(chunk, meter, AUDIT_FINDINGS_MAX)
        step.cells += recount.cells
        step.moving += recount.moving
        for slice_ in recount.unsettled:
            slice_id = SliceId(chunk.log, chunk.partition, slice_)
            upto = chunk.upto if chunk.is_open else None
            made = await refolded(self._usage, slice_id, meter, upto)
            stored = await self._evidence.cells(slice_id, meter.revision, chunk.minutes_from)
            if erased := await self._erased(slice_id, meter):
                made, stored = _without(made, erased), _cells_without(stored, erased)
            recount.differences += cell_differences(made, stored, slice_, upto)
            step.folded += 1
        return recount

    async def _erased(self, slice_id: SliceId, meter: Meter) -> set[str]:
        """The pseudonyms of subjects whose events were erased: their cells are not recounted."""
        of = [(meter.namespace, meter.event_type)]
        rows = await self._usage.slice_events(slice_id, of)
        return {row.subject for row in rows if is_erased(row.text)}

    async def altered(self, chunk: Chunk, slice_: int) -> list[Strange]:
        """Events of a slice whose contents are not those that were counted."""
        slice_id = SliceId(chunk.log, chunk.partition, slice_)
        seen_rows = await self.seen_rows(chunk, slice_)
        found = []
        for count, row in enumerate(await self._usage.slice_events(slice_id)):
            if count % BACKFILL_YIELD_EVENTS == 0:
                await asyncio.sleep(0)
            seen_row = seen_rows.get((row.offset, row.place))
            if seen_row is None or is_erased(row.text):
                continue  # that is found without reading it
            expected = difference_of(row, seen_row)
            if expected is not None:
                found.append(Strange("events", slice_, row.offset, row.place, *expected))
        return found

    async def seen_rows(self, chunk: Chunk, slice_: int) -> dict[tuple[int, int], SeenRow]:
        """The first positions of a slice, by offset and place."""
        found: dict[tuple[int, int], SeenRow] = {}
        async for rows in self._usage.seen_between(chunk.log, chunk.partition, slice_, chunk.end):
            found.update(((r.offset, r.place), r) for r in rows if r.slice == slice_)
            if rows and rows[-1].slice > slice_:
                break
        return found


def _without(made: Flush, subjects: set[str]) -> Flush:
    return Flush(
        tallies=[row for row in made.tallies if row.subject not in subjects],
        members=[row for row in made.members if row.subject not in subjects],
        rejected=[row for row in made.rejected if row.subject not in subjects],
    )


def _cells_without(stored: CellRows, subjects: set[str]) -> CellRows:
    return CellRows(
        [row for row in stored.tallies if row.subject not in subjects],
        [row for row in stored.members if row.subject not in subjects],
        [row for row in stored.rejected if row.subject not in subjects],
    )


def difference_of(row: EventRow, seen_row: SeenRow) -> tuple[str, str] | None:
    """How an event differs from what was counted there: (expected, found)."""
    try:
        event: Event = decode_event(row.text)
    except (ValueError, RecursionError, OverflowError) as error:
        return f"contents with the check {seen_row.check.hex()}", f"unreadable: {error}"
    if event.key != seen_row.key or row.key != seen_row.key:
        return (
            f"the identity {seen_row.key.hex()}",
            f"{event.key.hex()} ({event.source}, {event.id})",
        )
    if event.check != seen_row.check:
        return f"contents with the check {seen_row.check.hex()}", event.check.hex()
    columns = (event.namespace, event.type, event.subject, event.time_ms, event.recorded_ms)
    if columns != (row.namespace, row.type, row.subject, row.time_ms, row.recorded_ms):
        return "columns as in its text", "others"
    return None


def account_findings(slices: Slices) -> list[Finding]:
    """What the accounts of slices say of themselves, and against their seals."""
    found = []
    by_slice = {account.slice: account for account in slices.accounts}
    for before, after in zip(slices.seals, slices.seals[1:], strict=False):
        if after.slice < before.end:
            place, expected = slices.place(after.slice), f"{before.end} or beyond"
            found.append(Finding("seals", place, "first offset", expected, str(after.slice)))
    for seal in slices.seals:
        account, place = by_slice.get(seal.slice), slices.place(seal.slice)
        if account is None:
            found.append(Finding("accounts", place, "account", PRESENT, ABSENT))
            continue
        end = offset_of(account.version) + 1
        for name, due, there in (
            ("new", seal.events, account.new),
            ("offset after the last", seal.end, end),
        ):
            if due != there:
                found.append(Finding("accounts", place, name, str(due), str(there)))
    for account in slices.accounts:
        total = account.new + account.duplicate + account.conflict + account.invalid
        if total != account.received:
            place = slices.place(account.slice)
            counts = str(total), str(account.received)
            found.append(Finding("accounts", place, "received", *counts))
    return found


def row_findings(slices: Slices, kept: Iterable[Kept]) -> list[Finding]:
    """Rows against the account; where that is gone, against the seal."""
    expected: dict[tuple[str, int], int] = {}
    for seal in slices.seals:
        expected[Verdict.NEW.value, seal.slice] = seal.events
    for account in slices.accounts:
        for one in Verdict:
            expected[one.value, account.slice] = getattr(account, one.value)
    there = {(one.what, one.slice): one.rows for one in kept}
    found = []
    for slice_ in slices.chunk.slices:
        for what in ("events", "seen", *_PASSED_OVER):
            verdict = what if what in _PASSED_OVER else Verdict.NEW.value
            due = expected.get((verdict, slice_))
            rows = there.get((what, slice_), 0)
            table, name = _table(what)
            if due is not None and due != rows and table not in slices.gone:
                found.append(Finding(table, slices.place(slice_), name, str(due), str(rows)))
    for (what, slice_), rows in there.items():
        if slice_ not in slices.known:
            table, name = _table(what)
            found.append(Finding(table, slices.place(slice_), name, "0: no such slice", str(rows)))
    return found


def _table(what: str) -> tuple[str, str]:
    return (what, "rows") if what in ("events", "seen") else ("rejects", f"rows of kind {what}")


def cell_differences(
    made: Flush, stored: CellRows, slice_: int, upto: int | None = None
) -> list[CellDifference]:
    """Rows that the fold makes against those that are stored; what is newer than `upto` is on its
    way.
    """
    due = {row[:4]: values_of(row) for row in made.tallies}
    there = {row[:4]: values_of(row) for row in stored.tallies}
    found = [
        CellDifference("tallies", slice_, *_split(cell), "", due.get(cell), there.get(cell))
        for cell in sorted(due.keys() | there.keys())
        if due.get(cell) != there.get(cell)
        and (upto is None or cell not in there or there[cell].version <= upto)
    ]
    if upto is not None:
        return found  # the others are told apart by no version
    for member, is_due in _apart(made.members, stored.members):
        cell = _split(member[:4])
        name = f"member {bytes(member.member).hex()}"
        found.append(_row("members", slice_, cell, name, is_due=is_due))
    for row, is_due in _apart(made.rejected, stored.rejected):
        name = f"event at {row.log}.{row.partition}.{row.offset}.{row.place}"
        cell = _split((row.revision, row.subject, row.groups, row.window))
        found.append(_row("rejected", slice_, cell, name, is_due=is_due))
    return found


def _apart(due: Iterable[_Row], there: Iterable[_Row]) -> list[tuple[_Row, bool]]:
    """Rows that are missing, then those that should not be there."""
    expected, found = set(due), set(there)
    missing = [(row, True) for row in expected - found]
    return missing + [(row, False) for row in found - expected]


def _split(cell: Sequence[object]) -> tuple[str, tuple[str, ...], int]:
    _, subject, groups, window = cell
    assert isinstance(subject, str)
    assert isinstance(groups, str)
    assert isinstance(window, int)
    return subject, tuple(decode_groups(groups)), window


def _row(
    table: str, slice_: int, cell: tuple[str, tuple[str, ...], int], name: str, *, is_due: bool
) -> CellDifference:
    due, there = (_THERE, None) if is_due else (None, _THERE)
    return CellDifference(table, slice_, *cell, name, due, there)


def _strange(slices: Slices, one: Strange) -> Finding:
    chunk = slices.chunk
    name = f"event at {chunk.log}.{chunk.partition}.{one.offset}.{one.place}"
    return Finding(one.table, slices.place(one.slice), name, one.expected, one.found)


def _cell(slices: Slices, meter: Meter, one: CellDifference) -> Finding:
    groups = dict(zip(meter.dimension_names, one.groups, strict=False))
    name = f"meter {meter.key} of {meter.namespace}: "
    name += cell_named(one.subject, groups, one.window)
    if not one.name:
        expected, found = described(one.expected, one.found), described(one.found, one.expected)
        return Finding(one.table, slices.place(one.slice), name, expected, found)
    expected, found = (ABSENT if it is None else PRESENT for it in (one.expected, one.found))
    return Finding(one.table, slices.place(one.slice), f"{name}, {one.name}", expected, found)
