"""Answering a usage query: whole minutes by SQL over tallies, minutes that are cut from the raw
events.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from meterline.backends.clickhouse.connection import Connection, Rows
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.usage_sql import Minutes, members_statement, tallies_statement
from meterline.event import Event, decode_event
from meterline.limits import EVENT_TIME_MAX_MS, QUERY_ROWS_MAX, QUERY_WINDOWS_MAX
from meterline.measure import Measure, decode_groups
from meterline.meter import Aggregation
from meterline.problem import Fault, invalid
from meterline.tally import EMPTY, Aggregate, Latest, Tally, aggregate_of, merged
from meterline.usage import UsageQuery, UsageRow, value_of
from meterline.window import DAY_MS, HOUR_MS, MINUTE_MS, WindowSize, window_starts

Key = tuple[
    Any, ...
]  # bucket in minutes, subject ("" where not asked for), values of the dimensions asked for
_SHORTEST_MS: Final = {
    WindowSize.MINUTE: MINUTE_MS,
    WindowSize.HOUR: HOUR_MS,
    WindowSize.DAY: 23 * HOUR_MS,
    WindowSize.MONTH: 27 * DAY_MS,
}


@dataclass(frozen=True, slots=True)
class Span:
    """What is asked for, in whole minutes [first, end), and the cut pieces of minutes in
    milliseconds.
    """

    first: int
    end: int
    cuts: tuple[tuple[int, int], ...]


def span_of(from_ms: int | None, to_ms: int | None) -> Span:
    """Whole minutes and cut pieces of [from_ms, to_ms)."""
    start = max(0, from_ms or 0)
    end = EVENT_TIME_MAX_MS if to_ms is None else min(to_ms, EVENT_TIME_MAX_MS)
    if end <= start:
        return Span(0, 0, ())
    first, last = -(-start // MINUTE_MS), end // MINUTE_MS
    if first > last:  # both ends within one minute
        return Span(0, 0, ((start, end),))
    cuts = []
    if start % MINUTE_MS:
        cuts.append((start, first * MINUTE_MS))
    if end % MINUTE_MS:
        cuts.append((last * MINUTE_MS, end))
    return Span(first, last, tuple(cuts))


async def answer(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    """Rows by window, subject, groups. Raises `Problem` where the answer would be beyond its
    bounds.
    """
    lower = [ms for ms in (query.from_ms, query.meter.events_from_ms) if ms is not None]
    span = span_of(max(lower, default=None), query.to_ms)
    events = [e for cut in span.cuts for e in await _cut_events(connection, query, *cut)]
    extent = await _extent(connection, query, span, events)
    if extent is None:
        return []
    starts = [max(start, 0) for start in _starts(query, *extent)]  # no minute lies before 1970
    minutes = Minutes(span.first, span.end, tuple(start // MINUTE_MS for start in starts))
    found = await _whole(connection, query, minutes, with_members=bool(events))
    _add_cut(found, query, minutes, events)
    if len(found) > QUERY_ROWS_MAX:
        raise invalid(Fault("from", f"the answer has over {QUERY_ROWS_MAX} rows; ask for less"))
    return _rows(query, starts, extent, found)


async def _cut_events(
    connection: Connection, query: UsageQuery, from_ms: int, to_ms: int
) -> list[Event]:
    meter = query.meter
    parameters = {
        "namespace": meter.namespace,
        "type": meter.event_type,
        "from_ms": from_ms,
        "to_ms": to_ms,
    }
    rows = await connection.query(QUERIES["cut_events"], parameters)
    return [decode_event(row[-1].encode()) for row in rows]


async def _extent(
    connection: Connection, query: UsageQuery, span: Span, events: list[Event]
) -> tuple[int, int] | None:
    """First and last instant that usage can lie at: [first, last) in whole minutes; None where
    there is none.
    """
    parameters = {"revision": query.meter.revision, "first": span.first, "end": span.end}
    ((first, last, count),) = await connection.query(QUERIES["span"], parameters)
    instants = [event.time_ms // MINUTE_MS for event in events]
    if count:
        instants += [first, last]
    if not instants:
        return None
    return min(instants) * MINUTE_MS, (max(instants) + 1) * MINUTE_MS


def _starts(query: UsageQuery, first_ms: int, end_ms: int) -> list[int]:
    if query.window in (None, WindowSize.MINUTE):
        return []
    assert query.window is not None, "just checked"
    if (end_ms - first_ms) // _SHORTEST_MS[query.window] > QUERY_WINDOWS_MAX:
        reason = (
            f"usage spans over {QUERY_WINDOWS_MAX} windows; give from and to, or larger windows"
        )
        raise invalid(Fault("from", reason))
    return window_starts(first_ms, end_ms - 1, query.window, query.zone)


async def _whole(
    connection: Connection, query: UsageQuery, minutes: Minutes, *, with_members: bool
) -> dict[Key, Aggregate]:
    if minutes.first >= minutes.end:
        return {}
    rows = await connection.query(*tallies_statement(query, minutes))
    found = {tuple(row[:-6]): _aggregate(row[-6:]) for row in rows}
    if query.meter.aggregation is not Aggregation.UNIQUE_COUNT:
        return found
    rows = await connection.query(*members_statement(query, minutes, whole=with_members))
    return _with_distinct(found, rows)


def _aggregate(values: Any) -> Aggregate:
    total, counted, rejected, minimum, maximum, latest = values
    if not counted:
        return Aggregate(rejected=rejected)
    return Aggregate(total, counted, rejected, minimum, maximum, Latest(*latest))


def _with_distinct(found: dict[Key, Aggregate], rows: Rows) -> dict[Key, Aggregate]:
    result = dict(found)
    for *key, distinct in rows:
        one = found.get(tuple(key), EMPTY)
        members = frozenset(distinct) if isinstance(distinct, list) else frozenset[bytes]()
        number = len(members) if isinstance(distinct, list) else distinct
        result[tuple(key)] = Aggregate(
            count=one.count, rejected=one.rejected, members=members, distinct=number
        )
    return result


def _add_cut(
    found: dict[Key, Aggregate], query: UsageQuery, minutes: Minutes, events: Iterable[Event]
) -> None:
    """Fold raw events by the very rule of the aggregator and merge them in."""
    measure = Measure(query.meter)
    names = query.meter.dimension_names
    for event in events:
        texts = dict(zip(names, decode_groups(measure.groups(event.data)), strict=True))
        texts["subject"] = event.subject
        if not all(condition.accepts(texts[name]) for name, condition in query.filters):
            continue
        bucket = _bucket(query, minutes, event.time_ms // MINUTE_MS)
        subject = event.subject if query.by_subject else ""
        key = (bucket, subject, *(texts[name] for name in query.dimensions))
        found[key] = merged(found.get(key, EMPTY), _single(measure, event))


def _bucket(query: UsageQuery, minutes: Minutes, minute: int) -> int:
    if query.window is None:
        return 0
    if query.window is WindowSize.MINUTE:
        return minute
    return max(start for start in minutes.starts if start <= minute)


def _single(measure: Measure, event: Event) -> Aggregate:
    if measure.aggregation is Aggregation.UNIQUE_COUNT:
        member = measure.member(event.data)
        if member is None:
            return Aggregate(rejected=1)
        return Aggregate(count=1, members=frozenset((member,)), distinct=1)
    tally = Tally()
    return aggregate_of(tally) if measure.add(tally, event) else Aggregate(rejected=1)


def _rows(
    query: UsageQuery, starts: list[int], extent: tuple[int, int], found: dict[Key, Aggregate]
) -> list[UsageRow]:
    ends = {start // MINUTE_MS: end for start, end in pairwise(starts)}
    rows = []
    for key in sorted(found):
        aggregate = found[key]
        value = value_of(query.meter.aggregation, aggregate)
        if value is None:
            continue
        from_ms, to_ms = _bounds(query, extent, ends, key[0])
        rows.append(
            UsageRow(
                from_ms,
                to_ms,
                key[1] if query.by_subject else None,
                tuple(zip(query.dimensions, key[2:], strict=True)),
                value,
                aggregate.count,
                aggregate.rejected,
            )
        )
    return rows


def _bounds(
    query: UsageQuery, extent: tuple[int, int], ends: dict[int, int], bucket: int
) -> tuple[int, int]:
    if query.window is None:
        from_ms = extent[0] if query.from_ms is None else query.from_ms
        return from_ms, extent[1] if query.to_ms is None else query.to_ms
    start_ms = bucket * MINUTE_MS
    return start_ms, start_ms + MINUTE_MS if query.window is WindowSize.MINUTE else ends[bucket]
