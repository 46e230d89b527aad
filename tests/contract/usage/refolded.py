"""What a question must say, by a fold of raw events."""

from collections.abc import Sequence

from meterline.event import Event
from meterline.meter import Measure
from meterline.usage import EventFold, UsageQuery, UsageRow, minutes_of, rows_of, starts_of
from meterline.window import MINUTE_MS


def refolded_usage(query: UsageQuery, events: Sequence[Event]) -> list[UsageRow]:
    """The rows of these events, each of which counts."""
    lower, upper = query.from_ms or 0, query.to_ms or 1 << 50
    asked = [it for it in events if lower <= it.time_ms < upper]
    if not asked:
        return []
    times = [it.time_ms for it in asked]
    first_ms = min(times) // MINUTE_MS * MINUTE_MS
    end_ms = (max(times) // MINUTE_MS + 1) * MINUTE_MS
    starts = starts_of(query, first_ms, end_ms)
    fold = EventFold(query, Measure(query.meter), minutes_of(starts))
    for one in asked:
        fold.add(one)
    return rows_of(query, starts, (first_ms, end_ms), fold.found())
