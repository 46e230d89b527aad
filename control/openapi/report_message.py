"""The message that a receiver gets (contract sections 2.5 and 6), as the document of v3 shows it.

`meterline.report.body` makes it; a test holds the two together. Its shapes are open: a receiver
ignores members that it does not know.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from meterline.http.shapes import InstantShown

OPEN: Final = ConfigDict(extra="allow")


class MessageReportShown(TypedDict):
    """Which report."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    slug: str


class UsageEntryShown(TypedDict):
    """The usage of one subject and group in the window of the run."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    subject: str
    value: Annotated[float, Field(description="A JSON number with all its digits.")]
    valueText: Annotated[str, Field(description="The same, exact, as text.")]
    groupBy: dict[str, str]
    windowStart: InstantShown
    windowEnd: InstantShown


UsageQueryShown = TypedDict(  # `from` cannot be a member of a class
    "UsageQueryShown",
    {"from": InstantShown, "to": InstantShown, "subject": str, "groupBy": list[str]},
)


class MessageMeterShown(TypedDict):
    """The meter that was asked, in the contract's words (2.3)."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    id: str
    slug: str
    description: str
    aggregation: str
    windowSize: Literal["MINUTE"]
    eventType: str
    valueProperty: str
    groupBy: dict[str, str]


class MessageRunShown(TypedDict):
    """The run that the message belongs to, and its place in it."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    id: str
    trigger: Annotated[
        str,
        Field(description="`schedule`, `manual` or `late`; `test` for a test: do not book it."),
    ]
    sequence: Annotated[int, Field(description="Over all deliveries of the report, gapless.")]
    number: int
    of: int
    revision: int
    supersedes: Annotated[str | None, Field(description="The delivery that this one replaces.")]
    completeUntil: InstantShown


class ReportMessageShown(TypedDict):
    """A report of the usage of one subject in one window."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    type: Literal["report.meter"]
    timestamp: Annotated[InstantShown, Field(description="The end of the window.")]
    report: MessageReportShown
    usage: list[UsageEntryShown]
    query: UsageQueryShown
    meter: MessageMeterShown
    run: MessageRunShown


EXAMPLE: Final[dict[str, Any]] = {
    "type": "report.meter",
    "timestamp": "2026-02-01T00:00:00.000Z",
    "report": {"slug": "daily-tokens"},
    "usage": [
        {
            "subject": "customer-1",
            "value": 350.25,
            "valueText": "350.25",
            "groupBy": {"model": "small"},
            "windowStart": "2026-01-31T00:00:00.000Z",
            "windowEnd": "2026-02-01T00:00:00.000Z",
        }
    ],
    "query": {
        "from": "2026-01-31T00:00:00.000Z",
        "to": "2026-02-01T00:00:00.000Z",
        "subject": "customer-1",
        "groupBy": ["model"],
    },
    "meter": {
        "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
        "slug": "tokens",
        "description": "",
        "aggregation": "SUM",
        "windowSize": "MINUTE",
        "eventType": "request",
        "valueProperty": "$.tokens",
        "groupBy": {"model": "$.model"},
    },
    "run": {
        "id": "run_cf6inwlmjqelmmezy2kklvx5tgtoar6l",
        "trigger": "schedule",
        "sequence": 1,
        "number": 1,
        "of": 2,
        "revision": 1,
        "supersedes": None,
        "completeUntil": "2026-02-01T00:01:00.412Z",
    },
}

WEBHOOK: Final[dict[str, Any]] = {
    "operationId": "receive-report",
    "tags": ["Deliveries"],
    "summary": "Receive the usage of one subject",
    "description": "Sent to the endpoint of a report, signed by the `svix-*` and `webhook-*`"
    " headers (Standard Webhooks). Verify the signature over the raw bytes before reading them. The"
    " id in the headers is the same for every attempt, so that a copy can be told.",
    "security": [],
    "responses": {
        "200": {"description": "Any 2xx within 15 s: it was booked, and is not sent again."},
        "400": {"description": "The signature or the type is wrong; it is sent again later."},
        "410": {"description": "Nothing shall be sent here any more: the report is parked."},
    },
}
