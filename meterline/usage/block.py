"""Blocks: tallies of sealed slices, added up by hour and day (pure).

A block covers a stretch of each partition of a log, for the revisions of meters in an interval of
numbers. Its rows follow from the tallies of these slices alone. A late event lies in a later slice,
so no block is ever revised. Blocks with the same stretches make a column: each answers for other
revisions. The columns of a log lie one behind the other, without a gap.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from meterline.limits import BLOCK_FAN, BLOCK_ROWS_MAX
from meterline.usage.cells import Dropped, Hidden
from meterline.usage.late import late_before
from meterline.usage.ports import Stretch

Stretches = tuple[Stretch, ...]
_RANDOM_BITS: Final = 20


class BlockState(StrEnum):
    """Where a block stands. Only a readable one is read."""

    MAKING = "making"
    READABLE = "readable"
    REPLACED = "replaced"  # a larger one has its rows; readers may still hold it
    GONE = "gone"  # its rows are dropped, or about to be


# Of these the control store knows how many rows they have: somebody may read them.
COUNTED_STATES: Final = (BlockState.READABLE, BlockState.REPLACED)


class Held(NamedTuple):
    """What one table holds of a block: rows, the sum of the hashes of whole rows, and their weight
    (both mod 2**64).

    A weight is the sum of the hash of each row's cell, times a mix of its numbers. So it is the
    same for rows that are added up and for those that they were added up from.
    """

    rows: int
    digest: int
    weight: int


class Due(NamedTuple):
    """What the rows of a block come from: weights by table (window first).

    Of slices, how many tallies and members they have, and how many events their accounts tell of.
    Of smaller blocks, how many rows they have together, by table.
    """

    weights: Mapping[str, int]
    tallies: int = 0
    members: int = 0
    events: int = 0
    rows: Mapping[str, int] = {}


_SUBJECT_FIRST: Final = "_by_subject"


def differences(due: Due, held: Mapping[str, Held]) -> list[str]:
    """What a block lacks or has too much, in words; nothing where it was counted back."""
    found = [
        f"{table} weighs {held[table].weight} and should weigh {weight}"
        for table, weight in sorted(due.weights.items())
        if held[table].weight != weight
    ]
    for table in sorted(due.weights):
        twin = f"{table}{_SUBJECT_FIRST}"
        if twin in held and held[twin] != held[table]:
            found.append(f"{twin} has {held[twin]}, but {table} has {held[table]}")
    return found


@dataclass(frozen=True, slots=True)
class Block:
    """A block: `stretches` by ascending partition, for revisions in (after, upto].

    All of its slices were appended at `begin_ms` or later, and all behind it at `end_ms` or later;
    0 where this is not known, or where these slices have no late rows by themselves (`late`).
    `rows` are those of each table, by its name; known once it is readable.
    """

    number: int
    log: int
    stretches: Stretches
    after: int
    upto: int
    begin_ms: int = 0
    end_ms: int = 0
    state: BlockState = BlockState.MAKING
    changed_at_ms: int = 0
    rows: Mapping[str, int] | None = None

    @property
    def size(self) -> int:
        """All rows that it has."""
        return sum((self.rows or {}).values())

    @property
    def made_at_ms(self) -> int:
        """When its number was given."""
        return begun_at_ms(self.number)


def unequal(due: Due, sources: Iterable[Block]) -> list[str]:
    """What blocks that are merged do not have of what was counted, in words."""
    blocks = list(sources)
    counted = {table: sum((one.rows or {}).get(table, 0) for one in blocks) for table in due.rows}
    return [
        f"its sources have {rows} rows of {table}, counted were {counted[table]}"
        for table, rows in due.rows.items()
        if rows != counted[table]
    ]


def block_number(now_ms: int, chance: int) -> int:
    """A number that no other block has: the time, and 20 random bits."""
    return now_ms << _RANDOM_BITS | chance % (1 << _RANDOM_BITS)


def begun_at_ms(number: int) -> int:
    """When a number was given."""
    return number >> _RANDOM_BITS


@dataclass(frozen=True, slots=True)
class Column:
    """Readable blocks with the same stretches, by ascending revision: they leave out none."""

    stretches: Stretches
    blocks: tuple[Block, ...]

    @property
    def upto(self) -> int:
        """It answers for revisions up to this one."""
        return self.blocks[-1].upto

    @property
    def size(self) -> int:
        """All rows that it has."""
        return sum(block.size for block in self.blocks)

    @property
    def end_ms(self) -> int:
        """All slices behind it were appended then or later."""
        return self.blocks[0].end_ms


def columns_of(blocks: Iterable[Block]) -> tuple[Column, ...]:
    """The columns that readable blocks of one log make, from the beginning of the log on.

    What does not follow without a gap, in the log or in the revisions, is left out: it answers
    nothing.
    """
    by_stretches: dict[Stretches, list[Block]] = defaultdict(list)
    for block in blocks:
        if block.state is BlockState.READABLE:
            by_stretches[block.stretches].append(block)
    found: list[Column] = []
    ends: Mapping[int, int] = {}
    for stretches in sorted(by_stretches, key=_ends):
        whole = _without_gap(by_stretches[stretches])
        if not whole or not follows(stretches, ends) or not _has_all(stretches, ends):
            continue
        found.append(Column(stretches, whole))
        ends = ends_of(stretches)
    return tuple(found)


def _ends(stretches: Stretches) -> int:
    return sum(stretch.end for stretch in stretches)


def _without_gap(blocks: Iterable[Block]) -> tuple[Block, ...]:
    found: list[Block] = []
    upto = 0
    for block in sorted(blocks, key=lambda it: it.after):
        if block.after != upto:
            break
        found.append(block)
        upto = block.upto
    return tuple(found)


def ends_of(stretches: Iterable[Stretch]) -> dict[int, int]:
    """By partition, the offset behind its stretch."""
    return {stretch.partition: stretch.end for stretch in stretches}


def follows(stretches: Stretches, ends: Mapping[int, int]) -> bool:
    """Whether stretches begin where those before them end, in every partition, and grow."""
    grow = any(stretch.first < stretch.end for stretch in stretches)
    return grow and all(
        stretch.first == ends.get(stretch.partition, 0) and stretch.first <= stretch.end
        for stretch in stretches
    )


def _has_all(stretches: Stretches, ends: Mapping[int, int]) -> bool:
    """Whether no partition is left out that was there before: a log may only get more."""
    return ends.keys() <= {stretch.partition for stretch in stretches}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What blocks answer of one log: slices below `ends` (by partition), from these blocks.

    Rows of other slices before the minute `late_before` are all in the tables of late rows.
    `alone`: there is no other log.
    """

    log: int
    ends: Mapping[int, int]
    blocks: tuple[int, ...]
    late_before: int = 0
    alone: bool = True
    sizes: tuple[int, ...] = ()  # of the columns that these blocks are of
    hidden: tuple[Hidden, ...] = ()  # rows of slices that are not read, since they are erased
    dropped: tuple[Dropped, ...] = ()  # cells of a minute that are not kept


def coverage_of(
    log: int, columns: Sequence[Column], revisions: Collection[int], *, alone: bool
) -> Coverage:
    """The longest beginning of a log that blocks answer for all of these revisions, and which
    blocks hold their rows. `alone`: nothing was ever counted of another log.
    """
    ends: dict[int, int] = {}
    blocks: list[int] = []
    sizes: list[int] = []
    newest, border = max(revisions, default=0), 0
    for column in columns:
        if column.upto < newest:
            break
        ends = ends_of(column.stretches)
        border = late_before(column.end_ms) if alone and column.end_ms else 0
        read = [
            block.number
            for block in column.blocks
            if block.rows and block.size and any(block.after < r <= block.upto for r in revisions)
        ]
        blocks += read
        sizes += [column.size] * len(read)
    return Coverage(log, ends, tuple(blocks), border, alone, tuple(sizes))


class Merge(NamedTuple):
    """Blocks to be replaced by one: of columns that follow each other, or of one column."""

    stretches: Stretches
    upto: int
    sources: tuple[Block, ...]


def merge_due(columns: Sequence[Column], fan: int = BLOCK_FAN) -> Merge | None:
    """The next blocks to be made one: at least `fan` columns that follow each other, none of
    them much larger than all others together; or a column of so many blocks. None where there is
    nothing to merge.

    So a row is written again once in half of `fan` times its block's growth, and the columns
    are as few as the logarithm of their rows.
    """
    for column in columns:
        if len(column.blocks) >= fan:
            return Merge(column.stretches, column.upto, column.blocks)
    worth = _Worth(columns, fan)
    for length in range(fan, len(columns) + 1):
        for at in range(len(columns) - length, -1, -1):
            if worth.merging(at, at + length):
                group = columns[at : at + length]
                return Merge(_joined(group), group[0].upto, _blocks(group))
    return None


class _Worth:
    """Whether columns are worth merging. There may be hundreds, and all stretches of them are
    asked for: most are told by sums that are there.
    """

    def __init__(self, columns: Sequence[Column], fan: int) -> None:
        self._fan = fan
        self._sizes = [column.size for column in columns]
        self._sums = [0, *accumulate(self._sizes)]
        changes = (one.upto != other.upto for one, other in pairwise(columns))
        self._runs = list(accumulate(changes, initial=0))  # numbers of runs of the same revisions

    def merging(self, first: int, end: int) -> bool:
        """Those from one to another, which is not among them."""
        rows = self._sums[end] - self._sums[first]
        if rows > BLOCK_ROWS_MAX or self._runs[first] != self._runs[end - 1]:
            return False
        return rows * 2 >= max(self._sizes[first:end]) * self._fan


def _joined(columns: Sequence[Column]) -> Stretches:
    firsts: dict[int, int] = {}  # of partitions that the log got meanwhile, too
    for column in columns:
        for it in column.stretches:
            firsts.setdefault(it.partition, it.first)
    last = columns[-1].stretches
    return tuple(Stretch(it.partition, firsts[it.partition], it.end) for it in last)


def _blocks(columns: Sequence[Column]) -> tuple[Block, ...]:
    return tuple(block for column in columns for block in column.blocks)


class Renewal(NamedTuple):
    """A block that takes the place of a column, with the rows that it has by table."""

    block: Block
    rows: Mapping[str, int]
    sources: Sequence[int]


def may_be_readable(
    block: Block, there: Iterable[Block], sources: Collection[int], partitions: int
) -> bool:
    """Whether a block may become readable beside those that are there, in place of its `sources`.

    It must still be in the making, and its sources readable. Then no slice and revision is read
    twice: without its sources nothing overlaps it. And nothing is missing: it continues the
    columns, in all `partitions` that the log has by now (see `end_ms`), or it has just what its
    sources have.
    """
    known = {it.number: it for it in there}
    mine = known.get(block.number)
    if mine is None or mine.state is not BlockState.MAKING:
        return False
    readable = [it for it in known.values() if it.state is BlockState.READABLE]
    if sources:
        whole = {it.number for it in readable if _overlap(it.stretches, block.stretches)}
        return whole == set(sources) and _replaces(block, [known[number] for number in sources])
    columns = columns_of(readable)
    if block.after:
        same = (column for column in columns if column.stretches == block.stretches)
        return any(column.upto == block.after < block.upto for column in same)
    ends = ends_of(columns[-1].stretches) if columns else {}
    has_all = _has_all(block.stretches, ends) and len(block.stretches) >= partitions
    return has_all and follows(block.stretches, ends)


def withdrawn(there: Iterable[Block], numbers: Collection[int]) -> list[int]:
    """The readable blocks that are not read any more once these are not: their columns, and those
    behind them.
    """
    columns = columns_of(there)
    first = next(
        (at for at, it in enumerate(columns) if any(b.number in numbers for b in it.blocks)),
        len(columns),
    )
    return [block.number for column in columns[first:] for block in column.blocks]


def covering(there: Iterable[Block], partition: int, slice_: int) -> list[int]:
    """The blocks that have a slice, and are read or may be soon: what is being made may be made of
    rows that changed since.
    """
    return [
        block.number
        for block in there
        if block.state in (BlockState.MAKING, BlockState.READABLE)
        and any(it.partition == partition and it.first <= slice_ < it.end for it in block.stretches)
    ]


def _overlap(one: Stretches, other: Stretches) -> bool:
    """Whether they have a slice in common."""
    others = {stretch.partition: stretch for stretch in other}
    return any(
        it.partition in others
        and max(it.first, others[it.partition].first) < min(it.end, others[it.partition].end)
        for it in one
    )


def _replaces(block: Block, sources: Sequence[Block]) -> bool:
    """Whether a block covers what its sources cover together, and nothing else."""
    by_stretches: dict[Stretches, list[Block]] = defaultdict(list)
    for source in sources:
        by_stretches[source.stretches].append(source)
    ends = {stretch.partition: stretch.first for stretch in block.stretches}
    for stretches in sorted(by_stretches, key=_ends):
        whole = _without_gap(by_stretches[stretches])
        if len(whole) < len(by_stretches[stretches]) or whole[-1].upto != block.upto:
            return False
        if not follows(stretches, ends):
            return False
        ends |= ends_of(stretches)
    return block.after == 0 and ends == ends_of(block.stretches)
