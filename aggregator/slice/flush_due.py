"""When a flush is due (pure; docs/architecture.md, "Tallies").

A cell that changes many times between two flushes is one row. So what is written costs less the
longer it is waited, and who asks sees it later.
"""

from dataclasses import dataclass
from typing import NamedTuple

from aggregator.catalogue_debounce import passed
from meterline.limits import (
    FLUSH_BEHIND_INTERVALS,
    FLUSH_BEHIND_MS,
    FLUSH_LARGE_EVENTS,
    FLUSH_STRETCH,
)


class Unflushed(NamedTuple):
    """What was taken in and is in no flush yet: events, and the bytes of memory that they take."""

    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FlushBounds:
    """How often counts are written, and how much may wait for it before it is done earlier."""

    interval_ms: int
    events: int
    bytes: int


def flush_due(
    bounds: FlushBounds,
    held: Unflushed,
    flushed_ms: int,
    now_ms: int,
    *,
    has_news: bool,
    behind_ms: int,
) -> bool:
    """Whether a flush is to begin; the one before began at `flushed_ms`. Where much came in since,
    or counting is behind the log, the interval is longer: that spares rows. `behind_ms` counts as
    that only beyond a few intervals: what came in since the last flush is behind by design.
    """
    if held.events >= bounds.events or held.bytes >= bounds.bytes:
        return True
    is_behind = behind_ms > max(FLUSH_BEHIND_MS, FLUSH_BEHIND_INTERVALS * bounds.interval_ms)
    is_longer = is_behind or held.events > FLUSH_LARGE_EVENTS
    pause_ms = int(bounds.interval_ms * (FLUSH_STRETCH if is_longer else 1))
    return has_news and passed(now_ms, flushed_ms, pause_ms)
