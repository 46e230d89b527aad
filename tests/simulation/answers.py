"""How rows of cells become rows of an answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from meterline.meter import Aggregate, Aggregation, Latest, decode_groups, revision_at
from meterline.usage import UsageQuery, UsageRow
from meterline.usage.query import value_of
from meterline.window import MINUTE_MS
from tests.simulation.network import Net

Key = tuple[Any, ...]
Answered = Callable[[Net, UsageQuery, Callable[[], None]], Awaitable[list[UsageRow]]]


def key_of(query: UsageQuery, row: Any) -> Key:
    """The row of an answer that a row of cells belongs to."""
    names = revision_at(query.meter, row.window * MINUTE_MS).dimension_names
    values = dict(zip(names, decode_groups(row.groups), strict=True))
    subject = row.subject if query.by_subject else None
    window = 0 if query.window is None else row.window
    return (window, subject, tuple((name, values.get(name, "")) for name in query.dimensions))


def aggregate_of(row: Any) -> Aggregate:
    """What a tally says."""
    if not row.counted:
        return Aggregate(rejected=row.rejected)
    latest = Latest(row.latest_time_ms, row.latest_recorded_ms, row.latest_key, row.latest)
    return Aggregate(row.total, row.counted, row.rejected, row.minimum, row.maximum, latest)


def usage_row(
    query: UsageQuery,
    key: Key,
    one: Aggregate,
    members: dict[Key, set[bytes]],
    minutes: list[int],
) -> UsageRow | None:
    """A row of an answer; none where nothing counted."""
    window, subject, groups = key
    if query.meter.aggregation is Aggregation.UNIQUE_COUNT:
        distinct = len(members.get(key, ()))
        one = Aggregate(count=one.count, rejected=one.rejected, distinct=distinct)
    value = value_of(query.meter.aggregation, one)
    if value is None:
        return None
    first, last = (min(minutes), max(minutes)) if query.window is None else (window, window)
    from_ms = query.from_ms if query.window is None else None
    to_ms = query.to_ms if query.window is None else None
    return UsageRow(
        first * MINUTE_MS if from_ms is None else from_ms,
        (last + 1) * MINUTE_MS if to_ms is None else to_ms,
        subject,
        groups,
        value,
        one.count,
        one.rejected,
    )
