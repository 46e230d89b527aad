"""The ports: all that the stages know of the outside. Each has one contract suite over all its
adapters (tests/contract).

Every method that writes is durable when it returns, unless it says otherwise, and may be called
again with the same arguments with the same effect. Errors of the world are raised as `Unavailable`;
a step never swallows one.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Protocol

from meterline.change import AGGREGATOR, COMMAND
from meterline.event_list import EventQuery, EventSubject, ListedEvent, SubjectQuery
from meterline.meter import Catalogue, Meter, MeterChange, MeterDraft
from meterline.pack import Record, RecordKind
from meterline.rows import (
    AccountRow,
    Counted,
    EventRow,
    Flush,
    RejectedRow,
    Seal,
    SeenRow,
    SliceId,
)
from meterline.run_ports import SubjectUsageStore
from meterline.usage import UsageQuery, UsageRow


class Unavailable(Exception):
    """Something outside did not answer or refused for now. What was asked may or may not have
    happened.
    """


class StoreLost(Unavailable):
    """A store answers, but does not hold what was written to it: no answer may rest on it.

    The text says what is missing, and what an operator can do.
    """


class SeenDamaged(Unavailable):
    """A seen store cannot be read. It is discarded and rebuilt: nothing is lost."""


class Unsuitable(Exception):
    """What is found outside does not fit the settings, or is held by another process.

    The text says what to do; trying again does not help.
    """


class Clock(Protocol):
    """Wall time; only shells and composition read it, rules take instants as arguments."""

    def now_ms(self) -> int:
        """Unix milliseconds."""
        ...


class Log(Protocol):
    """The log of packs: partitions of records with ascending offsets (gaps are allowed)."""

    @property
    def id(self) -> str:
        """Identity of this log; a log made anew has another one."""
        ...

    @property
    def number(self) -> int:
        """The number of this log in every row's identity."""
        ...

    @property
    def partitions(self) -> int:
        """Fixed when the log was made."""
        ...

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        """Append one record; returns when it is durable. Raises `Unavailable`: then it is not known
        whether it is in.
        """
        ...

    async def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        """Up to `records_max` records from the first at or after `offset`, in order; empty at the
        end. Does not wait long.
        """
        ...

    async def begin(self, partition: int) -> int:
        """Offset of the oldest record kept (equal to `end` where there is none)."""
        ...

    async def end(self, partition: int) -> int:
        """Offset after the last record, asked of the leader: every append that returned before the
        call is below it.
        """
        ...

    async def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        """Records below offset `before` whose append is older may be dropped."""
        ...

    async def close(self) -> None:
        """Let go of what is held; appends under way are finished first."""
        ...


class SeenStore(Protocol):
    """Deduplication state of one partition, always as of a slice border."""

    @property
    def applied(self) -> int:
        """Every record below this offset is in. 0 for a new store."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[int, int, bytes] | None]:
        """For each key (position, append_ms, check) of its latest new event, or None."""
        ...

    def apply(self, rows: Sequence[SeenRow], applied: int) -> None:
        """Put the new events of a slice and the applied offset, in one durable batch."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...

    def discard(self) -> None:
        """Let go of files that are damaged: the next opening finds a new store. Reading and
        applying raise `SeenDamaged` where that is due.
        """
        ...


class UsageStore(SubjectUsageStore, Protocol):
    """Tallies, events and accounts, and the questions asked of them."""

    async def write(self, flush: Flush) -> None:
        """Make the rows durable in the order that `Flush` names. Raises `Unavailable`: part of them
        may be in.
        """
        ...

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        """By table (events, rejects, seen, tallies, members, rejected): what the store holds of a
        slice, of these revisions only where rows belong to one.
        """
        ...

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        """The account of a slice as far as it was written."""
        ...

    async def accounts(self, log: int) -> AccountRow:
        """The sum of all accounts of a log (partition and slice are 0, version the greatest)."""
        ...

    async def slice_events(
        self, slice_id: SliceId, namespaced_types: Sequence[tuple[str, str]] | None = None
    ) -> list[EventRow]:
        """The new events of a slice by position; of some (namespace, type) only, where given."""
        ...

    def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        """Seen rows with offset in [first, end), by position, in chunks."""
        ...

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Answer a query: rows ordered by window, subject, groups; windows without usage have no
        row.

        Edges off the minute are cut from raw events. Raises `Problem` for a query that cannot be
        answered within its bounds.
        """
        ...

    def usage_blocks(self, query: UsageQuery) -> AsyncGenerator[list[UsageRow], None]:
        """The rows of `usage`, a part of them at a time, so that many need little memory. All are
        of one moment. Raises as `usage` does, nearly always before the first part. Whoever stops
        early closes it.
        """
        ...

    async def usage_values(
        self, query: UsageQuery, limit: int, offset: int
    ) -> tuple[list[str], int]:
        """The texts that the one name of `group_by` has in the rows of a query without windows:
        sorted, `limit` of them behind the first `offset`; and how many there are.

        Raises `Problem` where too much would have to be read to find them.
        """
        ...

    async def rejected(self, meter: Meter, limit: int, after: str | None) -> list[RejectedRow]:
        """Rejected values of the revisions that answer for a meter, each in its part of time, by
        position, after the cursor `log.partition.offset.place`.
        """
        ...

    async def listed_events(self, query: EventQuery) -> list[ListedEvent]:
        """A page of the events of a namespace with their verdicts, in the order asked for.

        Raises `Problem` where too much would have to be looked at to find it.
        """
        ...

    async def event_subjects(self, query: SubjectQuery) -> list[EventSubject]:
        """The subjects of new events that are kept. Raises `Problem` as `listed_events` does."""
        ...

    async def new_events(self, positions: Sequence[tuple[int, int, int, int]]) -> list[ListedEvent]:
        """The new events at these (log, partition, offset, place), as far as they are kept."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class CatalogueStore(Protocol):
    """Meters and their revisions. Every change of what is measured makes a new version of the
    catalogue; other words of a meter (name, description, labels) do not.

    `author` is a `Principal.author`: each change is recorded with it, in its own transaction
    (`meterline.change`). A call that finds nothing to do records none.
    """

    async def catalogue(self) -> Catalogue:
        """All revisions that are folded at the newest version, over all namespaces, in order."""
        ...

    async def catalogue_version(self) -> int:
        """The newest version; cheap, asked every second."""
        ...

    async def create_meter(
        self,
        namespace: str,
        draft: MeterDraft,
        now_ms: int,
        *,
        author: str = COMMAND,
        from_settings: bool = False,
    ) -> Meter:
        """A new meter; raises `Problem`: conflict where the key is taken, rate limited where the
        meters of the namespace changed too often in the last minute.
        """
        ...

    async def update_meter(
        self,
        namespace: str,
        id_or_key: str,
        change: MeterChange,
        now_ms: int,
        *,
        author: str = COMMAND,
    ) -> Meter:
        """The meter in force, its words as changed. What is measured changes by a new revision,
        which waits until it is filled in; one that waits already is replaced.

        Raises `Problem`: bad request with all faults of the definition asked for; not found;
        conflict (defined in the settings file, or a report groups by a dimension that would go).
        """
        ...

    async def put_settings_meter(self, namespace: str, draft: MeterDraft, now_ms: int) -> Meter:
        """Create the meter of the settings file, or change it where it differs, like an update;
        else leave it. The author is `settings`.
        """
        ...

    async def delete_meter(
        self, namespace: str, id_or_key: str, now_ms: int, *, author: str = COMMAND
    ) -> None:
        """Delete logically; raises `Problem`: not found, or conflict (in use, or defined in the
        settings file).
        """
        ...

    async def meter(self, namespace: str, id_or_key: str) -> Meter | None:
        """A live meter by id (wins) or key."""
        ...

    async def meters(self, namespace: str) -> list[Meter]:
        """Live meters of a namespace by creation."""
        ...

    async def deleted_meters(self, namespace: str, limit: int) -> list[Meter]:
        """Deleted meters of a namespace, the last deleted first."""
        ...

    async def filling(self) -> list[int]:
        """Revisions that wait until they are filled in, of all namespaces, the oldest first."""
        ...

    async def switch_filled(
        self, revision: int, now_ms: int, *, author: str = AGGREGATOR
    ) -> Meter | None:
        """Put a revision that is filled in in force; the meter, or None where it does not wait
        (any more). What it supersedes leaves the catalogue, unless a report is on the meter.
        """
        ...

    async def retire(self, now_ms: int) -> set[int]:
        """Take superseded revisions that nobody needs any more out of the catalogue."""
        ...


class ProgressStore(Protocol):
    """How far the aggregator is: seals, fill marks, completeness. Small rows, all merged by the
    greatest.
    """

    async def register_log(self, log_id: str, partitions: int) -> int:
        """The number of the log with this id, given at its first registration. Raises `Problem`
        (conflict) where the partitions differ from those registered.
        """
        ...

    async def seal(self, seal: Seal) -> None:
        """Record a sealed slice; of two with one name the greater catalogue wins."""
        ...

    async def last_seal(self, log: int, partition: int) -> Seal | None:
        """The seal with the greatest first offset."""
        ...

    async def unfilled(self, log: int, partition: int, revision: int, limit: int) -> list[Seal]:
        """The backfill list: sealed slices folded by an older catalogue than `revision`, without
        its fill mark, by offset.
        """
        ...

    async def mark_filled(self, slice_id: SliceId, revision: int) -> None:
        """The slice holds the tallies of this revision now."""
        ...

    async def complete(self, log: int, catalogue: int, until_ms: Mapping[int, int]) -> None:
        """By partition: all events recorded up to the instant are counted by this catalogue. Merges
        by the greatest.
        """
        ...

    async def complete_until(self, log: int, partitions: int, revision: int) -> int | None:
        """The instant up to which every partition is complete by a catalogue at least as new as the
        revision; None where one partition has no such claim, or a backfill of the revision is not
        finished.
        """
        ...

    async def completions(self, log: int, catalogue: int) -> dict[int, int]:
        """By partition, the greatest instant claimed complete by a catalogue at least as new."""
        ...

    async def flushed(self, log: int, catalogue: int, offset_ends: Mapping[int, int]) -> None:
        """By partition: everything below the offset is counted by this catalogue and can be
        queried. Merges by the greatest.
        """
        ...

    async def flushed_ends(self, log: int, catalogue: int) -> dict[int, int]:
        """By partition, the greatest end of what was counted by a catalogue at least as new."""
        ...
