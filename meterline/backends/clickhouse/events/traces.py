"""`EventTraces` on ClickHouse and chDB."""

from typing import Any, Final

from meterline.backends.clickhouse.bounds import RUNS
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Exceeded
from meterline.backends.clickhouse.named_sql import EVIDENCE
from meterline.event import trace_of
from meterline.limits import (
    TRACE_LOOK_ROWS_MAX,
    TRACE_LOOK_S,
    TRACED_OF_RUN_MAX,
    TRACED_OF_SUBJECT_MAX,
)
from meterline.ports import TraceContext

_BOUNDS: Final[dict[str, Any]] = {
    **QUERY_SETTINGS,
    "max_execution_time": TRACE_LOOK_S,
    "max_rows_to_read": TRACE_LOOK_ROWS_MAX,
    "max_threads": 1,
}


class ClickHouseEventTraces:
    """See `meterline.event.EventTraces`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection.lane(RUNS)

    async def traced(
        self, namespace: str, event_type: str, from_ms: int, to_ms: int
    ) -> list[tuple[str, TraceContext]]:
        """See the port."""
        parameters = {
            "namespace": namespace,
            "type": event_type,
            "from_ms": from_ms,
            "to_ms": to_ms,
            "each": TRACED_OF_SUBJECT_MAX,
            "rows": TRACED_OF_RUN_MAX,
        }
        try:
            rows = await self._connection.query(EVIDENCE["traced"], parameters, _BOUNDS)
        except Exceeded:
            return []
        found = ((subject, trace_of(text.encode())) for subject, text in rows)
        return [(subject, it) for subject, it in found if it is not None and it.sampled]
