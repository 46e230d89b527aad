"""`EventLineage` on ClickHouse and chDB."""

import asyncio
from typing import Any, Final

from meterline.audit import Position, UsageEntry
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Exceeded
from meterline.backends.clickhouse.named_sql import EVIDENCE
from meterline.limits import EVENT_SEARCHES_MAX, EVENTS_SEARCH_S_MAX, EVENTS_SEARCHED_MAX
from meterline.meter import pieces
from meterline.problem import Fault, invalid
from meterline.usage import EventRow

BOUNDS: Final[dict[str, Any]] = {
    **QUERY_SETTINGS,
    "max_execution_time": EVENTS_SEARCH_S_MAX,
    "max_rows_to_read": EVENTS_SEARCHED_MAX,
}
_BEFORE_ALL: Final = (0, 0, 0, -1)


class ClickHouseEventLineage:
    """See `meterline.audit.EventLineage`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turns = asyncio.Semaphore(EVENT_SEARCHES_MAX)

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
        try:
            async with self._turns:
                rows = await self._connection.query(EVIDENCE["events_of"], parameters, BOUNDS)
        except Exceeded as error:
            words = "too many events would have to be looked at; ask for a shorter span"
            raise invalid(Fault("from", words, source="query")) from error
        return [EventRow._make((*values, text.encode())) for *values, text in rows]
