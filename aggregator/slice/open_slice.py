"""An open slice of one partition: verdicts, fold and account of its records so far, all in memory
(pure).

Nothing in here outlives a crash, and nothing needs to: the slice is read again from its first
record.
"""

from collections.abc import Iterator, Sequence

from aggregator.slice.border import Border, opened
from aggregator.slice.fold import NO_KEY, SliceFold
from aggregator.slice.verdict import Seen, judged
from meterline.event import Event, Record, Unreadable, Verdict, position, record_digest
from meterline.limits import REJECT_TEXT_BYTES_MAX, SLICE_SPAN_MS
from meterline.meter import Measures
from meterline.usage import (
    NO_POSITION,
    AccountRow,
    Counted,
    EventRow,
    Flush,
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


class OpenSlice:
    """The slice that begins with the first record it is given."""

    def __init__(self, slice_id: SliceId, append_ms: int, measures: Measures) -> None:
        self.id = slice_id
        self.end = slice_id.slice  # offset after the last record taken in
        self.begun_ms = append_ms
        self.border: Border = opened(append_ms)
        self.seen: list[
            SeenRow
        ] = []  # of the whole slice: goes to the seen store when it is sealed
        self.last: Record | None = None  # taken in
        self.verdicts = dict.fromkeys(Verdict, 0)
        self._late_before = late_before(append_ms)
        self._fold = SliceFold(slice_id, measures)
        self._overlay: dict[bytes, SeenRow] = {}  # the latest of `seen` for each key
        self._version = position(slice_id.slice, 0)
        self._events: list[EventRow] = []
        self._rejects: list[RejectRow] = []
        self._seen_taken = 0
        self._counted: dict[str, Counted] = {}

    def emptied(self, measures: Measures) -> "OpenSlice":
        """The same slice for other meters; only of one without events."""
        assert not self.border.events, "events would be forgotten"
        same = OpenSlice(self.id, self.border.span * SLICE_SPAN_MS, measures)
        same.end = self.end
        same.last = self.last
        same._version = self._version
        same._counted = dict(self._counted)  # none of each; nothing of it is taken once more
        return same

    def unknown_keys(self, items: Sequence[Event | Unreadable]) -> list[bytes]:
        """Keys of which only the seen store can know something."""
        overlay = self._overlay
        return [i.key for i in items if isinstance(i, Event) and i.key not in overlay]

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
        overlay = self._overlay
        offset = record.offset
        base = position(offset, 0)
        new_before = len(self.seen)
        for place, item in enumerate(items):
            if isinstance(item, Unreadable):
                self._refuse(record, append_ms, item)
                continue
            at = base + place
            key = item.key
            row = overlay.get(key)
            earlier = stored.get(key) if row is None else _seen(row)
            if earlier is not None:
                verdict = judged(earlier, at, append_ms, item.check, horizon_ms)
                if verdict is not Verdict.NEW:
                    self._pass_over(offset, place, append_ms, item, verdict, earlier[0])
                    continue
            overlay[key] = self._count(offset, place, append_ms, item)
            self._fold.add(item, at)
        self.verdicts[Verdict.NEW] += len(self.seen) - new_before
        self._version = position(record.offset, max(len(items) - 1, 0))
        self.end = record.offset + 1
        self.last = record
        self.border = self.border.grown(len(items))

    def _count(self, offset: int, place: int, append_ms: int, event: Event) -> SeenRow:
        log, partition, slice_ = self.id
        key = event.key
        # tuple.__new__: a named tuple's own constructor costs several times as much, twice per
        # event
        seen = tuple.__new__(
            SeenRow, (log, partition, offset, place, slice_, append_ms, key, event.check)
        )
        self.seen.append(seen)
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
        return seen

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
            self.seen[self._seen_taken :],
            tallies,
            members,
            rejected,
            [self.account()],
            late_rows(tallies, self._late_before),
            late_rows(members, self._late_before),
        )
        self._events, self._rejects = [], []
        self._seen_taken = len(self.seen)
        for table in ("events", "rejects", "seen", "members", "rejected", "late_members"):
            fresh = counted(table, getattr(flush, table))
            self._counted[table] = together(self._counted.get(table, _EMPTY), fresh)
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
        yield {**self._counted, "tallies": tallies, "late_tallies": late}
        for portion, late_portion in self._fold.counted(self._late_before):
            tallies, late = together(tallies, portion), together(late, late_portion)
            yield {**self._counted, "tallies": tallies, "late_tallies": late}


def _seen(row: SeenRow) -> Seen:
    return position(row.offset, row.place), row.append_ms, row.check
