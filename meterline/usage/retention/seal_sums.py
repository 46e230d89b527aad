"""Sums of seals: old slices that nothing asks for one by one any more share one row (pure).

A slice is asked for by itself as long as it may be counted for a new meter: so as long as its
events are kept. After that only sums are needed: how many rows there must be, and what a block that
is made again is made of.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from meterline.limits import BLOCK_SLICES_MAX, BLOCK_TALLIES_MAX
from meterline.usage.block import Column, ends_of
from meterline.usage.rows import Seal
from meterline.window import DAY_MS


class SealSum(NamedTuple):
    """Seals of slices that follow each other, added up. `catalogue` is the oldest of theirs."""

    log: int
    partition: int
    slice: int  # first offset of the first
    end: int  # offset after the last
    slices: int
    events: int
    catalogue: int
    begin_ms: int  # append time of the first seal
    append_ms: int  # of the last
    rejects: int
    tallies: int
    members: int
    rejected: int
    late: int | None

    def as_seal(self) -> Seal:
        """As one slice that wrote all their rows. Blocks are made of it as of any other."""
        return Seal(
            self.log, self.partition, self.slice, self.end, self.events, self.catalogue,
            self.append_ms, None,
            self.rejects, self.tallies, self.members, self.rejected, self.late,
        )  # fmt: skip


def summed(seals: Sequence[Seal]) -> SealSum:
    """The sum of some seals of a partition, given by offset."""
    first, last = seals[0], seals[-1]
    late = [seal.late for seal in seals]
    return SealSum(
        log=first.log,
        partition=first.partition,
        slice=first.slice,
        end=last.end,
        slices=len(seals),
        events=sum(seal.events for seal in seals),
        catalogue=min(seal.catalogue for seal in seals),
        begin_ms=first.append_ms,
        append_ms=last.append_ms,
        rejects=sum(seal.rejects for seal in seals),
        tallies=sum(seal.tallies for seal in seals),
        members=sum(seal.members for seal in seals),
        rejected=sum(seal.rejected for seal in seals),
        late=None if None in late else sum(one or 0 for one in late),
    )


class Borders(NamedTuple):
    """What a sum of one partition must not reach across, nor beyond."""

    ends: tuple[int, ...] = ()  # where columns end, ascending; beyond the last one are no blocks
    before_ms: int = 0  # later slices are needed one by one
    tallies_max: int = BLOCK_TALLIES_MAX  # of one sum, if it is of more than one slice

    def parted(self, marks: Iterable[int]) -> "Borders":
        """The same with marks of growths: a partition that takes over at a mark asks which append
        time its parent had reached there.
        """
        last = self.ends[-1] if self.ends else 0
        within = {mark for mark in marks if mark < last}
        return self._replace(ends=tuple(sorted(within.union(self.ends))))


def borders(
    columns: Sequence[Column], revisions: Collection[int], partition: int, before_ms: int
) -> Borders:
    """The borders of a partition: what blocks answer for all of these revisions is added up."""
    newest = max(revisions, default=0)
    ends: list[int] = []
    partitions = 1
    for column in columns:
        if column.upto < newest:
            break
        ends.append(ends_of(column.stretches).get(partition, 0))
        partitions = len(column.stretches)
    return Borders(tuple(ends), before_ms, BLOCK_TALLIES_MAX // partitions)


def next_sum(seals: Sequence[Seal], within: Borders) -> Sequence[Seal]:
    """As many of the first seals of a partition as make one sum; none where there is nothing to add
    up yet. The last of those given always stays: from it counting goes on.

    A sum has no more slices and tallies than a new block may have of a partition. Its slices are of
    one week, as rows that are dropped together are: so it is known which of its rows are kept.
    """
    end = next((end for end in within.ends if seals and end > seals[0].slice), 0)
    tallies = 0
    taken: list[Seal] = []
    for seal, _ in pairwise(seals):
        tallies += seal.tallies + seal.members
        full = len(taken) == BLOCK_SLICES_MAX or (taken and tallies > within.tallies_max)
        over = taken and _week(seal) != _week(taken[0])
        if full or over or seal.end > end or seal.append_ms >= within.before_ms:
            break
        taken.append(seal)
    return taken


def _week(seal: Seal) -> int:
    """From Monday on, in UTC. The first day of 1970 was a Thursday."""
    return (seal.append_ms // DAY_MS + 3) // 7
