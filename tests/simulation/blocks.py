"""Blocks of a world: their records, their rows, who makes them, and whoever reads them.

Rows are only added: an insert that lands late, or in part, is there like that. One that lands again
finds the rows of the first, and adds none.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from xxhash import xxh64_intdigest

from meterline.limits import BLOCK_KEPT_MS
from meterline.meter import EMPTY, Aggregate, merged, timeline
from meterline.ports import Unavailable
from meterline.problem import Problem
from meterline.usage import (
    COUNTED_STATES,
    Block,
    BlockState,
    Column,
    Coverage,
    Dropped,
    Due,
    Held,
    Hidden,
    Holdings,
    Seal,
    Sealed,
    Stretches,
    UsageQuery,
    UsageRow,
    columns_of,
    concerning,
    coverage_of,
    dropped_before,
    late_before,
    may_be_made_again,
    may_be_readable,
    withdrawn,
)
from meterline.usage.integrity.comparison import damaged
from tests.simulation.answers import aggregate_of
from tests.simulation.hours import is_hidden
from tests.simulation.progress import ProgressState
from tests.simulation.usage import UsageState

HOUR: Final = 60  # minutes
TABLES: Final = ("hours", "member_hours")
_SOURCES: Final = {"hours": "tallies", "member_hours": "members"}
KNOWN_MAX: Final = 12  # states of the records that somebody may still read by
_MASK: Final = (1 << 64) - 1


class Cell(NamedTuple):
    """A cell of an hour, or a distinct value in it. `window` is its first minute."""

    table: str
    revision: int
    window: int
    subject: str
    groups: str
    member: bytes = b""


class BlockRow(NamedTuple):
    """A row of a block."""

    cell: Cell
    aggregate: Aggregate


class Known(NamedTuple):
    """What somebody may read by: the columns at an instant, and what was hidden beside them."""

    at_ms: int
    columns: tuple[Column, ...]
    hidden: tuple[Hidden, ...]
    dropped: tuple[Dropped, ...] = ()


def _as_it_is(row: BlockRow) -> BlockRow:
    return row


@dataclass(frozen=True, slots=True)
class Sight:
    """How whoever makes a block sees what it is made of."""

    hidden: tuple[Hidden, ...] = ()  # rows of slices
    named: Callable[[BlockRow], BlockRow] = _as_it_is  # rows of other blocks


@dataclass
class BlocksState:
    """The records in the control store, and the rows in the usage store."""

    usage: UsageState
    progress: ProgressState
    records: dict[int, Block] = field(default_factory=dict)
    rows: dict[int, list[BlockRow]] = field(default_factory=dict)
    known: list["Known"] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    unsealed: Callable[[], Collection[int]] = tuple  # revisions that blocks are made without
    may: Callable[[Block, Iterable[Block], Collection[int], int], bool] = may_be_readable
    unsettled: Callable[[], bool] = lambda: False  # whether an erasure lets no block be made
    hidden: Callable[[], tuple[Hidden, ...]] = tuple
    dropped: Callable[[], tuple[Dropped, ...]] = tuple  # cells of a minute that are not kept
    fair: Callable[[UsageQuery, Sequence[Dropped], Exception], bool] = lambda *_: False
    planned: Callable[[UsageQuery, Coverage], list[UsageRow]] | None = None  # where they are not
    real: Callable[[UsageQuery], list[UsageRow]] | None = None  # and where subjects are erased, too

    # --- the control store's side ---

    def begin(self, block: Block) -> None:
        self.records.setdefault(block.number, block)

    def publish(
        self, block: Block, rows: Mapping[str, int], sources: Collection[int], now_ms: int
    ) -> bool:
        if self.unsettled():
            self.met["blocks that came while a subject was erased"] += 1
            return False
        return self.take_place(block, rows, sources, now_ms)

    def take_place(
        self, block: Block, rows: Mapping[str, int], sources: Collection[int], now_ms: int
    ) -> bool:
        """Have a block read, in the place of others."""
        partitions = self.progress.layout(block.log).partitions
        if not self.may(block, self.records.values(), sources, partitions):
            self.met["blocks that came too late"] += 1
            return False
        self.met["blocks merged" if sources else "blocks made"] += 1
        self._move(sources, BlockState.REPLACED, now_ms)
        self._move([block.number], BlockState.READABLE, now_ms)
        self.records[block.number] = replace(self.records[block.number], rows=dict(rows))
        return True

    def give_up(self, numbers: Collection[int], now_ms: int) -> None:
        given = [n for n in numbers if self._state(n) is not BlockState.READABLE]
        self._move(given, BlockState.GONE, now_ms)

    def forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if self._state(number) is BlockState.GONE:
                del self.records[number]

    def withdraw(self, numbers: Collection[int], now_ms: int) -> bool:
        gone = {*numbers, *withdrawn(self.records.values(), numbers)}
        if not all(self.made_again(n) for n in gone if self._state(n) in COUNTED_STATES):
            self.met["blocks not withdrawn, since their minutes are gone"] += 1
            return False
        self.met["blocks withdrawn"] += 1
        self._move(gone, BlockState.GONE, now_ms)
        return True

    def made_again(self, number: int) -> bool:
        return may_be_made_again(self.records[number], self.dropped())

    def kept(self, numbers: Collection[int], before: int = 0) -> bool:
        still = dropped_before(self.dropped()) <= before
        return still and all(self._state(n) in COUNTED_STATES for n in numbers)

    def coverage(self, log: int, columns: Sequence[Column], revisions: Collection[int]) -> Coverage:
        return coverage_of(log, columns, revisions, alone=log == 1)

    def lacking(self, log: int, stretches: Stretches, revisions: Sequence[int]) -> int | None:
        for revision in revisions:
            for stretch in stretches:
                unfilled = self.progress.unfilled(log, stretch.partition, revision, 1 << 30)
                if any(stretch.first <= seal.slice < stretch.end for seal in unfilled):
                    return revision
        return None

    def sealed_after(self, log: int, partition: int, offset: int, limit: int) -> list[Seal]:
        seals = self.progress.all_seals(log, partition)
        return [seal for seal in seals if seal.slice >= offset][:limit]

    def late_kept_from(self, log: int, ends: Mapping[int, int]) -> int | None:
        behind = (self.sealed_after(log, *it, 1 << 30) for it in ends.items())
        if any(seal.late is None for seals in behind for seal in seals):
            return None
        return min(self.progress.append_ms_before(log, *it) for it in ends.items())

    def events_within(self, log: int, stretches: Stretches) -> int:
        parts = (self.progress.all_seals(log, stretch.partition) for stretch in stretches)
        return sum(seal.events for seals in parts for seal in seals if _is_in(seal, stretches))

    def _state(self, number: int) -> BlockState | None:
        return self.records[number].state if number in self.records else None

    def _move(self, numbers: Collection[int], state: BlockState, now_ms: int) -> None:
        for number in numbers:
            if number in self.records and self.records[number].state is not state:
                there = self.records[number]
                self.records[number] = replace(there, state=state, changed_at_ms=now_ms)

    # --- the usage store's side ---

    def make(self, block: Block, sources: Sequence[int], sight: "Sight") -> None:
        self._insert(block.number, self._made(block, sources, sight))

    def make_part(
        self, block: Block, sources: Sequence[int], sight: "Sight", rng: random.Random
    ) -> None:
        share = rng.choice((0.0, 0.5, 1.0))
        some = [row for row in self._made(block, sources, sight) if rng.random() < share]
        self._insert(block.number, some)

    def _insert(self, number: int, rows: Iterable[BlockRow]) -> None:
        """A statement that finds rows of the block in its table writes nothing."""
        written = self.written(number)
        fresh = [row for row in rows if row.cell.table not in written]
        self.rows.setdefault(number, []).extend(fresh)

    def written(self, number: int) -> Collection[str]:
        """The tables that have rows of a block."""
        return {row.cell.table for row in self.rows.get(number, ())}

    def _made(self, block: Block, sources: Sequence[int], sight: "Sight") -> list[BlockRow]:
        found: dict[Cell, Aggregate] = {}
        for row in self._from(block, sources, sight):
            found[row.cell] = merged(found.get(row.cell, EMPTY), row.aggregate)
        made = [BlockRow(cell, one) for cell, one in sorted(found.items())]
        rng = self.usage.forgets
        if rng is not None and rng.random() < self.usage.forgets_share:
            self.met["rows of blocks forgotten in silence"] += 1
            made = [row for row in made if rng.random() < 0.5]
        return made

    def _from(self, block: Block, sources: Sequence[int], sight: "Sight") -> list[BlockRow]:
        gone = self.unsealed()
        if sources:
            kept = (row for row in self._of(sources) if row.cell.revision not in gone)
            return [sight.named(row) for row in kept]
        return [
            _row_of(table, row)
            for table in TABLES
            for row in self._slice_rows(table, block, sight.hidden)
            if block.after < row.revision <= block.upto and row.revision not in gone
        ]

    def _of(self, numbers: Collection[int]) -> list[BlockRow]:
        return [row for number in numbers for row in self.rows.get(number, ())]

    def _slice_rows(self, table: str, block: Block, hidden: Sequence[Hidden] = ()) -> list[Any]:
        name = _SOURCES.get(table, table)
        source = list(self.usage.tables[name].values())
        if name in _SOURCES.values():
            border = late_before(block.begin_ms)
            late = self.usage.tables[f"late_{name}"].values()
            source = [row for row in source if row.window >= border]
            source += [row for row in late if row.window < border]
        mine = [row for row in source if row.log == block.log and _is_in(row, block.stretches)]
        return [row for row in mine if not any(is_hidden(row, it) for it in hidden)]

    def due(self, block: Block, sources: Sequence[int], sight: "Sight") -> Due:
        rows = self._from(block, sources, sight)
        weights = {"hours": _weight(row for row in rows if row.cell.table == "hours")}
        members = {row.cell: row for row in rows if row.cell.table == "member_hours"}
        weights["member_hours"] = _weight(members.values())
        if sources:
            return Due(weights, rows=Counter(row.cell.table for row in self._of(sources)))
        gone = self.unsealed()
        of_all = [
            [
                row
                for row in self._slice_rows(table, block, sight.hidden)
                if row.revision > block.after and row.revision not in gone
            ]
            for table in TABLES
        ]
        tallies, members_ = (len(of) for of in of_all)
        accounts = self._slice_rows("accounts", block)
        return Due(weights, tallies, members_, sum(row.new for row in accounts))

    def held(self, number: int) -> dict[str, Held]:
        found, gone = {}, self.unsealed()
        for table in TABLES:
            rows = [row for row in self.rows.get(number, ()) if row.cell.table == table]
            kept = (row for row in rows if row.cell.revision not in gone)
            found[table] = Held(len(rows), 0, _weight(kept))
        return found

    def drop(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self.rows.pop(number, None)

    def counts(self) -> dict[int, dict[str, int]]:
        return {
            number: dict(Counter(row.cell.table for row in rows))
            for number, rows in self.rows.items()
            if rows
        }

    # --- whoever reads ---

    def counted(self) -> dict[int, dict[str, int]]:
        """By block, the rows that were counted, as the control store has it."""
        counted = (it for it in self.records.values() if it.state in COUNTED_STATES)
        return {it.number: dict(it.rows or {}) for it in counted}

    def damaged(self) -> bool:
        """Whether answers are refused, by the product's own rule."""
        sealed = Sealed(None, (), self.counted())
        return bool(damaged(sealed, Holdings((), {}, (), self.counts())))

    def doubled(self) -> list[int]:
        """The blocks that are read and have more rows than were counted."""
        there, counted = self.counts(), self.counted()
        return [
            number
            for number, rows in there.items()
            if self._state(number) is BlockState.READABLE
            and any(rows[table] > counted[number].get(table, 0) for table in rows)
        ]

    def note(self, log: int, now_ms: int) -> None:
        """A reader may know the records as they are now, for as long as replaced rows are kept."""
        readable = [it for it in self.records.values() if it.log == log]
        self.known.append(Known(now_ms, columns_of(readable), self.hidden(), self.dropped()))
        young = (it for it in self.known[-KNOWN_MAX:] if now_ms - it.at_ms <= 2 * BLOCK_KEPT_MS)
        self.known = list(young)

    def differing(self, log: int, query: UsageQuery) -> str | None:
        """Where an answer through blocks, by any state of the records that somebody may know, is
        not that of the tallies.
        """
        revisions = {meter.revision for meter in timeline(query.meter)}
        hidden = concerning(self.hidden(), revisions)
        plain = values_of(self.by_minute(query, hidden))
        for at_ms, columns, known, dropped in self.known:
            coverage = self.coverage(log, columns, revisions)
            coverage = replace(coverage, hidden=hidden, dropped=dropped)
            if not self.kept(coverage.blocks, dropped_before(dropped)):
                self.met["answers refused, since blocks were dropped meanwhile"] += 1
                continue
            if concerning(known, revisions) != hidden:
                self.met["answers refused, since a subject was erased meanwhile"] += 1
                continue
            try:
                through = values_of(self.through(query, coverage, hidden))
            except (Problem, Unavailable) as refusal:
                self.met[f"answers refused by {type(refusal).__name__}"] += 1
                if not self.fair(query, dropped, refusal):
                    return f"refused: {refusal}"
                continue
            self.met["answers where minutes are not kept"] += bool(dropped)
            self.met["answers through blocks"] += bool(coverage.blocks)
            if through != plain:
                return f"through blocks as of {at_ms}: {through}, not {plain}"
        return None

    def by_minute(self, query: UsageQuery, hidden: Sequence[Hidden]) -> list[UsageRow]:
        """What minutes say, as if all were kept."""
        if self.real is not None:
            return self.real(query)
        return self.usage.with_minutes.usage(query, hidden=hidden)

    def through(
        self, query: UsageQuery, coverage: Coverage, hidden: Sequence[Hidden]
    ) -> list[UsageRow]:
        """What is read through blocks."""
        if self.planned is not None:
            return self.planned(query, coverage)
        blocks = [row for n in coverage.blocks for row in self.rows.get(n, ())]
        return self.usage.usage(query, coverage, blocks, hidden)


def _is_in(one: Any, stretches: Stretches) -> bool:
    """Whether a seal or a row is of a slice in the stretches."""
    return any(it.partition == one.partition and it.first <= one.slice < it.end for it in stretches)


def values_of(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """What answers are compared by."""
    return sorted((row.subject, row.groups, row.value, row.count, row.rejected) for row in rows)


def _row_of(table: str, row: Any) -> BlockRow:
    window = row.window // HOUR * HOUR
    if table == "hours":
        cell = Cell(table, row.revision, window, row.subject, row.groups)
        return BlockRow(cell, aggregate_of(row))
    return BlockRow(Cell(table, row.revision, window, row.subject, row.groups, row.member), EMPTY)


def _weight(rows: Iterable[BlockRow]) -> int:
    total = 0
    for cell, one in rows:
        mix = one.count * 3 + one.rejected * 5 + one.total * 7 if cell.table == "hours" else 1
        total += xxh64_intdigest(repr(tuple(cell)).encode()) * mix
    return total & _MASK
