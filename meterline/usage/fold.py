"""How an answer about usage is put together (pure): spans of whole minutes and cut ones, windows,
raw events folded into keys, and aggregates as rows.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from meterline.event import Event
from meterline.limits import EVENT_TIME_MAX_MS, QUERY_WINDOWS_MAX
from meterline.meter import Aggregate, Aggregation, Measure, Tally, aggregate_of, decode_groups
from meterline.problem import Fault, invalid
from meterline.usage.query import UsageQuery, UsageRow, value_of
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


def starts_of(query: UsageQuery, first_ms: int, end_ms: int) -> list[int]:
    """Starts of the query's windows over [first_ms, end_ms), and the end of the last; none where a
    row is a minute or everything. Raises `Problem` where they are too many.
    """
    if query.window in (None, WindowSize.MINUTE):
        return []
    assert query.window is not None, "just checked"
    if (end_ms - first_ms) // _SHORTEST_MS[query.window] > QUERY_WINDOWS_MAX:
        reason = (
            f"usage spans over {QUERY_WINDOWS_MAX} windows; give from and to, or larger windows"
        )
        raise invalid(Fault("from", reason))
    return window_starts(first_ms, end_ms - 1, query.window, query.zone)


def minutes_of(starts: Sequence[int]) -> list[int]:
    """The first minutes of windows; no minute lies before 1970, though a window may begin there."""
    return [max(start, 0) // MINUTE_MS for start in starts]


class EventFold:
    """Folds raw events of one revision into the keys of a query, by the rule of the aggregator.

    `starts` are those of the windows, in minutes.
    """

    def __init__(self, query: UsageQuery, measure: Measure, starts: Sequence[int]) -> None:
        self._query = query
        self._measure = measure
        self._names = measure.meter.dimension_names
        self._starts = starts
        self._unique = measure.aggregation is Aggregation.UNIQUE_COUNT
        self._tallies: dict[Key, Tally] = {}
        self._members: dict[Key, set[bytes]] = {}
        self.matched = 0  # events that pass the filters
        self.counted = 0  # those of them that have a usable value
        self.held = 0  # keys, and distinct values in them

    def add(self, event: Event) -> bool:
        """Take an event in; False where it should count and has no usable value."""
        query = self._query
        texts = dict(zip(self._names, decode_groups(self._measure.groups(event.data)), strict=True))
        texts["subject"] = event.subject
        if not all(condition.accepts(texts.get(name, "")) for name, condition in query.filters):
            return True
        if not query.has_subject(event.subject):
            return True
        bucket = self._bucket(event.time_ms // MINUTE_MS)
        subject = event.subject if query.by_subject else ""
        key = (bucket, subject, *(texts.get(name, "") for name in query.dimensions))
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
            self.held += 1
        counts = self._add_member(key, tally, event) if self._unique else self._add(tally, event)
        tally.rejected += not counts
        self.matched += 1
        self.counted += counts
        return counts

    def _add(self, tally: Tally, event: Event) -> bool:
        return self._measure.add(tally, event)

    def _add_member(self, key: Key, tally: Tally, event: Event) -> bool:
        member = self._measure.member(event.data)
        if member is None:
            return False
        tally.count += 1
        members = self._members.setdefault(key, set())
        self.held += member not in members
        members.add(member)
        return True

    def found(self) -> dict[Key, Aggregate]:
        """What was folded so far, by key."""
        result = {key: aggregate_of(tally) for key, tally in self._tallies.items()}
        for key, members in self._members.items():
            whole = frozenset(members)
            result[key] = replace(result[key], members=whole, distinct=len(whole))
        return result

    def _bucket(self, minute: int) -> int:
        if self._query.window is None:
            return 0
        if self._query.window is WindowSize.MINUTE:
            return minute
        return self._starts[bisect_right(self._starts, minute) - 1]


def rows_of(
    query: UsageQuery,
    starts: Sequence[int],
    extent: tuple[int, int],
    found: Mapping[Key, Aggregate],
) -> list[UsageRow]:
    """The rows of an answer, ordered by window, subject and groups. `starts` in milliseconds;
    `extent` is shown where an end of the query is open.
    """
    maker = RowMaker(query, starts, extent)
    made = (maker.row(key, found[key]) for key in sorted(found))
    return [row for row in made if row is not None]


class RowMaker:
    """Makes the rows of one answer, one at a time.

    `starts` in milliseconds; `extent` is shown where an end of the query is open.
    """

    def __init__(self, query: UsageQuery, starts: Sequence[int], extent: tuple[int, int]) -> None:
        self._window = query.window
        self._aggregation = query.meter.aggregation
        self._rejected_too = query.rejected_too
        self._by_subject = query.by_subject
        self._dimensions = query.dimensions
        self._windows = dict(zip(minutes_of(starts), pairwise(starts), strict=False))
        from_ms = extent[0] if query.from_ms is None else query.from_ms
        self._whole = from_ms, extent[1] if query.to_ms is None else query.to_ms

    def row(self, key: Key, aggregate: Aggregate) -> UsageRow | None:
        """The row of a key; None where nothing counted there, and nothing else is asked for."""
        value = value_of(self._aggregation, aggregate)
        if value is None:
            if not (self._rejected_too and aggregate.rejected):
                return None
            value = 0
        from_ms, to_ms = self._bounds(key[0])
        return UsageRow(
            from_ms,
            to_ms,
            key[1] if self._by_subject else None,
            tuple(zip(self._dimensions, key[2:], strict=True)),
            value,
            aggregate.count,
            aggregate.rejected,
        )

    def _bounds(self, bucket: int) -> tuple[int, int]:
        if self._window is None:
            return self._whole
        if self._window is WindowSize.MINUTE:
            return bucket * MINUTE_MS, (bucket + 1) * MINUTE_MS
        return self._windows[bucket]
