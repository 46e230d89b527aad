"""`EventLineage` on ClickHouse and chDB."""

from typing import Final

from meterline.audit import Position, UsageEntry
from meterline.backends.clickhouse.bounds import EVENT_BOUNDS, READING, Searches
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import EVIDENCE
from meterline.meter import pieces
from meterline.problem import Fault
from meterline.usage import EventRow

_BEFORE_ALL: Final = (0, 0, 0, -1)
_SHORTER: Final = "too many events would have to be looked at; ask for a shorter span"


class ClickHouseEventLineage:
    """See `meterline.audit.EventLineage`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection.lane(READING)
        self._searches = Searches()

    async def events_of(
        self, entry: UsageEntry, after: Position | None, limit: int
    ) -> list[EventRow]:
        """See the port."""
        log, partition, offset, place = after or _BEFORE_ALL
        from_ms = max(entry.from_ms, entry.meter.counts_from_ms)
        answering = pieces(entry.meter, from_ms, entry.to_ms)
        parameters = {
            "namespace": entry.meter.namespace,
            "types": sorted({it.meter.event_type for it in answering}),
            "from_ms": from_ms,
            "to_ms": entry.to_ms,
            "every": entry.subject is None,
            "subject": entry.subject or "",
            "log": log,
            "partition": partition,
            "offset": offset,
            "place": place,
            "rows": limit,
        }
        async with self._searches.turn(Fault("from", _SHORTER, source="query")):
            rows = await self._connection.query(EVIDENCE["events_of"], parameters, EVENT_BOUNDS)
        return [EventRow._make((*values, text.encode())) for *values, text in rows]
