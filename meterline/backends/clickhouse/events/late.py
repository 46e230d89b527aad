"""`LateEvents` on ClickHouse and chDB."""

from collections.abc import Collection
from typing import Final

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import QUERIES
from meterline.usage import Stretch, Touched

_HOWEVER_SOON: Final = -(2**62)


class ClickHouseLateEvents:
    """See `meterline.usage.LateEvents`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def touched(
        self,
        log: int,
        stretch: Stretch,
        namespaced_types: Collection[tuple[str, str]],
        late_by_ms: int | None = None,
    ) -> list[Touched]:
        """See the port."""
        if not namespaced_types:
            return []
        parameters = {
            "log": log,
            **stretch._asdict(),
            "types": [f"{namespace}\n{name}" for namespace, name in namespaced_types],
            "late_by_ms": _HOWEVER_SOON if late_by_ms is None else late_by_ms,
        }
        rows = await self._connection.query(QUERIES["touched"], parameters)
        return [Touched(stretch.partition, *row) for row in rows]
