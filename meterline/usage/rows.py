"""Rows: what the aggregator writes and reads back. Every row is a pure function of the log
(docs/architecture.md, "Tallies").

An identity is (log, partition, offset, place) for what belongs to an event and (cell, log,
partition, slice) for what belongs to a cell. `log` is the number of the log. A slice is named by
its first offset.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

NO_POSITION: Final = -1  # below every position


class SliceId(NamedTuple):
    """A slice of one partition of one log."""

    log: int
    partition: int
    slice: int


class EventRow(NamedTuple):
    """An event whose verdict is new, as it was accepted."""

    log: int
    partition: int
    offset: int
    place: int  # index of the event in its pack
    slice: int
    append_ms: int
    key: bytes
    namespace: str
    type: str
    subject: str
    source: str
    id: str
    time_ms: int
    recorded_ms: int
    text: bytes  # JSON, as it stands in the log


class RawEvent(NamedTuple):
    """What is needed of an event to count it once more."""

    slice: int
    offset: int
    place: int
    append_ms: int
    text: bytes


class RejectRow(NamedTuple):
    """An event that counts nowhere: `kind` is duplicate, conflict or invalid.

    `first` is the position of the new event that has the same identity, in the same log and
    partition; `NO_POSITION` where nothing could be read. Where the inbox refused a record, `source`
    is its topic and `id` its partition and offset, and it was recorded when its topic took it in;
    what is unreadable in a pack belongs to no namespace ("") and has neither, and counts as
    recorded when it was appended.
    """

    log: int
    partition: int
    offset: int
    place: int  # index of the event in its pack
    slice: int
    append_ms: int
    key: bytes  # of the identity; 16 zero bytes where nothing could be read
    namespace: str
    type: str
    subject: str
    source: str
    id: str
    time_ms: int
    recorded_ms: int
    text: bytes  # JSON, as it stands in the log; of what cannot be read, the beginning, as UTF-8
    kind: str
    first: int
    field: str
    reason: str


class SeenRow(NamedTuple):
    """The first position of a key; no personal data. Catch-up of the seen store reads these."""

    log: int
    partition: int
    offset: int
    place: int  # index of the event in its pack
    slice: int
    append_ms: int
    key: bytes
    check: bytes


class SeenSpan(NamedTuple):
    """Seen rows of one partition: of offsets in [first, end), appended in [from_ms, to_ms); of keys
    that belong to the partition `heir` of `partitions` only.
    """

    log: int
    partition: int
    first: int
    end: int
    from_ms: int
    to_ms: int
    partitions: int = 1
    heir: int = 0


class SeenExtent(NamedTuple):
    """How many rows a span has, copies among them, and when the first and the last was appended."""

    rows: int
    first_ms: int
    last_ms: int


class TallyRow(NamedTuple):
    """The absolute tally of a cell in a slice, up to `version` (a position). Numbers are scaled
    integers.
    """

    revision: int
    subject: str
    groups: str
    window: int
    log: int
    partition: int
    slice: int
    version: int
    total: int
    counted: int
    rejected: int
    minimum: int  # 0 where none counted
    maximum: int
    latest_time_ms: int
    latest_recorded_ms: int
    latest_key: bytes
    latest: int


class MemberRow(NamedTuple):
    """A distinct value of a unique count: 16-byte hash of its canonical text."""

    revision: int
    subject: str
    groups: str
    window: int
    member: bytes
    log: int
    partition: int
    slice: int


class RejectedRow(NamedTuple):
    """An event that a meter matched without a usable value there: listed, never counted as 0."""

    revision: int
    log: int
    partition: int
    offset: int
    place: int  # index of the event in its pack
    slice: int
    subject: str
    groups: str
    window: int
    reason: str
    value: str  # JSON text of what stood there, cut


class AccountRow(NamedTuple):
    """What became of every event of a slice: received = new + duplicate + conflict + invalid,
    always.
    """

    log: int
    partition: int
    slice: int
    version: int  # last position
    received: int
    new: int
    duplicate: int
    conflict: int
    invalid: int


CELL_TABLES: Final = ("tallies", "members", "rejected", "late_tallies", "late_members")
"""The tables with rows of cells, as a flush names them."""


@dataclass(slots=True)
class Flush:
    """Rows to be made durable together: events, rejects, seen -> tallies, members, rejected, and
    the late ones of them -> accounts.
    """

    events: list[EventRow] = field(default_factory=list)
    rejects: list[RejectRow] = field(default_factory=list)
    seen: list[SeenRow] = field(default_factory=list)
    tallies: list[TallyRow] = field(default_factory=list)
    members: list[MemberRow] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    accounts: list[AccountRow] = field(default_factory=list)
    # Of tallies and members those that are late (`late_rows`), written together with them.
    late_tallies: list[TallyRow] = field(default_factory=list)
    late_members: list[MemberRow] = field(default_factory=list)

    def extend(self, other: "Flush") -> None:
        """Take the rows of another flush, so that a worker writes all its partitions in one block
        per table.
        """
        self.events += other.events
        self.rejects += other.rejects
        self.seen += other.seen
        self.tallies += other.tallies
        self.members += other.members
        self.rejected += other.rejected
        self.accounts += other.accounts
        self.late_tallies += other.late_tallies
        self.late_members += other.late_members


class Counted(NamedTuple):
    """Count-back of one table and slice: identities, and the hash sum (mod 2**64) of rows."""

    rows: int
    digest: int


class Seal(NamedTuple):
    """A finished slice: its rows are in the store, counted back, of this catalogue."""

    log: int
    partition: int
    slice: int  # first offset
    end: int  # offset after the last
    events: int  # new events in it
    catalogue: int
    append_ms: int  # running maximum of append times at its end
    digest: bytes | None = None  # of its last record (`pack.record_digest`); None: an old seal
    # Rows that it wrote, by table: `usage_integrity` adds them up. 0 in an old seal.
    rejects: int = 0
    tallies: int = 0
    members: int = 0
    rejected: int = 0
    late: int | None = None  # rows in both tables of late rows; None: of a build that kept none


class Lacking(NamedTuple):
    """A sealed slice, and the revisions of meters that are to be filled in from it."""

    seal: Seal
    revisions: tuple[int, ...]  # ascending
    counting: tuple[int, ...]  # of these, those that count its events: they are kept for them
    # Namespace, subject and pseudonym of subjects that are erased from it: their events count
    # without data, though some may have come back.
    erased: tuple[tuple[str, str, str], ...] = ()


class CatchingUp(NamedTuple):
    """How far the seen store of a partition is, that a worker is about to take on."""

    partition: int
    begun_ms: int
    seen_ms: int  # when it was last told
    keys: int
    keys_total: int  # at least; 0: not known yet


class Filling(NamedTuple):
    """How far a partition is filled in. A slice, and an event, counts once for each revision that
    lacks it. All is 0 where nothing was ever filled in.
    """

    partition: int
    begun_ms: int
    seen_ms: int  # when it was last told
    slices_filled: int
    slices_left: int
    events_filled: int
    events_left: int
