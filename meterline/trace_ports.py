"""The ports of the trace; the rules of `meterline.ports` hold here too."""

from collections.abc import Sequence
from typing import Protocol

from meterline.rows import EventRow
from meterline.trace import Position, ReportedDelivery, UsageEntry


class EventTraces(Protocol):
    """New events, as far as they are kept."""

    async def events_of(
        self, entry: UsageEntry, after: Position | None, limit: int
    ) -> list[EventRow]:
        """Events of the entry's meter, span and subject by position, whatever their dimensions and
        values. Raises `Problem` where too much would have to be looked at.
        """
        ...


class DeliveryTraces(Protocol):
    """What was reported."""

    async def deliveries_over(
        self, namespace: str, meter_ids: Sequence[str], subject: str, at_ms: int, limit: int
    ) -> list[ReportedDelivery]:
        """Deliveries to a subject about these meters whose windows hold an instant; those of the
        run decided last come first.
        """
        ...
