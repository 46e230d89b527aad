"""What a meter is to measure, as v1 shows it."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from meterline.meter import MeterRevision


class PendingRevisionShown(TypedDict):
    """What a meter is to measure, once that is filled in from the events that are kept."""

    eventType: str
    valueProperty: Annotated[str, Field(description='JSON path into `data`; "" for a count.')]
    groupBy: Annotated[dict[str, str], Field(description="Names, and JSON paths into `data`.")]


def pending_shown(pending: MeterRevision) -> PendingRevisionShown:
    """A revision that waits."""
    meter = pending.meter
    return {
        "eventType": meter.event_type,
        "valueProperty": meter.value_property or "",
        "groupBy": dict(meter.dimensions),
    }
