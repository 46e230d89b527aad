"""Answering a usage query: whole minutes by SQL over tallies, minutes that are cut from the raw
events. The store orders the rows, so an answer is made and passed on a part at a time.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

import msgspec

from meterline.backends.clickhouse.usage.cache import Recall, recall
from meterline.backends.clickhouse.usage.cuts import Cut, folded_cuts, has_events
from meterline.backends.clickhouse.usage.extent import extent_of, rows_at_most
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.backends.clickhouse.usage.sql import (
    COUNT_SETTINGS,
    count_statement,
    rows_settings,
    rows_statement,
    sum_statement,
)
from meterline.backends.clickhouse.usage.statement import Minutes, Part
from meterline.limits import (
    ANSWER_PART_PIECES,
    ANSWER_PART_ROWS,
    QUERY_ROWS_MAX,
    RUN_ROWS_READ,
)
from meterline.meter import Aggregate, Aggregation, Latest, merged, pieces
from meterline.ports import Unavailable
from meterline.problem import Fault, Problem, invalid
from meterline.usage import (
    Key,
    Life,
    RowMaker,
    UsageQuery,
    UsageRow,
    minutes_of,
    span_of,
    starts_of,
)


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """What the statement gives for a row, by the names of `rows_statement`."""

    b: int
    k: tuple[str, ...]
    c: int
    r: int
    v: str | None = None
    l: tuple[str, str, str, str] | None = None  # noqa: E741 - a column, by its name
    d: int = 0
    s: int = 0
    m: tuple[str, ...] = ()


_lines: Final = msgspec.json.Decoder(Line)


async def answer(
    reader: Reader,
    query: UsageQuery,
    rows_max: int | None = QUERY_ROWS_MAX,
    life: Life | None = None,
) -> AsyncGenerator[list[UsageRow], None]:
    """Rows by window, subject, groups, a part of them at a time. Raises `Problem` where the answer
    would be beyond its bounds; with `rows_max` None it may have any number of rows. With `life`
    only that life of the store answers.
    """
    if life is not None:
        reader = reader.of(life)
    parts, cuts = await pieces_of(reader, query)
    revisions = {part.meter.revision for part in parts}
    coverage = await reader.coverage(revisions)
    extent = await extent_of(reader, query, Minutes(tuple(parts), coverage=coverage), cuts)
    if extent is None:
        await reader.confirm(coverage, revisions)
        return
    starts = starts_of(query, extent.first_ms, extent.end_ms)
    minutes = Minutes(tuple(parts), tuple(minutes_of(starts)), coverage)
    recalled = recall(None if rows_max is None else reader.cache, query, minutes)
    aside = await folded_cuts(reader, query, minutes.starts, cuts)
    with_members = bool(aside)
    await recalled.add_to(aside)
    aside_rows = len(aside)

    async def within() -> None:
        if rows_max is not None:
            most = await rows_at_most(reader, query, recalled.minutes, extent)
            if most + aside_rows > rows_max:
                await _within_rows(reader, query, minutes, rows_max)

    maker = RowMaker(query, starts, (extent.first_ms, extent.end_ms))
    rows = MergedRows(query.meter.aggregation, maker, sorted(aside.items()), recalled, rows_max)
    settings = rows_settings(query, minutes)
    statement = rows_statement(
        query, recalled.minutes, with_members=with_members, rows_max=rows_max
    )
    confirmed = False
    stream = reader.stream(*statement, settings, rows.take) if parts else _nothing()
    async with aclosing(counted_before(in_parts(stream, rows), within)) as found:
        async for part in found:
            if not confirmed:  # a statement that has begun keeps what it reads
                await reader.confirm(coverage, revisions)
                confirmed = True
            yield part
    # Whoever asked for more has found the store whole after the first part.
    await recalled.keep()


async def _nothing() -> AsyncGenerator[list[UsageRow], None]:
    return
    yield []


async def in_parts(
    stream: AsyncGenerator[list[UsageRow], None], rows: "MergedRows"
) -> AsyncGenerator[list[UsageRow], None]:
    """All rows in bounded parts. What fits into one is one, also where there are no rows; else no
    part is empty.
    """
    waiting: list[UsageRow] = []
    pieces, begun = 0, False
    async with aclosing(stream):
        async for block in stream:
            too_many = len(waiting) + len(block) > ANSWER_PART_ROWS
            if waiting and block and (too_many or pieces == ANSWER_PART_PIECES):
                for part in _parts_of(waiting):
                    yield part
                waiting, pieces, begun = [], 0, True
            waiting += block
            pieces += bool(block)
    waiting += rows.rest()
    for part in _parts_of(waiting):
        yield part
    if not waiting and not begun:
        yield []


def _parts_of(rows: list[UsageRow]) -> list[list[UsageRow]]:
    return [
        rows[first : first + ANSWER_PART_ROWS] for first in range(0, len(rows), ANSWER_PART_ROWS)
    ]


async def counted_before(
    parts: AsyncGenerator[list[UsageRow], None], within: Callable[[], Awaitable[None]]
) -> AsyncGenerator[list[UsageRow], None]:
    """The same parts. Before the first of several is passed on, `within` is asked whether there are
    too many rows; what is one part has few.
    """
    async with aclosing(parts):
        first = await anext(parts)
        second = await anext(parts, None)
        if second is not None:
            await within()
        yield first
        if second is not None:
            yield second
            async for part in parts:
                yield part


async def portions(
    reader: Reader, query: UsageQuery, rows_max: int
) -> AsyncIterator[list[UsageRow]]:
    """See `meterline.usage.SubjectUsageStore.usage_by_subject`."""
    assert query.from_ms is not None, "both ends are given"
    assert query.to_ms is not None
    assert query.window is None
    assert query.group_by[:1] == ("subject",), "ordered by it"
    waiting: list[UsageRow] = []
    async with aclosing(answer(reader, query, rows_max=None)) as blocks:
        async for block in blocks:
            waiting += block
            whole = len(waiting) - len(waiting) % rows_max
            for start in range(0, whole, rows_max):
                yield waiting[start : start + rows_max]
            waiting = waiting[whole:]
    if waiting:
        yield waiting


async def total(reader: Reader, query: UsageQuery) -> tuple[int, int]:
    """See `SubjectUsageStore.usage_sum`: by the store, where it can tell exactly."""
    parts, cuts = await pieces_of(reader, query)
    revisions = {part.meter.revision for part in parts}
    coverage = await reader.coverage(revisions)
    minutes = Minutes(tuple(parts), coverage=coverage)
    statement = sum_statement(query, minutes) if parts else None
    if statement is not None and not cuts:
        ((count, value),) = await reader.query(*statement)
        await reader.confirm(coverage, revisions)
        return int(count), int(value)
    count = value = 0
    async for rows in portions(reader, query, RUN_ROWS_READ):
        count += len(rows)
        value += sum(row.value for row in rows)
    return count, value


async def pieces_of(reader: Reader, query: UsageQuery) -> tuple[list[Part], list[Cut]]:
    """The whole minutes of a query by the revisions that answer them, and the minutes that it cuts
    in which there are events.
    """
    lower = [ms for ms in (query.from_ms, query.meter.events_from_ms) if ms is not None]
    parts, cuts = [], []
    for piece in pieces(query.meter, max(lower, default=None), query.to_ms):
        span = span_of(piece.from_ms, piece.to_ms)
        if span.first < span.end:
            parts.append(Part(piece.meter, span.first, span.end))
        found = [Cut(piece.meter, *cut) for cut in span.cuts]
        cuts += [cut for cut in found if await has_events(reader, cut)]
    return parts, cuts


async def _within_rows(reader: Reader, query: UsageQuery, minutes: Minutes, rows_max: int) -> None:
    """Refuse too many rows before the first of them is sent. They are counted only where there can
    be so many.
    """
    if minutes.parts:
        ((found,),) = await reader.query(*count_statement(query, minutes), COUNT_SETTINGS)
        if found > rows_max:
            raise _too_many(rows_max)


def _too_many(rows_max: int) -> Problem:
    return invalid(Fault("from", f"the answer has over {rows_max} rows; ask for less"))


class MergedRows:
    """Rows of an answer out of the store's lines and what stands aside: what cut minutes add, and
    what is known of blocks. Both are ordered by key.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        maker: RowMaker,
        aside: Sequence[tuple[Key, Aggregate]],
        recalled: Recall,
        rows_max: int | None = QUERY_ROWS_MAX,
    ) -> None:
        self._aggregation = aggregation
        self._maker = maker
        self._aside = aside
        self._recalled = recalled
        self._rows_max = rows_max
        self._aside_at = 0
        self._unfinished = b""
        self._keys = 0
        self._open: tuple[Key, Aggregate] | None = None  # of the last line, if more may follow

    def take(self, piece: bytes) -> list[UsageRow]:
        """The rows that a piece of lines completes. Pieces end anywhere."""
        whole, newline, self._unfinished = (self._unfinished + piece).rpartition(b"\n")
        if not newline:
            return []
        try:
            lines = _lines.decode_lines(whole)
        except msgspec.MsgspecError as error:  # its error, written where rows should be
            raise Unavailable(
                "usage store: the connection ended in the middle of an answer"
            ) from error
        found: list[UsageRow] = []
        by_run = bool(self._recalled.minutes.runs)
        for line in lines:
            key = (line.b, *line.k)
            aggregate = aggregate_of_line(self._aggregation, line)
            if by_run:
                self._add_run(found, line.s, key, aggregate)
            else:
                self._add(found, key, aggregate)
        if self._rows_max is not None and self._keys > self._rows_max:
            raise _too_many(self._rows_max)
        return found

    def _add_run(self, found: list[UsageRow], run: int, key: Key, aggregate: Aggregate) -> None:
        if run:
            self._recalled.take(run, key, aggregate)
        if self._open is not None and self._open[0] == key:
            aggregate = merged(self._open[1], aggregate)
        elif self._open is not None:
            self._add(found, *self._open)
        self._open = key, aggregate

    def _add(self, found: list[UsageRow], key: Key, aggregate: Aggregate) -> None:
        self._keys += 1
        if self._aside_at < len(self._aside):
            found += self._aside_before(key)
            if self._aside_at < len(self._aside) and self._aside[self._aside_at][0] == key:
                aggregate = merged(aggregate, self._aside[self._aside_at][1])
                self._aside_at += 1
        row = self._maker.row(key, aggregate)
        if row is not None:
            found.append(row)

    def _aside_before(self, key: Key) -> list[UsageRow]:
        first = self._aside_at
        while self._aside_at < len(self._aside) and self._aside[self._aside_at][0] < key:
            self._aside_at += 1
        self._keys += self._aside_at - first
        made = (self._maker.row(*one) for one in self._aside[first : self._aside_at])
        return [row for row in made if row is not None]

    def rest(self) -> list[UsageRow]:
        """The last row, and those aside that lie behind all lines."""
        if self._unfinished:
            raise Unavailable("usage store: the connection ended in the middle of a row")
        found: list[UsageRow] = []
        if self._open is not None:
            self._add(found, *self._open)
        made = (self._maker.row(*one) for one in self._aside[self._aside_at :])
        found += [row for row in made if row is not None]
        return found


def aggregate_of_line(aggregation: Aggregation, line: Line) -> Aggregate:
    """The aggregate, as far as the aggregation needs it."""
    if not line.c:
        return Aggregate(rejected=line.r)
    match aggregation:
        case Aggregation.SUM | Aggregation.AVG:
            return Aggregate(int(line.v or 0), line.c, line.r)
        case Aggregation.MIN:
            return Aggregate(count=line.c, rejected=line.r, minimum=int(line.v or 0))
        case Aggregation.MAX:
            return Aggregate(count=line.c, rejected=line.r, maximum=int(line.v or 0))
        case Aggregation.COUNT:
            return Aggregate(count=line.c, rejected=line.r)
        case Aggregation.LATEST:
            time, recorded, key, value = line.l or ("0", "0", "", "0")
            latest = Latest(int(time), int(recorded), bytes.fromhex(key), int(value))
            return Aggregate(count=line.c, rejected=line.r, latest=latest)
        case Aggregation.UNIQUE_COUNT:
            members = frozenset(map(bytes.fromhex, line.m))
            distinct = len(members) or line.d
            return Aggregate(count=line.c, rejected=line.r, members=members, distinct=distinct)
