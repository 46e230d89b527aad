"""Answering a usage query: whole minutes by SQL over tallies, minutes that are cut from the raw
events.
"""

from typing import Any

from meterline.backends.clickhouse.connection import Connection, Rows
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.usage_sql import (
    Minutes,
    Part,
    members_statement,
    tallies_statement,
)
from meterline.event import Event, decode_event
from meterline.limits import QUERY_ROWS_MAX
from meterline.measure import Measure
from meterline.meter import Aggregation, Meter
from meterline.meter_revision import pieces
from meterline.problem import Fault, invalid
from meterline.tally import EMPTY, Aggregate, Latest, merged
from meterline.usage import UsageQuery, UsageRow
from meterline.usage_fold import EventFold, Key, rows_of, span_of, starts_of
from meterline.window import MINUTE_MS

Cut = tuple[Meter, list[Event]]


async def answer(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    """Rows by window, subject, groups. Raises `Problem` where the answer would be beyond its
    bounds.
    """
    lower = [ms for ms in (query.from_ms, query.meter.events_from_ms) if ms is not None]
    parts, cuts = [], []
    for piece in pieces(query.meter, max(lower, default=None), query.to_ms):
        span = span_of(piece.from_ms, piece.to_ms)
        if span.first < span.end:
            parts.append(Part(piece.meter, span.first, span.end))
        cuts += [
            (piece.meter, await _cut_events(connection, piece.meter, *cut)) for cut in span.cuts
        ]
    extent = await _extent(connection, parts, cuts)
    if extent is None:
        return []
    starts = starts_of(query, *extent)
    minutes = Minutes(tuple(parts), tuple(start // MINUTE_MS for start in starts))
    cut_somewhere = any(events for _, events in cuts)
    found = await _whole(connection, query, minutes, with_members=cut_somewhere)
    for meter, events in cuts:
        _add_cut(found, query, minutes, meter, events)
    if len(found) > QUERY_ROWS_MAX:
        raise invalid(Fault("from", f"the answer has over {QUERY_ROWS_MAX} rows; ask for less"))
    return rows_of(query, starts, extent, found)


async def _cut_events(
    connection: Connection, meter: Meter, from_ms: int, to_ms: int
) -> list[Event]:
    parameters = {
        "namespace": meter.namespace,
        "type": meter.event_type,
        "from_ms": from_ms,
        "to_ms": to_ms,
    }
    rows = await connection.query(QUERIES["cut_events"], parameters)
    return [decode_event(row[-1].encode()) for row in rows]


async def _extent(
    connection: Connection, parts: list[Part], cuts: list[Cut]
) -> tuple[int, int] | None:
    """First and last instant that usage can lie at: [first, last) in whole minutes; None where
    there is none.
    """
    instants = [event.time_ms // MINUTE_MS for _, events in cuts for event in events]
    for part in parts:
        parameters = {"revision": part.meter.revision, "first": part.first, "end": part.end}
        ((first, last, count),) = await connection.query(QUERIES["span"], parameters)
        if count:
            instants += [first, last]
    if not instants:
        return None
    return min(instants) * MINUTE_MS, (max(instants) + 1) * MINUTE_MS


async def _whole(
    connection: Connection, query: UsageQuery, minutes: Minutes, *, with_members: bool
) -> dict[Key, Aggregate]:
    if not minutes.parts:
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
    found: dict[Key, Aggregate],
    query: UsageQuery,
    minutes: Minutes,
    meter: Meter,
    events: list[Event],
) -> None:
    """Fold raw events by the very rule of the aggregator and merge them in."""
    fold = EventFold(query, Measure(meter), minutes.starts)
    for event in events:
        fold.add(event)
    for key, aggregate in fold.found().items():
        found[key] = merged(found.get(key, EMPTY), aggregate)
