"""The list of events in API v1, as in OpenMeter: events that count or should, the latest first."""

from typing import Annotated, Final, NotRequired, cast

import msgspec
from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.event_judgement import Judged, judged
from control.handlers import OfStores, Operation
from control.shapes.event import EVENT_EXAMPLE, EventShown
from control.shapes.optional_members import Maybe, present
from control.shapes.refused_parameters import Customers
from control.usage.admission import Asks
from control.v1.validation_message import validation_message
from meterline.access import Scope
from meterline.event import Column, Condition, EventQuery, Op
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import Digits, Instant, InstantShown, LooseParameters
from meterline.limits import (
    EVENT_FILTER_CHARS_MAX,
    EVENTS_LIST_DAYS_MAX,
    EVENTS_LIST_HOURS,
    PAGE_SIZE_MAX,
)
from meterline.problem import Fault, invalid
from meterline.window import DAY_MS, HOUR_MS, rfc3339

_NULL: Final = msgspec.Raw(b"null")
CLIENT_ID_CHARS_MAX: Final = 36  # OpenMeter's v1
ClientId = Annotated[
    str,
    Field(min_length=1, max_length=CLIENT_ID_CHARS_MAX, description="Taken, and means nothing."),
]
Part = Annotated[str, Field(min_length=1, max_length=EVENT_FILTER_CHARS_MAX)]


class EventsParameters(LooseParameters):
    """Which events."""

    client_id: Annotated[ClientId | None, Field(alias="clientId")] = None
    ingested_at_from: Annotated[
        Instant | None, Field(alias="ingestedAtFrom", description="Received then or later.")
    ] = None
    ingested_at_to: Annotated[
        Instant | None, Field(alias="ingestedAtTo", description="Received then or earlier.")
    ] = None
    id: Annotated[Part | None, Field(description="A part of the id.")] = None
    subject: Annotated[Part | None, Field(description="A part of the subject.")] = None
    customer_id: Annotated[Customers, Field(alias="customerId")] = None
    from_: Annotated[
        Instant | None,
        Field(
            alias="from",
            description=(
                f"Their time is then or later; {EVENTS_LIST_HOURS} hours ago where it is not "
                f"given, at most {EVENTS_LIST_DAYS_MAX} days ago."
            ),
        ),
    ] = None
    to: Annotated[Instant | None, Field(description="Their time is then or earlier.")] = None
    limit: Annotated[
        int, Field(ge=1, le=PAGE_SIZE_MAX, description="How many at most."), Digits
    ] = PAGE_SIZE_MAX

    def query(self, namespace: str, now_ms: int) -> EventQuery:
        """What is asked for. Raises `Problem` with every fault."""
        from_ms = now_ms - EVENTS_LIST_HOURS * HOUR_MS if self.from_ is None else self.from_
        faults = _span_faults("from", self.from_, "to", self.to, from_ms, now_ms)
        at_from, at_to = self.ingested_at_from, self.ingested_at_to
        faults += _span_faults("ingestedAtFrom", at_from, "ingestedAtTo", at_to, at_from, now_ms)
        if faults:
            raise invalid(*faults)
        asked: list[tuple[Column, Op, str | int | None]] = [
            (Column.TIME, Op.GTE, from_ms),
            (Column.TIME, Op.LTE, self.to),
            (Column.INGESTED_AT, Op.GTE, at_from),
            (Column.INGESTED_AT, Op.LTE, at_to),
            (Column.ID, Op.CONTAINS, self.id),
            (Column.SUBJECT, Op.CONTAINS, self.subject),
        ]
        conditions = [
            (column, Condition(op, (operand,)))
            for column, op, operand in asked
            if operand is not None
        ]
        return EventQuery(namespace, now_ms, self.limit, tuple(conditions))


def _span_faults(
    begin: str, given_ms: int | None, end: str, to_ms: int | None, from_ms: int | None, now_ms: int
) -> list[Fault]:
    """What is wrong with a span. `from_ms` is where it begins, given or not."""
    faults = []
    oldest_ms = now_ms - EVENTS_LIST_DAYS_MAX * DAY_MS
    if given_ms is not None and given_ms < oldest_ms:
        reason = f"lies more than {EVENTS_LIST_DAYS_MAX} days ago; API v3 lists older events"
        faults.append(Fault(begin, reason, "minimum", "query"))
    if from_ms is not None and to_ms is not None and to_ms < from_ms:
        reason = f"{rfc3339(to_ms)} lies before {begin}, {rfc3339(from_ms)}"
        faults.append(Fault(end, reason, "minimum", "query"))
    return faults


class IngestedEventShown(TypedDict):
    """An event as it was sent, and when."""

    event: EventShown
    validationError: NotRequired[
        Annotated[Maybe[str], Field(description="Why it does not count, wholly or in some meter.")]
    ]
    ingestedAt: Annotated[InstantShown, Field(description="When it was received.")]
    storedAt: Annotated[InstantShown, Field(description="When the log took it in.")]


EXAMPLE: Final = {
    "event": EVENT_EXAMPLE,
    "ingestedAt": "2026-01-31T10:00:01.250Z",
    "storedAt": "2026-01-31T10:00:01.262Z",
}


class V1Events(OfStores, tag="Events"):
    """The handler of the list."""

    @Operation(
        id="listEvents",
        route="GET /v1/events",
        summary="List events",
        description="Events by their time, the latest first; API v3 also lists those that came "
        "again.",
        scope=Scope.EVENTS_READ,
        asks=Asks.SEARCH,
        parameters=EventsParameters,
        answer=Answer(200, "Events.", list[IngestedEventShown], example=[EXAMPLE]),
    )
    async def list(self, call: Call[EventsParameters, None]) -> web.Response:
        """Events in a bare array."""
        query = call.parameters.query(call.namespace, self._stores.now_ms)
        return json_response([shown(one) for one in await judged(self._stores, query)])


def shown(one: Judged) -> IngestedEventShown:
    """A new event as v1 and v2 show it."""
    sent, at_ms = one.sent, one.listed.time_ms
    assert sent is not None, "only new events are listed"
    if sent.get("time", _NULL) == _NULL:  # the peer shows when it arrived, which is when it counts
        sent = {**sent, "time": msgspec.Raw(msgspec.json.encode(rfc3339(at_ms)))}
    without_data = sent.get("data", _NULL) == _NULL
    lines = [
        validation_message(message, attributes, without_data=without_data)
        for message, attributes in one.problems
    ]
    shown: IngestedEventShown = {
        "event": cast("EventShown", sent),
        "validationError": "\n".join(lines) or None,
        "ingestedAt": rfc3339(one.listed.recorded_ms),
        "storedAt": rfc3339(one.listed.append_ms),
    }
    return present(shown)
