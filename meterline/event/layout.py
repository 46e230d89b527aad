"""How a log is laid out in partitions, and how it came by them (docs/architecture.md, "More
partitions").

A log that grows keeps its partitions. Each new one takes over a part of the keys of one that was
there before, its *parent*, and goes on at offsets that are greater than any of its parent's. So the
history of a partition is one line of offsets: first those of its parents, then its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from meterline.event.event import Event, partition_of
from meterline.event.pack import Unreadable
from meterline.limits import GROWTH_OFFSETS, PARTITIONS_MAX
from meterline.ports import Unavailable, Unsuitable

STRAY = (
    "it was written by the number of partitions that the log had before. Nobody was told that it is"
    " stored"
)


class Growth(NamedTuple):
    """A log got more partitions: how many it had before, how many it has since, and the offset that
    the first record of each new one counts as.
    """

    before: int
    partitions: int
    first: int


class Heritage(NamedTuple):
    """A part of the history of a partition: the offsets in [first, end) of `partition`, as far as
    they hold keys that belong to it by a number of partitions.
    """

    partition: int
    first: int
    end: int
    partitions: int


class Mark(msgspec.Struct, frozen=True):
    """The value of a record behind which the events of a partition belong by a new number."""

    partitions: int


_marks: Final = msgspec.json.Decoder(Mark)


@dataclass(frozen=True, slots=True)
class Layout:
    """The partitions of a log, and its growths in their order."""

    partitions: int
    growths: tuple[Growth, ...] = ()

    def growth_of(self, partition: int) -> Growth | None:
        """The growth that a partition came with; None: the log was made with it."""
        found = (it for it in self.growths if it.before <= partition < it.partitions)
        return next(found, None)

    def first(self, partition: int) -> int:
        """The offset that the first record of a partition counts as."""
        growth = self.growth_of(partition)
        return 0 if growth is None else growth.first

    def home(self, partition: int, offset: int) -> int:
        """The partition in which an offset of the history of a partition lies."""
        while (growth := self.growth_of(partition)) is not None and offset < growth.first:
            partition %= growth.before
        return partition

    def line(self, partition: int) -> list[int]:
        """A partition and its parents, in which its history lies."""
        growth = self.growth_of(partition)
        return [partition, *([] if growth is None else self.line(partition % growth.before))]

    def uncounted(self, passed: Mapping[tuple[int, int], int]) -> list[int]:
        """The partitions that are not counted up to their mark of the last growth, by the marks
        that were passed; none once it has ended, or where the log never grew.
        """
        if not self.growths:
            return []
        growth = self.growths[-1]
        return [n for n in range(growth.before) if (n, growth.partitions) not in passed]

    def history(self, partition: int, first: int, end: int) -> list[Heritage]:
        """Where the keys of a partition lie that came at offsets in [first, end), by offset."""
        growth = self.growth_of(partition)
        if growth is None:
            return [Heritage(partition, first, end, 1)] if first < end else []
        found = [
            it._replace(partitions=growth.partitions)
            for it in self.history(partition % growth.before, first, min(end, growth.first))
        ]
        if max(first, growth.first) < end:
            found.append(Heritage(partition, max(first, growth.first), end, growth.partitions))
        return found


def grown(layout: Layout, partitions: int, ends: Sequence[int]) -> Layout:
    """The layout with more partitions, by the ends that its partitions have now. Raises
    `Unsuitable` with words for a number that it cannot have.
    """
    now = layout.partitions
    _check_number(now, partitions)
    laid_out = [end >= layout.first(number) for number, end in enumerate(ends)]
    assert len(laid_out) == now, "each partition has an end"
    assert all(laid_out), "these are ends of the topic: the log was not laid out"
    first = max(ends) + GROWTH_OFFSETS
    return Layout(partitions, (*layout.growths, Growth(now, partitions, first)))


def check_growth(now: int, there: int, wanted: int) -> None:
    """Raise `Unsuitable` with words where a log cannot get the partitions wanted: it has so many
    `now`, and its topic has those that are `there`.

    Events go by the number of the topic. Where another tool added some, events may lie in
    each of them: so each is to be registered with the growth that it came with.
    """
    _check_number(now, wanted)
    if there in (now, wanted):
        return
    added = f"the log has {now} partitions, and another tool gave its topic {there}"
    if there % now == 0:
        raise Unsuitable(f"{added}: run the command with {there} first")
    if there > wanted:
        least = (there // now + 1) * now
        raise Unsuitable(f"{added}: give a multiple of {now} that is greater, such as {least}")


def routes_known(known: int, found: int) -> int:
    """By how many partitions events are spread, by a broker that tells of so many. One that tells
    of fewer is behind: a log never has fewer. Raises `Unavailable` where events cannot be spread.
    """
    if found <= known:
        return known
    if not may_be_laid_out(found, known):
        raise Unavailable(
            f"another tool gave the topic {found} partitions, and the log has {known}: no event is"
            f" taken in. Give it a multiple of {known}, then run `meterline migrate --partitions`"
        )
    return found


def _check_number(now: int, wanted: int) -> None:
    if not now < wanted <= PARTITIONS_MAX:
        raise Unsuitable(
            f"the log has {now} partitions and cannot get {wanted}: give a number above {now},"
            f" at most {PARTITIONS_MAX}. A log never gets fewer"
        )
    if wanted % now:
        raise Unsuitable(
            f"the log has {now} partitions: give a multiple of {now}, such as {2 * now} or"
            f" {3 * now}. Then each new partition takes over from one only"
        )


def may_be_laid_out(there: int, wanted: int) -> bool:
    """Whether a log with so many partitions may be one that was made with the number wanted, and
    has grown.
    """
    return there >= wanted and there % wanted == 0


def strays_marked(
    items: Sequence[Event | Unreadable], partition: int, partitions: int
) -> Sequence[Event | Unreadable]:
    """The items of a record behind the mark of a growth. An event that belongs to another partition
    now came from a gateway that did not know of the growth, which told nobody that it is stored: it
    counts nowhere. Whoever sent it sends it again, and it counts in its own partition.
    """
    if not any(_strays(it, partition, partitions) for it in items):
        return items  # the same one, for whoever counts them
    return list(_without_strays(items, partition, partitions))


def _without_strays(
    items: Sequence[Event | Unreadable], partition: int, partitions: int
) -> Iterator[Event | Unreadable]:
    for index, item in enumerate(items):
        if isinstance(item, Event) and _strays(item, partition, partitions):
            yield Unreadable(index, "", STRAY, item.text)
        else:
            yield item


def _strays(item: Event | Unreadable, partition: int, partitions: int) -> bool:
    return isinstance(item, Event) and partition_of(item.key, partitions) != partition


def encode_mark(partitions: int) -> bytes:
    """The value of a mark."""
    return msgspec.json.encode(Mark(partitions))


def decode_mark(value: bytes) -> int | None:
    """The number of partitions in a mark; None where it cannot be read."""
    try:
        return _marks.decode(value).partitions
    except ValueError:
        return None
