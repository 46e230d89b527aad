"""`RefusedEvents` on ClickHouse and chDB."""

from collections.abc import Sequence

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.events.listing import EventListing
from meterline.event import ListedEvent, Position


class ClickHouseRefusals:
    """See `meterline.event.RefusedEvents`."""

    def __init__(self, connection: Connection) -> None:
        self._listing = EventListing(connection)

    async def refused_at(self, positions: Sequence[Position]) -> list[ListedEvent]:
        """See the port."""
        return await self._listing.whole("rejects", positions)
