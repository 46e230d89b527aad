"""The ports of events: the log of packs, and events that count nowhere.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from meterline.event.layout import Layout
from meterline.event.listing import ListedEvent, Place
from meterline.event.pack import Record, RecordKind
from meterline.event.refusal import Position, RefusalState, Settlement
from meterline.ports import TraceContext


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
        """How many are counted: those that it was made with, and those of `lay_out`."""
        ...

    @property
    def routes(self) -> int:
        """By how many partitions events are spread that are appended now; more than `partitions`
        while the log grows. When an append returns, this was right at most ROUTES_KNOWN_S before
        the record came to the log, or later.
        """
        ...

    def lay_out(self, layout: Layout) -> None:
        """Count these partitions from now on, each from its own first offset."""
        ...

    def home(self, partition: int, offset: int) -> int:
        """The partition in which an offset of the history of a partition lies (`Layout.home`)."""
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


class GrowingLog(Log, Protocol):
    """A log that can get more partitions while others use it."""

    async def ask_to_grow(self, partitions: int) -> int:
        """How many partitions it has, once it is known that it may get so many: nothing changes.
        Raises `Unsuitable` with words where it may not, `Unavailable`.
        """
        ...

    async def grow(self, partitions: int) -> None:
        """Have so many partitions; nothing happens where it has them. On return, whoever looks
        finds them. Raises `Unavailable`: call again.
        """
        ...


class RefusedEvents(Protocol):
    """What counts nowhere, as far as it is kept."""

    async def refused_at(self, positions: Sequence[Position]) -> list[ListedEvent]:
        """Duplicates, conflicts and what could not be read at these positions, in any order."""
        ...


class SettlementStore(Protocol):
    """What was done about refusals. Each deed is recorded with its author, in its own
    transaction.
    """

    async def begin(self, wanted: Sequence[Settlement]) -> list[Settlement]:
        """Put down events that are to be sent anew (state `redriving`), before they are: for each,
        what stands then (`meterline.event.begun`). Positions differ.
        """
        ...

    async def finish(self, positions: Sequence[Position]) -> None:
        """The events that were put down for these are in the log: they are re-driven, and their
        texts forgotten.
        """
        ...

    async def dismiss(self, wanted: Settlement) -> Settlement:
        """What stands then (`meterline.event.dismissed`)."""
        ...

    async def settlements(self, positions: Sequence[Position]) -> Mapping[Position, Settlement]:
        """What was done about these; those about which nothing was are left out."""
        ...

    async def settled(
        self, owners: Sequence[str], state: RefusalState, after: Place | None, limit: int
    ) -> list[Settlement]:
        """What was done about refusals of these owners, those last taken in by the log first,
        behind a place in that order (by `stored_at`).
        """
        ...


class EventTraces(Protocol):
    """The traces that stored events belong to."""

    async def traced(
        self, namespace: str, event_type: str, from_ms: int, to_ms: int
    ) -> Sequence[tuple[str, TraceContext]] | None:
        """Sampled contexts of events of a type with a `time` in [from_ms, to_ms), each with its
        subject: of some events, in no order. None where very much would have to be read, or for
        too long. Raises `Unavailable`.
        """
        ...
