"""Minutes that a query cuts: their raw events, folded as they come by the very rule of the
aggregator. However many there are, only what they add up to is held.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from meterline.backends.clickhouse.connection import QUERY_SETTINGS
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.backends.clickhouse.usage.snapshot import Reader
from meterline.event import decode_event, is_erased
from meterline.limits import QUERY_ROWS_MAX, USAGE_MEMORY_BYTES_MAX
from meterline.meter import EMPTY, Aggregate, Measure, Meter, merged
from meterline.ports import Unavailable
from meterline.problem import Fault, invalid
from meterline.usage import EventFold, Key, UsageQuery
from meterline.window import MINUTE_MS

_SETTINGS: Final[dict[str, Any]] = {
    **QUERY_SETTINGS,
    "max_threads": 1,
    "max_block_size": 8_192,
    "max_bytes_before_external_sort": USAGE_MEMORY_BYTES_MAX,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a minute in which there are events: [from_ms, to_ms), of one revision."""

    meter: Meter
    from_ms: int
    to_ms: int

    @property
    def minute(self) -> int:
        """The minute that it lies in."""
        return self.from_ms // MINUTE_MS

    @property
    def parameters(self) -> dict[str, Any]:
        """What is asked of the raw events."""
        return {
            "namespace": self.meter.namespace,
            "type": self.meter.event_type,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
        }


async def has_events(reader: Reader, cut: Cut) -> bool:
    """Whether there is any event of the meter's type."""
    return bool(await reader.query(QUERIES["cut_begun"], cut.parameters))


async def folded_cuts(
    reader: Reader, query: UsageQuery, starts: Sequence[int], cuts: Sequence[Cut]
) -> dict[Key, Aggregate]:
    """What cut minutes add by key; `starts` are those of windows, in minutes. Raises `Problem`
    where they are split into more keys, or hold more distinct values, than an answer may have rows.
    """
    found: dict[Key, Aggregate] = {}
    for cut in cuts:
        fold = _Lines(query, cut, EventFold(query, Measure(cut.meter), starts))
        lines = reader.stream(QUERIES["cut_events"], cut.parameters, _SETTINGS, fold.take)
        async with aclosing(lines) as pieces:
            async for held in pieces:
                if held + len(found) > QUERY_ROWS_MAX:
                    raise invalid(_TOO_MUCH)
        for key, aggregate in fold.found().items():
            found[key] = merged(found.get(key, EMPTY), aggregate)
    return found


_TOO_MUCH: Final = Fault(
    "from",
    f"a minute that is cut has over {QUERY_ROWS_MAX:,} rows or distinct values; use whole minutes",
)


class _Line(msgspec.Struct):
    text: str


_lines: Final = msgspec.json.Decoder(_Line)


class _Lines:
    """Folds events out of lines of JSON."""

    def __init__(self, query: UsageQuery, cut: Cut, fold: EventFold) -> None:
        self._query = query
        self._cut = cut
        self._fold = fold
        self._unfinished = b""

    def take(self, piece: bytes) -> int:
        """Fold what a piece completes; how much is held. Pieces end anywhere."""
        whole, newline, self._unfinished = (self._unfinished + piece).rpartition(b"\n")
        if newline:
            try:
                lines = _lines.decode_lines(whole)
            except msgspec.MsgspecError as error:  # its error, written where rows should be
                raise Unavailable("usage store: the connection ended within events") from error
            for line in lines:
                event = decode_event(line.text.encode())
                if is_erased(event.text) and self._query.asks_for(event.subject):
                    raise invalid(self._erased())
                self._fold.add(event)
        return self._fold.held

    def _erased(self) -> Fault:
        reason = (
            "events of a part of a minute were erased with their subject; ask for whole minutes"
        )
        end = "from" if self._cut.from_ms == self._query.from_ms else "to"
        return Fault(end, reason, "erased")

    def found(self) -> dict[Key, Aggregate]:
        """What all of them add up to."""
        if self._unfinished:
            raise Unavailable("usage store: the connection ended in the middle of an event")
        return self._fold.found()
