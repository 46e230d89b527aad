"""The ports of the audit, and of the way from usage to its events and deliveries.

The rules of `meterline.ports` hold here too.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from meterline.audit.audit import (
    AuditedBody,
    AuditedRun,
    AuditSpan,
    AuditStep,
    CellRows,
    Chunk,
    Filled,
    Kept,
    Recount,
    RunPlace,
    SlicePlace,
    Strange,
    Touched,
)
from meterline.audit.lineage import Position, ReportedDelivery, UsageEntry
from meterline.meter import Meter
from meterline.usage import AccountRow, EventRow, Notice, Seal, SealSum, SliceId


class UsageEvidence(Protocol):
    """What the usage store says of itself, by means that writing it does not use."""

    async def accounts_between(
        self, log: int, partition: int, first: int, end: int
    ) -> list[AccountRow]:
        """The accounts of slices with a name in [first, end), by name."""
        ...

    async def kept(self, chunk: Chunk) -> list[Kept]:
        """Rows by slice, of slices that the chunk does not name too."""
        ...

    async def strange(self, chunk: Chunk, limit: int) -> list[Strange]:
        """Events and first positions that lack each other, events whose columns do not say what
        their text says, copies that follow no event.
        """
        ...

    async def repeated(
        self,
        log: int,
        partition: int,
        span: tuple[int, int],
        horizon_ms: int,
        limit: int,
        line: Sequence[int] = (),
    ) -> list[Strange]:
        """Events that are new although one of their identity was new within the horizon before: in
        their partition, or in one of its `line`, which has those that it goes on from.
        """
        ...

    async def cell_slices(
        self, log: int, partition: int, bounds: tuple[int, int], revisions: Sequence[int]
    ) -> list[tuple[str, int]]:
        """(table, slice) of every slice within bounds that has rows of cells."""
        ...

    async def touched(self, chunk: Chunk) -> Touched:
        """What there is of events and cells in slices of a chunk, whatever their positions."""
        ...

    async def recount(self, chunk: Chunk, meter: Meter, limit: int) -> Recount:
        """Recount a meter from the raw events and compare."""
        ...

    async def cells(self, slice_id: SliceId, revision: int, minutes_from: int = 0) -> CellRows:
        """What is stored of a slice and a revision; see `Chunk.minutes_from`."""
        ...

    async def row_hashes(self, slice_id: SliceId, table: str, revision: int) -> list[int]:
        """The hash (`meterline.usage.row_hash`) of every row there, superseded ones too."""
        ...

    async def purge(
        self, slice_id: SliceId, table: str, revision: int, hashes: Collection[int]
    ) -> None:
        """Delete the rows with these hashes for good."""
        ...

    async def purge_account(self, slice_id: SliceId) -> None:
        """Delete every version of a slice's account."""
        ...


class ControlEvidence(Protocol):
    """What the control store holds that an audit compares."""

    async def logs(self) -> list[tuple[int, int]]:
        """(number, partitions) of every log ever counted, by number."""
        ...

    async def seals(self, place: SlicePlace, span: AuditSpan, limit: int) -> list[Seal]:
        """Sealed slices of a partition from a place on that lie in the span, by offset."""
        ...

    async def sums(self, place: SlicePlace, span: AuditSpan, limit: int) -> list[SealSum]:
        """Sums of seals of a partition from a place on, with slices in the span, by offset."""
        ...

    async def summed_end(self, log: int, partition: int) -> int:
        """The offset after the slices of a partition whose seals were added up; 0: none were."""
        ...

    async def notices(self) -> list[Notice]:
        """Of what the usage store does not keep any more."""
        ...

    async def seal_count(self, span: AuditSpan) -> int:
        """How many slices lie in the span, of all partitions and logs."""
        ...

    async def filled(self, log: int, partition: int, slices: Sequence[int]) -> Filled:
        """What was filled in of these slices."""
        ...

    async def runs(self, place: RunPlace, span: AuditSpan, limit: int) -> list[AuditedRun]:
        """Decided runs after a place, by their decision."""
        ...

    async def run_count(self, span: AuditSpan) -> int:
        """How many runs were decided in the span."""
        ...

    async def bodies(self, run_id: str, after: int, limit: int) -> list[AuditedBody]:
        """Deliveries of a run by number, after one."""
        ...


class Auditor(Protocol):
    """Audits, step by step."""

    async def step(self, span: AuditSpan, cursor: str | None) -> AuditStep:
        """The step that a cursor leads to; the first without one. Raises `ValueError` for what is
        no cursor.
        """
        ...


class EventLineage(Protocol):
    """New events, as far as they are kept."""

    async def events_of(
        self, entry: UsageEntry, after: Position | None, limit: int
    ) -> list[EventRow]:
        """Events of the entry's meter, span and subject by position, whatever their dimensions and
        values. Raises `Problem` where too much would have to be looked at.
        """
        ...


class DeliveryLineage(Protocol):
    """What was reported."""

    async def deliveries_over(
        self, namespace: str, meter_ids: Sequence[str], subject: str, at_ms: int, limit: int
    ) -> list[ReportedDelivery]:
        """Deliveries to a subject about these meters whose windows hold an instant; those of the
        run decided last come first.
        """
        ...
