"""Revisions of meters whose rows nothing asks for any more leave the usage store (pure, and ports).

Order of effects: notice -> a day later, no slice is sealed by the meters of before the notice ->
seals are lessened: they tell of its rows no more -> a day later, rows in slices are deleted, and
blocks give way to others without them -> the notice says that they are gone. Both stores agree at
each moment: the control store never tells of rows that are not there. Nothing is begun while a
subject is being erased.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from meterline.limits import RETENTION_NOTICE_MS
from meterline.usage.rows import SliceId


class RevisionNotice(NamedTuple):
    """Says that the rows of a revision are not kept. Once it is closed, no slice is sealed by an
    older catalogue than `catalogue`: so none that has rows of it.
    """

    revision: int
    catalogue: int
    given_at_ms: int
    log: int = 0  # with the next two: the last slice whose seal is lessened
    partition: int = 0
    slice: int = 0
    closed_at_ms: int | None = None
    lessened_at_ms: int | None = None  # since then no seal tells of its rows
    dropped_at_ms: int | None = None  # since then it has none

    @property
    def reached(self) -> SliceId:
        """Seals up to this slice are lessened; those of older logs and partitions come first."""
        return SliceId(self.log, self.partition, self.slice)

    def behind(self, row: "SliceRows") -> "RevisionNotice":
        """The notice once seals are lessened up to the slice of this row."""
        return self._replace(log=row.log, partition=row.partition, slice=row.slice)


class SliceRows(NamedTuple):
    """How many rows a slice has of one revision."""

    log: int
    partition: int
    slice: int
    tallies: int
    members: int
    rejected: int


def may_lessen(notice: RevisionNotice, now_ms: int, wait_ms: int = RETENTION_NOTICE_MS) -> bool:
    """Whether seals may be lessened: whoever counts knows newer meters by now, and every copy of
    the usage store has all of its rows.
    """
    return notice.lessened_at_ms is None and now_ms - notice.given_at_ms >= wait_ms


def may_delete(notice: RevisionNotice, now_ms: int, wait_ms: int = RETENTION_NOTICE_MS) -> bool:
    """Whether rows may be deleted: no seal tells of them, and neither does a copy of the control
    store that was made within a day. Rows that come back later go again.
    """
    since_ms = notice.lessened_at_ms
    return since_ms is not None and now_ms - since_ms >= wait_ms


def unsealed_of(notices: Iterable[RevisionNotice]) -> tuple[int, ...]:
    """The revisions that no seal tells of: blocks are made without them."""
    return tuple(sorted(one.revision for one in notices if one.lessened_at_ms is not None))


class RevisionLedger(Protocol):
    """The control store's side."""

    async def give_revision_notices(self, aged_ms: int, now_ms: int, kept_ms: int) -> list[int]:
        """Record of each revision that is `unneeded` that it is not kept; the numbers of those that
        had no notice, the oldest first where not all may get one. Ages are measured from `aged_ms`.
        """
        ...

    async def revision_notices(self) -> list[RevisionNotice]:
        """All notices, by revision."""
        ...

    async def close(self, revision: int, now_ms: int) -> None:
        """From now on no slice is sealed by the meters of before the notice; the first instant
        stands.
        """
        ...

    async def lessen(self, notice: RevisionNotice, rows: Sequence[SliceRows], now_ms: int) -> bool:
        """Seals tell of so many rows less, and the notice that these are done, in one transaction;
        no rows: all are. Seals by a catalogue before the revision never told of its rows, and a sum
        of seals may then tell of too few. False where the notice has gone on, or while a subject is
        being erased.
        """
        ...

    async def note_dropped(self, revisions: Collection[int], now_ms: int) -> None:
        """The store has no rows of them; the first instant stands."""
        ...


class RevisionRows(Protocol):
    """The usage store's side. Every method may be called again, by several at once."""

    async def rows_by_slice(self, revision: int, after: SliceId, limit: int) -> list[SliceRows]:
        """The first slices behind one that have rows of a revision, by log, partition, slice."""
        ...

    async def delete_rows(self, revisions: Collection[int]) -> bool:
        """Delete their rows in slices; whether there were any. Raises `Unavailable` also where that
        goes on.
        """
        ...

    async def blocks_with(self, revisions: Collection[int]) -> Collection[int]:
        """The blocks that have rows of them, whether they are read or not."""
        ...


class Unsealed:
    """The revisions that no seal tells of, as the control store says it at the moment."""

    def __init__(self, ledger: RevisionLedger) -> None:
        self._ledger = ledger

    async def revisions(self) -> tuple[int, ...]:
        """Their numbers, ascending."""
        return unsealed_of(await self._ledger.revision_notices())
