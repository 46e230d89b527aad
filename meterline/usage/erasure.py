"""Erasure of a subject: its name and payloads go, its usage stays under a pseudonym (pure).

What was recorded before a border in each partition of the log is erased. All of it lies in sealed
slices. The record of an erasure in the control store says which rows are read: those under the name
until it is switched, then those under the pseudonym. Never both, and never neither.

Order of effects: record -> rows under the pseudonym, in slices and in new blocks, counted back ->
raw events without payload -> record (switched), with these blocks and all of the control store ->
rows under the name deleted -> record (settled) -> the log has dropped what it held -> record
(done), without the name.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from meterline.access import COMMAND
from meterline.event import PSEUDONYM_PREFIX
from meterline.limits import ERASURE_PARTS_MS
from meterline.ports import ChangedMeanwhile
from meterline.usage.block import Renewal
from meterline.usage.cells import Hidden, concerning
from meterline.usage.rows import SliceId


class ErasureState(StrEnum):
    """Where an erasure stands."""

    ASKED = "asked"  # nothing has changed; waits until all of it is sealed
    COPYING = "copying"  # rows under the pseudonym are made; nobody reads them
    SWITCHED = "switched"  # rows under the pseudonym are read; those under the name are deleted
    SETTLED = "settled"  # nothing is left but the log's records
    DONE = "done"  # the log has none either; the name is forgotten


# In these the rows of blocks, and what an audit compares, are on their way.
UNSETTLED: Final = (ErasureState.ASKED, ErasureState.COPYING, ErasureState.SWITCHED)


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure. Rows of log `log` in slices from `firsts` on and below `ends` (by partition) are
    erased, and all of older logs. `firsts` are the ends of the one before, of the same subject.
    While it is only asked for, `ends` are those of the log: the slices that have them end later.
    """

    id: str
    namespace: str
    subject: str | None  # None: done, and not known any more
    pseudonym: str
    state: ErasureState
    asked_at_ms: int
    log: int = 0  # 0: the borders are not known yet
    firsts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    log_until_ms: int | None = None
    settled_at_ms: int | None = None
    done_at_ms: int | None = None
    revisions: tuple[int, ...] = ()  # of all meters of the namespace; not of each listing
    unfilled: tuple[int, ...] = ()  # of these, those to be filled from what is left of the events

    @property
    def name(self) -> str:
        """The subject, of an erasure that is not done."""
        assert self.subject is not None, "the name of an erasure that is done is not known"
        return self.subject


def pseudonym_of(erasure_id: str) -> str:
    """The subject that usage is shown under: it says what happened, and nothing else."""
    return PSEUDONYM_PREFIX + erasure_id


def hidden_of(erasures: Iterable[Erasure]) -> dict[str, Hidden]:
    """By namespace, what is hidden by erasures that are not done. Until one is switched its
    pseudonym is; from then on its name.
    """
    found: dict[str, Hidden] = {}
    by_namespace: dict[str, list[Erasure]] = {}
    for one in erasures:
        if one.state is not ErasureState.DONE:
            by_namespace.setdefault(one.namespace, []).append(one)
    for namespace, those in by_namespace.items():
        before = [it for it in those if it.state in (ErasureState.ASKED, ErasureState.COPYING)]
        after = [it for it in those if it not in before]
        erased = [
            (it.name, it.log, tuple(it.ends.get(n, 0) for n in range(max(it.ends, default=-1) + 1)))
            for it in after
        ]
        found[namespace] = Hidden(
            namespace,
            tuple(sorted({revision for it in those for revision in it.revisions})),
            tuple(sorted(it.pseudonym for it in before)),
            tuple(sorted(erased)),
        )
    return found


def erased_from(erasures: Iterable[Erasure], slice_id: SliceId) -> dict[str, str]:
    """The subjects that are erased from a slice, each with its pseudonym, by erasures that are
    switched and not done; the oldest first.
    """
    found: dict[str, str] = {}
    for one in erasures:
        first, end = (it.get(slice_id.partition, 0) for it in (one.firsts, one.ends))
        within = one.log > slice_id.log or first <= slice_id.slice < end
        gone = one.state in (ErasureState.SWITCHED, ErasureState.SETTLED)
        if gone and within and one.log >= slice_id.log:
            found.setdefault(one.name, one.pseudonym)
    return found


def still_hidden(before: Iterable[Hidden], now: Iterable[Hidden]) -> bool:
    """Whether what is hidden `now` is what was `before`, but for erasures that are done since: no
    row under their names was left when they were settled.
    """
    was, there = ({it.namespace: it for it in those} for those in (before, now))
    for namespace in was.keys() | there.keys():
        old = was.get(namespace, Hidden(namespace, (), (), ()))
        new = there.get(namespace, Hidden(namespace, (), (), ()))
        if old.pseudonyms != new.pseudonyms or not set(new.erased) <= set(old.erased):
            return False
    return True


class Masks:
    """Which rows of cells are hidden, as the control store says it at the moment."""

    def __init__(self, ledger: "ErasureLedger") -> None:
        self._ledger = ledger

    async def all(self) -> tuple[Hidden, ...]:
        """Of all namespaces."""
        return tuple(hidden_of(await self._ledger.unfinished()).values())

    async def of(self, revisions: Collection[int]) -> tuple[Hidden, ...]:
        """Those that concern revisions of meters."""
        return concerning(await self.all(), revisions)

    async def confirm(self, revisions: Collection[int], before: Sequence[Hidden]) -> None:
        """Told after an answer came: what was read then is what is read now. Raises `Unavailable`
        where an erasure was switched meanwhile: the answer may have counted rows twice, or lacked
        some. One that is done since has no rows left to read.
        """
        if not still_hidden(before, await self.of(revisions)):
            raise ChangedMeanwhile("usage store: a subject was erased while it was read: ask again")


def may_finish(erasure: Erasure, begins: Mapping[int, int], now_ms: int) -> bool:
    """Whether the log holds nothing of it any more (`begins`: its oldest record by partition), and
    the usage store had time to remove the files that it replaced.
    """
    settled_ms = erasure.settled_at_ms
    return (
        erasure.state is ErasureState.SETTLED
        and settled_ms is not None
        and now_ms - settled_ms >= ERASURE_PARTS_MS
        and all(begins.get(partition, 0) >= end for partition, end in erasure.ends.items())
    )


class ErasureLedger(Protocol):
    """The records of erasures."""

    async def unfinished(self) -> list[Erasure]:
        """Those that are not done, with all revisions of their namespaces, the oldest first."""
        ...

    async def set_borders(
        self, erasure_id: str, log: int, ends: Mapping[int, int], log_until_ms: int
    ) -> None:
        """Record where the current log ends in each partition, and about until when it has what
        lies before; the first record stands. Raises `Unavailable` where an end is not told: the
        log got more partitions meanwhile.
        """
        ...

    async def begin_copying(self, erasure_id: str, now_ms: int) -> str | None:
        """Begin it, in one transaction, and record where its slices end; or why it must wait: one
        is not sealed, or a meter is being filled. Blocks in the making are given up.
        """
        ...

    async def unfilled(self, erasure: Erasure) -> Sequence[int]:
        """The revisions of its namespace that not all of its slices are counted for. While it is
        copied these stay the same, but for those of meters that are made meanwhile.
        """
        ...

    async def erase_refusals(self, positions: Sequence[tuple[int, int, int, int]]) -> None:
        """Erase the notes on these refusals (log, partition, offset, place), and what was sent
        anew for them.
        """
        ...

    async def switch(self, erasure_id: str, renewals: Sequence[Renewal], now_ms: int) -> None:
        """From now on the pseudonym is read, in slices and, by these blocks in place of others, in
        blocks. The same transaction erases what the control store has of it. Raises `Unavailable`
        where other blocks are read by now.
        """
        ...

    async def settle(self, erasure_id: str, now_ms: int) -> None:
        """Nothing under the name is left in the stores, but in blocks that are not read any more.
        Those in the making are given up.
        """
        ...

    async def finish(self, erasure_id: str, now_ms: int) -> None:
        """The log holds nothing of it: forget the name."""
        ...

    async def compact(self) -> None:
        """What was deleted is not in the store's files any more, where that is in its hands."""
        ...

    async def redriven(self, namespace: str) -> list[tuple[tuple[int, int, int, int], str, str]]:
        """Refusals of a namespace that something was done about: position, and source and id of
        what was sent anew.
        """
        ...


class ErasedRows(Protocol):
    """The usage store's side. Every method may be called again, by several at once."""

    async def copy(self, erasure: Erasure) -> None:
        """Write the rows of cells under the pseudonym. Raises `Unavailable` where they do not add
        up to those under the name.
        """
        ...

    async def refusals_of(
        self,
        erasure: Erasure,
        redriven: Sequence[tuple[tuple[int, int, int, int], str, str]],
    ) -> list[tuple[int, int, int, int]]:
        """Which of these refusals are of the subject, or were sent anew as events of it."""
        ...

    async def redact(self, erasure: Erasure) -> None:
        """Take payload and name out of raw events, refused events and rejected values."""
        ...

    async def delete(self, erasure: Erasure) -> None:
        """Delete the rows of cells under the name."""
        ...

    async def blocks_with(self, erasure: Erasure) -> Collection[int]:
        """The blocks that have rows under the name, whether they are read or not."""
        ...

    async def forget(self) -> None:
        """Remove what the store itself noted of deletions: it names the subject."""
        ...


class ErasureStore(Protocol):
    """Requests for erasures, of each namespace; `author` as in `CatalogueStore`."""

    async def ask(
        self, namespace: str, subject: str, now_ms: int, *, author: str = COMMAND
    ) -> Erasure:
        """Ask that a subject be erased: all that was recorded of it before. What is said of it is
        erased at once. Returns the one that is there already, if it has not begun. Raises `Problem`
        (conflict) where one has begun, a report names the subject, or too many are not done.
        """
        ...

    async def erasure(self, namespace: str, id_: str) -> Erasure | None:
        """One of a namespace."""
        ...

    async def erasures(self, namespace: str, limit: int, after: str | None = None) -> list[Erasure]:
        """Those of a namespace, the newest first, behind one by its id."""
        ...
