"""What blocks answered, kept for whoever asks again.

A block is never revised, so what some blocks answered to a question stays true. Blocks are added
and merged all the time, the newest most often. So an answer is kept by *runs*: of blocks that
follow each other and whose columns are about as large. What becomes of the newest leaves the runs
of older ones as they are. What is not kept of a question is read, and so are minutes, always.

Numbers of blocks are never given twice. What was kept of a block that is replaced or withdrawn is
not found any more.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from meterline.backends.clickhouse.usage.sources import rows_source
from meterline.backends.clickhouse.usage.statement import Kind, Minutes, Statement
from meterline.limits import (
    ANSWER_ROWS_AT_ONCE,
    BLOCK_CACHE_ANSWER_BYTES_MAX,
    BLOCK_CACHE_BYTES_MAX,
    BLOCK_CACHE_RUN_SHARE,
    BLOCK_ENDS_KEPT_MAX,
)
from meterline.meter import Aggregate, Aggregation, merged
from meterline.usage import Key, UsageQuery

Run = tuple[int, ...]  # numbers of blocks, one behind the other
Rows = dict[Key, Aggregate]

_QUESTION_BYTES: Final = 512  # of a question besides its rows: about what the objects take
_ROW_BYTES: Final = 100  # of a row besides its texts
_rows: Final = msgspec.json.Decoder(list[tuple[tuple[int | str, ...], Aggregate]])


class Kept(NamedTuple):
    """The rows that a run gave, encoded."""

    run: Run
    rows: bytes
    keys: int


Answer = tuple[Kept, ...]  # by the order of their blocks
TOO_LARGE: Final[Answer] = ()


class BlockCache:
    """Answers by question; whichever was asked longest ago goes first.

    It holds at most `bytes_max`, and no answer above `answer_bytes_max`: of these it only knows
    that they are too large.
    """

    def __init__(
        self,
        bytes_max: int = BLOCK_CACHE_BYTES_MAX,
        answer_bytes_max: int = BLOCK_CACHE_ANSWER_BYTES_MAX,
    ) -> None:
        self.answer_bytes_max = answer_bytes_max
        self.held = 0  # bytes
        self._bytes_max = bytes_max
        self._answers: OrderedDict[bytes, Answer] = OrderedDict()

    def found(self, question: bytes) -> Answer | None:
        """What is kept; `TOO_LARGE`; None where nothing is known of it."""
        answer = self._answers.get(question)
        if answer is not None:
            self._answers.move_to_end(question)
        return answer

    def keep(self, question: bytes, answer: Answer) -> None:
        """From now on this is found."""
        if size_of(answer) > self.answer_bytes_max:
            answer = TOO_LARGE
        self._drop(question)
        self._answers[question] = answer
        self.held += _QUESTION_BYTES + size_of(answer)
        while self.held > self._bytes_max:
            self._drop(next(iter(self._answers)))

    def _drop(self, question: bytes) -> None:
        answer = self._answers.pop(question, None)
        if answer is not None:
            self.held -= _QUESTION_BYTES + size_of(answer)


class BlockEnds:
    """The first and the last minute of what blocks have, by question; whichever was asked longest
    ago goes first.
    """

    def __init__(self, kept_max: int = BLOCK_ENDS_KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._found: OrderedDict[bytes, Sequence[int]] = OrderedDict()

    def get(self, question: bytes) -> Sequence[int] | None:
        """What is kept; None where nothing is known."""
        found = self._found.get(question)
        if found is not None:
            self._found.move_to_end(question)
        return found

    def keep(self, question: bytes, found: Sequence[int]) -> None:
        """From now on this is found."""
        self._found[question] = found
        self._found.move_to_end(question)
        while len(self._found) > self._kept_max:
            self._found.popitem(last=False)


@dataclass(slots=True)
class AskedEnds:
    """The ends that one answer needs: those that are kept, and those that it found."""

    known: BlockEnds
    _found: dict[bytes, Sequence[int]] = field(default_factory=dict)

    def get(self, question: bytes) -> Sequence[int] | None:
        """What is known; None where it must be read."""
        found = self._found.get(question)
        return self.known.get(question) if found is None else found

    def found(self, question: bytes, ends: Sequence[int]) -> None:
        """This was read."""
        self._found[question] = ends

    def keep(self) -> None:
        """Keep what was read. To be called as `Recall.keep`."""
        for question, ends in self._found.items():
            self.known.keep(question, ends)


def ends_question(blocks: Sequence[int], revision: int, first: int, end: int, kept: int) -> bytes:
    """What decides the ends of a revision in these blocks, between two minutes, where minutes are
    kept from one on.
    """
    whole = msgspec.json.encode((blocks, revision, first, end, kept))
    return blake2b(whole, digest_size=16).digest()


def size_of(answer: Answer) -> int:
    """Bytes of its rows."""
    return sum(len(kept.rows) for kept in answer)


def runs_of(blocks: Sequence[int], sizes: Sequence[int]) -> list[Run]:
    """Blocks in runs: one begins where a column is much smaller than the largest of the run.

    Columns that are merged are about as large as each other. So a merger changes one run.
    """
    runs: list[list[int]] = []
    largest = 0
    for block, size in zip(blocks, sizes, strict=True):
        if runs and size * BLOCK_CACHE_RUN_SHARE >= largest:
            runs[-1].append(block)
            largest = max(largest, size)
        else:
            runs.append([block])
            largest = size
    return [tuple(run) for run in runs]


def unknown_of(runs: Sequence[Run], answer: Answer) -> tuple[list[Kept], list[Run]]:
    """What of an answer is of these blocks, and the blocks that must be read, by run."""
    blocks = [block for run in runs for block in run]
    begins = {run[0] for run in runs}
    by_first = {kept.run[0]: kept for kept in answer}
    known: list[Kept] = []
    unknown: list[Run] = []
    at, begin = 0, True
    while at < len(blocks):
        kept = by_first.get(blocks[at])
        if kept is not None and tuple(blocks[at : at + len(kept.run)]) == kept.run:
            known.append(kept)
            at += len(kept.run)
            begin = True
            continue
        if begin or blocks[at] in begins:
            unknown.append(())
        unknown[-1] += (blocks[at],)
        at += 1
        begin = False
    return known, unknown


def joined(runs: Sequence[Run], parts: Iterable[Kept]) -> Answer:
    """The parts of an answer in their order; those within one run are made one."""
    run_of = {block: at for at, run in enumerate(runs) for block in run}
    place = {block: at for at, block in enumerate(run_of)}
    found: list[Kept] = []
    for part in sorted(parts, key=lambda it: place[it.run[0]]):
        if found and run_of[found[-1].run[-1]] == run_of[part.run[0]]:
            rows = decoded(found[-1])
            add_to(rows, decoded(part))
            found[-1] = encoded((*found[-1].run, *part.run), rows)
        else:
            found.append(part)
    return tuple(found)


def encoded(run: Run, rows: Rows) -> Kept:
    """Rows as they are kept."""
    return Kept(run, msgspec.json.encode(list(rows.items())), len(rows))


def decoded(kept: Kept) -> Rows:
    """Rows that were kept."""
    return dict(_rows.decode(kept.rows))


def add_to(rows: MutableMapping[Key, Aggregate], others: Mapping[Key, Aggregate]) -> None:
    """Merge others into rows, by the rule of all tallies."""
    for key, aggregate in others.items():
        there = rows.get(key)
        rows[key] = aggregate if there is None else merged(there, aggregate)


@dataclass(slots=True)
class Recall:
    """One question: what is known of its answer, and what must be read of `minutes`.

    Without a cache nothing is known, and nothing is kept.
    """

    minutes: Minutes
    cache: BlockCache | None = None
    question: bytes = b""
    runs: Sequence[Run] = ()
    known: Sequence[Kept] = ()
    _read: list[Rows] = field(default_factory=list)  # by run of `minutes`
    _room: int = 0

    @property
    def count(self) -> int:
        """Rows that are known, at most."""
        return sum(kept.keys for kept in self.known)

    async def add_to(self, rows: MutableMapping[Key, Aggregate]) -> None:
        """Merge what is known into other rows; many of them beside the loop."""
        if self.count <= ANSWER_ROWS_AT_ONCE:
            self._add_to(rows)
        else:
            await asyncio.to_thread(self._add_to, rows)

    def _add_to(self, rows: MutableMapping[Key, Aggregate]) -> None:
        for kept in self.known:
            add_to(rows, decoded(kept))

    def take(self, run: int, key: Key, aggregate: Aggregate) -> None:
        """A row that was read of a run of `minutes`, from 1 on."""
        if self._room < 0:
            return
        self._room -= _ROW_BYTES + sum(map(len, key[1:]))
        self._read[run - 1][key] = aggregate
        if self._room < 0:  # it would not be kept
            self._read.clear()

    async def keep(self) -> None:
        """Keep what is known and what was read. To be called once all rows were taken, and it is
        certain that the store had lost nothing when they were read.
        """
        if self.cache is None or not self.minutes.runs:
            return
        if self._room < 0:
            answer = TOO_LARGE
        elif self.count + sum(map(len, self._read)) <= ANSWER_ROWS_AT_ONCE:
            answer = self._answer()
        else:
            answer = await asyncio.to_thread(self._answer)
        self.cache.keep(self.question, answer)

    def _answer(self) -> Answer:
        read = [encoded(*one) for one in zip(self.minutes.runs, self._read, strict=True)]
        return joined(self.runs, [*self.known, *read])


def recall(cache: BlockCache | None, query: UsageQuery, minutes: Minutes) -> Recall:
    """What is known of an answer. Distinct values are not kept: they are sets, and large."""
    coverage = minutes.coverage
    unique = query.meter.aggregation is Aggregation.UNIQUE_COUNT
    if cache is None or unique or coverage is None or not coverage.blocks:
        return Recall(minutes)
    question = question_of(query, minutes)
    answer = None if question is None else cache.found(question)
    if question is None or answer == TOO_LARGE:
        return Recall(minutes)
    runs = runs_of(coverage.blocks, coverage.sizes)
    known, unknown = unknown_of(runs, answer or ())
    left = replace(coverage, blocks=tuple(block for run in unknown for block in run), sizes=())
    reading = replace(minutes, coverage=left, runs=tuple(unknown))
    rows: list[Rows] = [{} for _ in unknown]
    return Recall(reading, cache, question, runs, known, rows, cache.answer_bytes_max)


def question_of(query: UsageQuery, minutes: Minutes) -> bytes | None:
    """What decides the rows that blocks give, but for which blocks these are: the statement itself.
    None where it reads no block.
    """
    assert minutes.coverage is not None, "there are blocks"
    statement = Statement()
    any_block = replace(minutes, coverage=replace(minutes.coverage, blocks=(0,), sizes=()))
    sql = rows_source(query, any_block, statement, kind=Kind.BLOCKS)
    if not sql:
        return None
    whole = msgspec.json.encode((query.meter.aggregation, sql, statement.parameters))
    return blake2b(whole, digest_size=16).digest()
