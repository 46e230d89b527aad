"""The ports of usage: where its rows are kept, how they are asked for, accounts, late events.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from meterline.event import EventQuery, EventSubject, ListedEvent, SubjectQuery
from meterline.meter import Meter
from meterline.usage.account import AccountLine, AccountQuery, MeterAccount
from meterline.usage.query import UsageQuery, UsageRow
from meterline.usage.rows import (
    AccountRow,
    Counted,
    EventRow,
    Flush,
    RawEvent,
    RejectedRow,
    SeenExtent,
    SeenRow,
    SeenSpan,
    SliceId,
)


class Life(NamedTuple):
    """One life of the usage store, from a start of its process to the end: the process, and for how
    many seconds it was up when it told so.
    """

    of: str
    up_s: int


class SubjectUsageStore(Protocol):
    """Usage by subject, however much there is. A query is grouped by subject, has both ends, and no
    windows.
    """

    def usage_by_subject(self, query: UsageQuery, rows_max: int) -> AsyncIterator[list[UsageRow]]:
        """The rows of a query, ordered by subject and groups (by code points), in portions of at
        most `rows_max`.
        """
        ...

    async def usage_sum(self, query: UsageQuery) -> tuple[int, int]:
        """How many rows a query has, and the sum of their values, as a scaled integer."""
        ...


class UsageStore(SubjectUsageStore, Protocol):
    """Tallies, events and accounts, and the questions asked of them."""

    async def write(self, flush: Flush) -> None:
        """Make the rows durable in the order that `Flush` names. Raises `Unavailable`: part of them
        may be in.
        """
        ...

    async def count_back(self, slice_id: SliceId, revisions: Sequence[int]) -> dict[str, Counted]:
        """By table (events, rejects, seen, tallies, members, rejected, late_tallies, late_members):
        what the store holds of a slice, of these revisions only where rows belong to one.
        """
        ...

    async def account(self, slice_id: SliceId) -> AccountRow | None:
        """The account of a slice as far as it was written."""
        ...

    async def answers(self) -> None:
        """Return where the store answers, which costs the same whatever it holds: for probes."""
        ...

    async def accounts(
        self,
        log: int,
        first: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> AccountRow:
        """The sum of all accounts of a log (partition and slice are 0, version the greatest).

        Of partitions in `first`, only of slices from there on; with `end`, only of partitions in
        it, of slices below it.
        """
        ...

    async def slice_events(
        self, slice_id: SliceId, namespaced_types: Sequence[tuple[str, str]] | None = None
    ) -> list[EventRow]:
        """The new events of a slice by position; of some (namespace, type) only, where given."""
        ...

    def raw_events(
        self,
        log: int,
        partition: int,
        slices: Sequence[int],
        end: int,
        namespaced_types: Sequence[tuple[str, str]],
    ) -> AsyncIterator[list[RawEvent]]:
        """The new events of slices (ascending) below an offset, of some (namespace, type), by
        position, in portions that are bounded in events and bytes.
        """
        ...

    def seen_between(
        self, log: int, partition: int, offset_first: int, offset_end: int
    ) -> AsyncIterator[list[SeenRow]]:
        """Seen rows with offset in [first, end), by position, in chunks."""
        ...

    async def seen_extent(self, span: SeenSpan) -> SeenExtent:
        """How much `seen_keys` would give of a span: at least, for copies count. Zeros for none."""
        ...

    async def seen_keys(self, span: SeenSpan, low: int, high: int) -> bytes:
        """The keys of a span whose first two bytes are a number in [low, high): in order, each
        once, with its last position. A key is 16 bytes; then position and append time, of 8 bytes,
        big-endian; then the check, of 8.
        """
        ...

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Answer a query: rows ordered by window, subject, groups; windows without usage have no
        row.

        Edges off the minute are cut from raw events. Raises `Problem` for a query that cannot be
        answered within its bounds.
        """
        ...

    def usage_rows(
        self, query: UsageQuery, life: Life | None = None
    ) -> AsyncGenerator[list[UsageRow], None]:
        """The rows of `usage`, a part of them at a time, so that many need little memory. All are
        of one moment. Raises as `usage` does, nearly always before the first part. Whoever stops
        early closes it; whoever asks for more says that the part before is good. With `life` only
        that life of the store may answer: `Unavailable` if another one does.
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


class Stretch(NamedTuple):
    """A stretch of one partition: offsets in [first, end)."""

    partition: int
    first: int
    end: int


class Touched(NamedTuple):
    """Where new events of a stretch lie in time, and the last offset of them in its partition."""

    partition: int
    namespace: str
    type: str
    minute: int  # since 1970
    offset: int


class LateEvents(Protocol):
    """The new events of the log, as the usage store keeps them."""

    async def touched(
        self,
        log: int,
        stretch: Stretch,
        namespaced_types: Collection[tuple[str, str]],
        late_by_ms: int | None = None,
    ) -> list[Touched]:
        """Every minute that events of these types in the stretch lie in; with `late_by_ms`, of
        those only that were appended so long after their time.
        """
        ...


class AccountStore(Protocol):
    """What became of events, from what is stored of them."""

    async def account_lines(self, query: AccountQuery) -> list[AccountLine]:
        """By hour, source and type. Raises `Problem` where the answer would be beyond bounds."""
        ...

    async def meter_accounts(self, query: AccountQuery) -> list[MeterAccount]:
        """By revision, of each meter of the query. Raises `Problem` as above."""
        ...
