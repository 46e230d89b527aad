"""Where usage can lie, and how many rows an answer may have, before it is read."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from meterline.backends.clickhouse.usage.cache import AskedEnds, ends_question
from meterline.backends.clickhouse.usage.cuts import Cut
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.backends.clickhouse.usage.sources import uncovered
from meterline.backends.clickhouse.usage.sql import estimate_statement
from meterline.backends.clickhouse.usage.statement import Minutes, Part, Statement, of_minutes
from meterline.limits import QUERY_CLOSED_WINDOWS_MAX
from meterline.usage import Coverage, Operator, UsageQuery, dropped_before
from meterline.window import MINUTE_MS, WindowSize

HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1_440
_ROWS_AT: Final = -2  # of a line of an estimate: database, table, parts, rows, marks


@dataclass(frozen=True, slots=True)
class Extent:
    """Usage lies at [first_ms, end_ms), in whole minutes."""

    first_ms: int
    end_ms: int


async def extent_of(
    reader: Reader, query: UsageQuery, minutes: Minutes, cuts: Sequence[Cut], ends: AskedEnds
) -> Extent | None:
    """Where usage can lie; None where there is none. Where both ends are given and the windows in
    between are not very many, that is the answer, and nothing is read.
    """
    instants = [cut.minute for cut in cuts]
    for part in minutes.parts:
        if _is_closed(query, part):
            instants += [part.first, part.end - 1]
        else:
            instants += await _found(reader, part, minutes.coverage, ends)
    if not instants:
        return None
    return Extent(min(instants) * MINUTE_MS, (max(instants) + 1) * MINUTE_MS)


def _is_closed(query: UsageQuery, part: Part) -> bool:
    if query.from_ms is None or query.to_ms is None:
        return False
    if query.window in (None, WindowSize.MINUTE):
        return True
    shortest = 60 if query.window is WindowSize.HOUR else DAY_MINUTES
    return (part.end - part.first) // shortest <= QUERY_CLOSED_WINDOWS_MAX


async def _found(
    reader: Reader, part: Part, coverage: Coverage | None, ends: AskedEnds
) -> list[int]:
    """The first and the last minute with usage; where minutes are not kept, of its hours."""
    if coverage is None or not (coverage.blocks or coverage.dropped):
        return await _minutes(reader, part)
    newest, of_blocks = await asyncio.gather(
        _minutes(reader, part, coverage), _ends(reader, part, coverage, ends)
    )
    return [*newest, *of_blocks]


async def _ends(reader: Reader, part: Part, coverage: Coverage, ends: AskedEnds) -> Sequence[int]:
    """The first and the last minute of what blocks have. No block is ever revised, so what was
    found of these stays true.
    """
    revision, dropped = part.meter.revision, dropped_before(coverage.dropped)
    question = ends_question(coverage.blocks, revision, part.first, part.end, dropped)
    known = ends.get(question)
    if known is None:
        both = (_end(reader, part, coverage, last=last) for last in (False, True))
        known = tuple(minute for found in await asyncio.gather(*both) for minute in found)
        ends.found(question, known)
    return known


async def _end(reader: Reader, part: Part, coverage: Coverage, *, last: bool) -> list[int]:
    """The first or the last minute of what blocks have. Only a day at an end of the part may have
    none in the part: then it is the next one.
    """
    first, end = part.first // DAY_MINUTES, -(-part.end // DAY_MINUTES)
    while first < end:
        statement = Statement()
        blocks = statement.bind(list(coverage.blocks), "Array(UInt64)")
        revision = statement.bind(part.meter.revision, "UInt32")
        sql = f"""SELECT {"max" if last else "min"}(day), count() FROM days
WHERE block IN {blocks} AND revision = {revision} AND day >= {first} AND day < {end}"""  # noqa: S608 - values are bound
        ((day, count),) = await reader.query(sql, statement.parameters)
        if not count:
            break
        within = max(day * DAY_MINUTES, part.first), min((day + 1) * DAY_MINUTES, part.end)
        of_day = Part(part.meter, *within)
        if within[0] < dropped_before(coverage.dropped):
            found = await _hours(reader, of_day, coverage)
        else:
            found = await _minutes(reader, of_day)
        if found:
            return found
        first, end = (first, day) if last else (day + 1, end)
    return []


async def _hours(reader: Reader, part: Part, coverage: Coverage) -> list[int]:
    """The first and the last minute of the hours of blocks in a part of a day."""
    statement = Statement()
    blocks = statement.bind(list(coverage.blocks), "Array(UInt64)")
    revision = statement.bind(part.meter.revision, "UInt32")
    first, end = part.first // HOUR_MINUTES, -(-part.end // HOUR_MINUTES)
    sql = f"""SELECT min(hour), max(hour), count() FROM hours
WHERE block IN {blocks} AND revision = {revision} AND hour >= {first} AND hour < {end}"""  # noqa: S608 - values are bound
    ((least, most, count),) = await reader.query(sql, statement.parameters)
    if not count:
        return []
    last = (most + 1) * HOUR_MINUTES - 1
    return [max(least * HOUR_MINUTES, part.first), min(last, part.end - 1)]


async def _minutes(reader: Reader, part: Part, newest: Coverage | None = None) -> list[int]:
    """The first and the last minute among tallies, of all slices or of those without a block."""
    statement, branches = Statement(), []
    for table, first, end in _tables(part, 0 if newest is None else newest.late_before):
        where = [of_minutes(Part(part.meter, first, end), statement)]
        if newest is not None:
            where.append(uncovered(newest, statement))
        sql = f"SELECT min(window), max(window), count() FROM {table} WHERE {' AND '.join(where)}"  # noqa: S608 - values are bound
        branches.append(sql)
    if not branches:
        return []
    rows = await reader.query("\nUNION ALL\n".join(branches), statement.parameters)
    return [minute for least, most, count in rows if count for minute in (least, most)]


def _tables(part: Part, border: int) -> list[tuple[str, int, int]]:
    """Where the minutes of a part are read, of slices whose late rows lie before a border."""
    both = (
        ("tallies", max(part.first, border), part.end),
        ("late_tallies", part.first, min(part.end, border)),
    )
    return [(table, first, end) for table, first, end in both if first < end]


async def rows_at_most(reader: Reader, query: UsageQuery, minutes: Minutes, extent: Extent) -> int:
    """No answer has more rows. Where the query names all values that rows are split by, it follows
    from the query; else the store tells how many rows it would read.
    """
    if not minutes.parts:
        return 0
    groups = _groups_at_most(query)
    if groups is not None:
        minutely = query.window is WindowSize.MINUTE
        windows = (
            (extent.end_ms - extent.first_ms) // MINUTE_MS if minutely else len(minutes.starts)
        )
        return (windows + 1) * groups
    lines = await reader.of_each_server(*estimate_statement(query, minutes))
    return sum(int(line[_ROWS_AT]) for line in lines)


def _groups_at_most(query: UsageQuery) -> int | None:
    """How many rows a window has at most, by the values that filters name; None where there is a
    name without such a filter.
    """
    named = {
        name: len(it.values)
        for name, it in query.filters
        if it.operator in (Operator.EQ, Operator.IN)
    }
    if not all(name in named for name in query.group_by):
        return None
    return math.prod(named[name] for name in query.group_by)
