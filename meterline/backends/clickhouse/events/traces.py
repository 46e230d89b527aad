"""`EventTraces` on ClickHouse and chDB."""

from typing import Any, Final

from meterline.backends.clickhouse.bounds import RUNS
from meterline.backends.clickhouse.connection import QUERY_SETTINGS, Connection, Exceeded
from meterline.backends.clickhouse.named_sql import EVIDENCE
from meterline.limits import (
    TRACE_LOOK_ROWS_MAX,
    TRACE_LOOK_S,
    TRACE_STATE_CHARS_MAX,
    TRACED_OF_RUN_MAX,
    TRACED_OF_SUBJECT_MAX,
)
from meterline.ports import TRACEPARENT_CHARS, TraceContext, parse_traceparent

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
    ) -> list[tuple[str, TraceContext]] | None:
        """See the port."""
        parameters = {
            "namespace": namespace,
            "type": event_type,
            "from_ms": from_ms,
            "to_ms": to_ms,
            "each": TRACED_OF_SUBJECT_MAX,
            "rows": TRACED_OF_RUN_MAX,
            # One more than can be read: what is too long is known by that, and judged as if whole.
            "parent_chars": TRACEPARENT_CHARS + 1,
            "state_chars": TRACE_STATE_CHARS_MAX + 1,
        }
        try:
            rows = await self._connection.query(EVIDENCE["traced"], parameters, _BOUNDS)
        except Exceeded:
            return None
        found = ((subject, parse_traceparent(parent, state)) for subject, parent, state in rows)
        return [(subject, it) for subject, it in found if it is not None and it.sampled]
