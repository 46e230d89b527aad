"""An event as every version of the API shows it."""

from typing import Final, NotRequired

from pydantic import ConfigDict, JsonValue
from typing_extensions import TypedDict

from meterline.http.shapes import InstantShown


class EventShown(TypedDict):
    """An event as it was sent. Members that are not named here are extension attributes."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: NotRequired[InstantShown | None]
    datacontenttype: NotRequired[str | None]
    dataschema: NotRequired[str | None]
    data: NotRequired[dict[str, JsonValue] | None]


EVENT_EXAMPLE: Final = {
    "specversion": "1.0",
    "id": "5c10fade-1c9e-4d6c-8275-c52c36731d3c",
    "source": "api-gateway",
    "type": "request",
    "subject": "customer-1",
    "time": "2026-01-31T10:00:00.000Z",
    "data": {"tokens": "1234", "model": "small"},
}
