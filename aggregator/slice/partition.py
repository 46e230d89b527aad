"""One partition as a worker holds it: its seen store, its open slice, and how far each is."""

from collections.abc import Sequence

from aggregator.slice.ended import Ended
from aggregator.slice.open_slice import OpenSlice, keys_of
from aggregator.slice.verdict import Seen
from meterline.event import (
    Event,
    Record,
    RecordKind,
    Unreadable,
    decode_mark,
    decode_record,
    strays_marked,
)
from meterline.limits import EVENT_ROWS_BYTES
from meterline.meter import Measures
from meterline.ports import Recorder, metrics
from meterline.usage import SeenStore, SliceId


class Partition:
    """Progress through one partition of the log. All offsets below `next_offset` were taken in.

    While a slice that has ended is being sealed, the one behind it is open already.
    """

    def __init__(self, log: int, number: int, start: int, seen: SeenStore) -> None:
        self.log = log
        self.number = number
        self.seen = seen
        self.sealed_end = start  # may be committed to the log's consumer group
        self.next_offset = start
        self.flushed_end = start  # everything below can be queried
        self.log_end = start  # where the log ended when this was prepared
        self.append_ms = 0  # running maximum, of records with events: clocks may step back
        self._append_ms_before = 0  # as it was when the open slice began
        self.slice: OpenSlice | None = None
        self.ended: Ended | None = None  # the slice before the open one, until it is sealed
        self.count_back_tries = 0
        self.epoch = 0  # grows whenever a slice is dropped
        self.taken_end = start  # everything below is in a flush, on its way or durable
        self.untaken_events = 0  # of the open slice, in no flush yet
        self.untaken_bytes = 0  # of memory, about
        self.looked_up = self.found = 0  # identities in the seen store, since they were told
        self.recorded: tuple[int, int] | None = None  # catalogue and end last told to the world
        self._ahead: Measures = {}  # of meters that are about to be taken on
        self.routes = 0  # events belong by so many partitions; 0: no growth was met
        self._strays = 0  # events that belong elsewhere, since they were told
        self.left = 0  # slices that somebody else had sealed, maybe by an older catalogue

    def items_of(self, record: Record) -> Sequence[Event | Unreadable]:
        """What is in a record, as it counts in this partition."""
        items = decode_record(record)
        if not self.routes:
            return items
        kept = strays_marked(items, self.number, self.routes)
        if kept is not items:
            self._strays += sum(one is not it for one, it in zip(kept, items, strict=True))
        return kept

    def mark_in(self, record: Record) -> int | None:
        """By how many partitions events belong behind a record; None: by as many as before it."""
        if record.kind is not RecordKind.MARK:
            return None
        partitions = decode_mark(record.value)
        return None if partitions is None or partitions <= self.routes else partitions

    def tell_counts(self, recorder: Recorder) -> None:
        """How many identities were looked up in the seen store since the last time, and how many
        events belong elsewhere.
        """
        if strays := self._strays:
            self._strays = 0
            recorder.count(metrics.STRAYS, strays)
        absent, found = self.looked_up - self.found, self.found
        self.looked_up = self.found = 0
        if found:
            recorder.count(metrics.SEEN_LOOKUPS, found, "found")
        if absent:
            recorder.count(metrics.SEEN_LOOKUPS, absent, "absent")

    def closes_with(self, record: Record, items: Sequence[Event | Unreadable]) -> bool:
        """Whether the open slice ends before this record."""
        if self.slice is None:
            return False
        if record.kind is RecordKind.MARK:
            return True
        return self.slice.border.ends_before(len(items), max(record.append_ms, self.append_ms))

    def absorb(
        self,
        record: Record,
        items: Sequence[Event | Unreadable],
        measures: Measures,
        horizon_ms: int,
    ) -> None:
        """Take in the next record, into a new slice where none is open. What the seen store raises
        leaves all as it was.
        """
        keys = keys_of(items) if self.slice is None else self.slice.unknown_keys(items)
        stored = self.seen_before(keys)
        if self.slice is None:
            self._append_ms_before = self.append_ms
        append_ms = max(record.append_ms, self.append_ms)
        if items:  # what has no events may expire unseen: it must not move what others see
            self.append_ms = append_ms
        if self.slice is None:
            slice_id = SliceId(self.log, self.number, record.offset)
            self.slice = OpenSlice(slice_id, append_ms, measures)
            if self._ahead:
                self.slice.look_ahead(self._ahead)
        self.slice.absorb(record, append_ms, items, stored, horizon_ms)
        self.next_offset = record.offset + 1
        self.untaken_events += len(items)
        self.untaken_bytes += len(record.value) + EVENT_ROWS_BYTES * len(items)

    def seen_before(self, keys: Sequence[bytes]) -> dict[bytes, Seen]:
        """What is known of identities that the open slice does not know: by the slice before it,
        and by the seen store.
        """
        known = {} if self.ended is None else self.ended.slice.known(keys)
        asked = [key for key in keys if key not in known] if known else keys
        found = zip(asked, self.seen.get_many(asked), strict=True) if asked else ()
        stored = {key: seen for key, seen in found if seen is not None}
        self.looked_up += len(asked)
        self.found += len(stored)
        return stored | known if known else stored

    def unsealed(self) -> list[OpenSlice]:
        """The slice that has ended, and the open one."""
        ended = [] if self.ended is None else [self.ended.slice]
        return ended if self.slice is None else [*ended, self.slice]

    def end_slice(self) -> None:
        """The open slice has ended; the next record begins another one."""
        assert self.slice is not None, "only an open slice ends"
        assert self.ended is None, "one at a time waits for its seal"
        self.ended = Ended(self.slice, self.append_ms, self._append_ms_before)
        self.slice = None

    @property
    def is_ended_durable(self) -> bool:
        """Whether all rows of the slice that has ended were acknowledged by the usage store."""
        return self.ended is not None and self.flushed_end >= self.ended.slice.end

    def reopen(self) -> None:
        """The slice that has ended is the open one again, so that it can take on newer meters. What
        follows it is read again.
        """
        ended, self.ended = self.ended, None
        assert ended is not None, "no slice has ended"
        self._back_to(ended.slice.end, ended.append_ms)
        self.slice, self._append_ms_before = ended.slice, ended.append_ms_before
        self.slice.refused = True
        if self._ahead and not self.slice.looks_ahead(self._ahead):  # what was read stays
            self.slice.look_ahead(self._ahead)

    def drop_slice(self) -> None:
        """Forget what is not sealed: it is read again from its first record, like after a crash."""
        if self.ended is not None:
            self._back_to(self.ended.slice.id.slice, self.ended.append_ms_before)
        elif self.slice is not None:
            self._back_to(self.slice.id.slice, self._append_ms_before)
        self.ended = self.slice = None

    def _back_to(self, offset: int, append_ms: int) -> None:
        self.next_offset, self.append_ms = offset, append_ms
        self.flushed_end = self.taken_end = offset
        self.untaken_events = self.untaken_bytes = 0
        self.recorded = None
        self.epoch += 1

    def look_ahead(self, measures: Measures) -> None:
        """Count by these as well, in this slice and in those that follow, until `adopt`."""
        self._ahead = measures
        if self.slice is not None and measures:
            self.slice.look_ahead(measures)

    @property
    def lacks_before(self) -> int | None:
        """What is ahead lacks the events of the open slice below this offset."""
        return None if self.slice is None else self.slice.lacks_before

    def adopt(self, measures: Measures, gone: frozenset[int]) -> None:
        """Go on with other meters; nothing may be lacking ahead. Only what is spoiled is read
        again.
        """
        self._ahead = {}
        if self.slice is not None and self.slice.spoiled:
            self.drop_slice()
        elif self.slice is not None:
            self.slice.adopt(measures, gone)

    def seal_slice(self) -> None:
        """The slice that has ended is sealed: its verdicts become the seen store's."""
        assert self.ended is not None, "only a slice that has ended is sealed"
        ended = self.ended.slice
        self.seen.apply(ended.new_keys(), ended.end)
        self.sealed_end = ended.end
        self.ended = None
        self.count_back_tries = 0
