"""An open slice of one partition: verdicts, fold and account of its records so far, all in memory
(pure).

Nothing in here outlives a crash, and nothing needs to: the slice is read again from its first
record.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from aggregator.slice.border import Border, opened
from aggregator.slice.fold import NO_KEY, SliceFold
from aggregator.slice.new_keys import NewKeys
from aggregator.slice.verdict import Seen, judged
from meterline.event import Event, Record, Unreadable, Verdict, position, record_digest
from meterline.limits import (
    OPEN_CELL_BYTES,
    OPEN_KEY_BYTES,
    OPEN_TYPES_MAX,
    REJECT_TEXT_BYTES_MAX,
)
from meterline.meter import Measures
from meterline.usage import (
    NO_POSITION,
    AccountRow,
    Counted,
    EventRow,
    Flush,
    MemberRow,
    RejectedRow,
    RejectRow,
    SeenRow,
    SliceId,
    counted,
    late_before,
    late_rows,
    together,
)

_EMPTY = Counted(0, 0)
_DIFFERS = ("id", "the same source and id came before with another type, subject, time or data")
_COPIES = ("", "")
OF_EVENTS = ("events", "rejects", "seen")
_OF_REVISIONS = ("members", "rejected", "late_members")


class OpenSlice:
    """The slice that begins with the first record it is given."""

    def __init__(
        self,
        slice_id: SliceId,
        append_ms: int,
        measures: Measures,
        types_max: int = OPEN_TYPES_MAX,
    ) -> None:
        self.id = slice_id
        self.end = slice_id.slice  # offset after the last record taken in
        self.begun_ms = append_ms
        self.border: Border = opened(append_ms)
        self.last: Record | None = None  # taken in
        self.verdicts = dict.fromkeys(Verdict, 0)
        self._late_before = late_before(append_ms)
        self._fold = SliceFold(slice_id, measures)
        self._keys = NewKeys()  # of the whole slice: they are the seen store's when it is sealed
        self._version = position(slice_id.slice, 0)
        self._events: list[EventRow] = []
        self._rejects: list[RejectRow] = []
        self._seen: list[SeenRow] = []
        self._counted: dict[str, Counted] = dict.fromkeys((*OF_EVENTS, *_OF_REVISIONS), _EMPTY)
        self._of_revisions: dict[tuple[str, int], Counted] = {}  # table, revision
        self._types: set[tuple[str, str]] = set()  # namespace and type of each new event,
        self._types_max = types_max  # or of so many: then more of them are not known
        self._ahead: SliceFold | None = None
        self.lacks_before: int | None = None  # what is ahead lacks the events below this offset
        self.added_to = -1  # position of the last event that was added earlier to what is ahead
        self.borrowed = False  # some rows were made of what the store holds, not of the log
        self.spoiled = False  # and such events were erased: it must be read again
        self.refused = False  # its seal was, since newer meters must be known first

    def look_ahead(self, measures: Measures) -> None:
        """Count by these as well from here on, for `adopt`. What was taken in before must be added
        with `add_earlier`, unless none of it counts by these.
        """
        self._ahead = SliceFold(self.id, measures)
        self.lacks_before = self.end if self._may_have(measures) else None
        self.added_to = -1

    def looks_ahead(self, measures: Measures) -> bool:
        """Whether it counts by these as well, since `look_ahead`."""
        return self._ahead is not None and self._ahead.measures is measures

    def _may_have(self, measures: Measures) -> bool:
        """Whether a new event so far counts by these; True where that is not known."""
        types = self._types
        return len(types) >= self._types_max or not types.isdisjoint(measures)

    def add_earlier(self, event: Event, at: int) -> None:
        """A new event of before, to what is ahead; in any order, each once."""
        assert self._ahead is not None, "nothing is ahead"
        self.borrowed = True
        self.added_to = max(self.added_to, at)
        self._ahead.add(event, at)

    def adopt(self, measures: Measures, gone: frozenset[int]) -> None:
        """Go on with other meters, as if it had begun with them (`SliceFold.adopt`)."""
        assert self.lacks_before is None, "what is ahead is not whole"
        self._fold.adopt(measures, self._ahead, gone)
        self._ahead = None
        for table, revision in [it for it in self._of_revisions if it[1] in gone]:
            del self._of_revisions[table, revision]

    def unknown_keys(self, items: Sequence[Event | Unreadable]) -> list[bytes]:
        """Keys of which only the seen store can know something."""
        return self._keys.unknown(keys_of(items))

    def known(self, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        """What it knows of some of these keys, for the slice behind it."""
        found = ((key, self._keys.find(key)) for key in keys)
        return {key: seen for key, seen in found if seen is not None}

    def absorb(
        self,
        record: Record,
        append_ms: int,
        items: Sequence[Event | Unreadable],
        stored: dict[bytes, Seen],
        horizon_ms: int,
    ) -> None:
        """Take in the next record. `append_ms` is the running maximum; `stored` what the seen store
        knows.
        """
        assert record.offset >= self.end, "records come in order, each once"
        keys, ahead = self._keys, self._ahead
        types, types_max = self._types, self._types_max
        offset = record.offset
        base = position(offset, 0)
        new_before = len(self._seen)
        for place, item in enumerate(items):
            if isinstance(item, Unreadable):
                self._refuse(record, append_ms, item)
                continue
            at = base + place
            key = item.key
            earlier = keys.find(key) or stored.get(key)
            if earlier is not None:
                verdict = judged(earlier, at, append_ms, item.check, horizon_ms)
                if verdict is not Verdict.NEW:
                    self._pass_over(offset, place, append_ms, item, verdict, earlier[0])
                    continue
            keys.add(key, at, append_ms, item.check)
            self._count(offset, place, append_ms, item)
            if len(types) < types_max:
                types.add((item.namespace, item.type))
            self._fold.add(item, at)
            if ahead is not None:
                ahead.add(item, at)
        self.verdicts[Verdict.NEW] += len(self._seen) - new_before
        self._version = position(record.offset, max(len(items) - 1, 0))
        self.end = record.offset + 1
        self.last = record
        self.border = self.border.grown(len(items))

    def _count(self, offset: int, place: int, append_ms: int, event: Event) -> None:
        log, partition, slice_ = self.id
        key = event.key
        # tuple.__new__: a named tuple's own constructor costs several times as much, twice per
        # event
        seen = (log, partition, offset, place, slice_, append_ms, key, event.check)
        self._seen.append(tuple.__new__(SeenRow, seen))
        self._events.append(
            tuple.__new__(
                EventRow,
                (
                    log,
                    partition,
                    offset,
                    place,
                    slice_,
                    append_ms,
                    key,
                    event.namespace,
                    event.type,
                    event.subject,
                    event.source,
                    event.id,
                    event.time_ms,
                    event.recorded_ms,
                    event.text,
                ),
            )
        )

    def _pass_over(
        self, offset: int, place: int, append_ms: int, event: Event, verdict: Verdict, first: int
    ) -> None:
        self.verdicts[verdict] += 1
        log, partition, slice_ = self.id
        self._rejects.append(
            tuple.__new__(
                RejectRow,
                (
                    log,
                    partition,
                    offset,
                    place,
                    slice_,
                    append_ms,
                    event.key,
                    event.namespace,
                    event.type,
                    event.subject,
                    event.source,
                    event.id,
                    event.time_ms,
                    event.recorded_ms,
                    event.text,
                    verdict.value,
                    first,
                    *(_COPIES if verdict is Verdict.DUPLICATE else _DIFFERS),
                ),
            )
        )

    def _refuse(self, record: Record, append_ms: int, item: Unreadable) -> None:
        self.verdicts[Verdict.INVALID] += 1
        text = item.text[:REJECT_TEXT_BYTES_MAX].decode(errors="replace").encode()
        self._rejects.append(
            RejectRow(
                self.id.log,
                self.id.partition,
                record.offset,
                item.index,
                self.id.slice,
                append_ms,
                NO_KEY,
                namespace=item.namespace,
                type="",
                subject="",
                source=item.source,
                id=item.id,
                time_ms=append_ms,
                recorded_ms=append_ms if item.recorded_ms is None else item.recorded_ms,
                text=text,
                kind=Verdict.INVALID.value,
                first=NO_POSITION,
                field=item.field,
                reason=item.reason,
            )
        )

    def account(self) -> AccountRow:
        """Received = new + duplicate + conflict + invalid, by construction of `absorb`."""
        verdicts = self.verdicts
        return AccountRow(
            *self.id,
            self._version,
            sum(verdicts.values()),
            verdicts[Verdict.NEW],
            verdicts[Verdict.DUPLICATE],
            verdicts[Verdict.CONFLICT],
            verdicts[Verdict.INVALID],
        )

    @property
    def first_minute(self) -> int | None:
        """The first minute that has a tally; None: there is none."""
        return self._fold.first_minute

    @property
    def cells(self) -> int:
        """Tallies in memory."""
        return self._fold.cells

    @property
    def held_bytes(self) -> int:
        """The memory, about, that is free once it is sealed: rows that wait for a flush are no part
        of it.
        """
        cells = self._fold.held_cells + (0 if self._ahead is None else self._ahead.held_cells)
        return len(self._keys) * OPEN_KEY_BYTES + cells * OPEN_CELL_BYTES

    def new_keys(self) -> bytes:
        """Of all new events so far, as `SeenStore.apply` takes them."""
        return self._keys.packed()

    def last_digest(self) -> bytes:
        """Of the last record taken in."""
        assert self.last is not None, "a slice begins with a record"
        return record_digest(self.last)

    def take(self) -> Flush:
        """Rows for all that came since the last time."""
        tallies, members, rejected = self._fold.take()
        flush = Flush(
            self._events,
            self._rejects,
            self._seen,
            tallies,
            members,
            rejected,
            [self.account()],
            late_rows(tallies, self._late_before),
            late_rows(members, self._late_before),
        )
        self._events, self._rejects, self._seen = [], [], []
        for table in OF_EVENTS:
            fresh = counted(table, getattr(flush, table))
            self._counted[table] = together(self._counted[table], fresh)
        for table in _OF_REVISIONS:
            for revision, rows in _by_revision(getattr(flush, table)).items():
                before = self._of_revisions.get((table, revision), _EMPTY)
                self._of_revisions[table, revision] = together(before, counted(table, rows))
        return flush

    def counted(self) -> dict[str, Counted]:
        """What count-back must find once everything taken is written."""
        *_, whole = self.counting()
        return whole

    def counting(self) -> Iterator[dict[str, Counted]]:
        """`counted`, as far as it has come, for whoever must not stay away for so long: all tallies
        are hashed. The last one is whole.
        """
        tallies = late = _EMPTY
        others = dict(self._counted)
        for (table, _), of_revision in self._of_revisions.items():
            others[table] = together(others[table], of_revision)
        yield {**others, "tallies": tallies, "late_tallies": late}
        for portion, late_portion in self._fold.counted(self._late_before):
            tallies, late = together(tallies, portion), together(late, late_portion)
            yield {**others, "tallies": tallies, "late_tallies": late}


def keys_of(items: Sequence[Event | Unreadable]) -> list[bytes]:
    """Keys of the events among these."""
    return [item.key for item in items if isinstance(item, Event)]


def _by_revision(rows: Sequence[MemberRow | RejectedRow]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row.revision, []).append(row)
    return found
