"""Answering a usage query: whole minutes by SQL over tallies, minutes that are cut from the raw
events. The store orders the rows, so an answer is made and passed on a part at a time.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from meterline.backends.clickhouse.usage.cache import AskedEnds, recall
from meterline.backends.clickhouse.usage.cuts import Cut, folded_cuts, has_events
from meterline.backends.clickhouse.usage.extent import extent_of, rows_at_most
from meterline.backends.clickhouse.usage.lines import MergedRows, too_many
from meterline.backends.clickhouse.usage.reading import Reading
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.backends.clickhouse.usage.sql import (
    COUNT_SETTINGS,
    count_statement,
    sum_statement,
)
from meterline.backends.clickhouse.usage.statement import Minutes, Part
from meterline.limits import (
    ANSWER_PART_PIECES,
    ANSWER_PART_ROWS,
    ANSWER_READINGS_MAX,
    QUERY_ROWS_MAX,
    RUN_ROWS_READ,
)
from meterline.meter import pieces
from meterline.ports import ChangedMeanwhile
from meterline.usage import (
    Life,
    RowMaker,
    UsageQuery,
    UsageRow,
    minutes_of,
    span_of,
    starts_of,
)


async def answer(
    reader: Reader,
    query: UsageQuery,
    rows_max: int | None = QUERY_ROWS_MAX,
    life: Life | None = None,
) -> AsyncGenerator[list[UsageRow], None]:
    """Rows by window, subject, groups, a part of them at a time. Raises `Problem` where the answer
    would be beyond its bounds; with `rows_max` None it may have any number of rows. With `life`
    only that life of the store answers.

    A subject may be erased, or blocks be replaced, while it is read. Then it is read again, unless
    some of it was passed on; at last `ChangedMeanwhile` is raised.
    """
    if life is not None:
        reader = reader.of(life)
    for left in reversed(range(ANSWER_READINGS_MAX)):
        begun = False
        try:
            async with aclosing(_read(reader, query, rows_max)) as parts:
                async for part in parts:
                    begun = True
                    yield part
        except ChangedMeanwhile:
            if begun or not left:
                raise
        else:
            return


async def _read(
    reader: Reader, query: UsageQuery, rows_max: int | None
) -> AsyncGenerator[list[UsageRow], None]:
    """The same, read once."""
    parts, cuts = await pieces_of(reader, query)
    revisions = {part.meter.revision for part in parts}
    coverage = await reader.coverage(revisions)
    ends = AskedEnds(reader.ends)
    extent = await extent_of(reader, query, Minutes(tuple(parts), coverage=coverage), cuts, ends)
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
    confirmed = False
    reading = Reading(reader, query, recalled.minutes, rows, with_members, rows_max)
    async with aclosing(counted_before(in_parts(reading.rows(), rows), within)) as found:
        async for part in found:
            if not confirmed:  # a statement that has begun keeps what it reads
                await reader.confirm(coverage, revisions)
                confirmed = True
            yield part
    # Whoever asked for more has found the store whole after the first part.
    await recalled.keep()
    ends.keep()


async def in_parts(
    stream: AsyncGenerator[list[UsageRow], None], rows: MergedRows
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
            raise too_many(rows_max)
