"""The list of events in API v3 (peer-api.md 1.4), each with its verdict: counted by which meters,
duplicate of, conflict, rejected why.
"""

from typing import Annotated, Any, Final, Literal, NotRequired, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.event_judgement import Judged, judged, position_of_first
from control.handlers import OfStores, answers
from control.shapes.event import EVENT_EXAMPLE, EventShown
from control.shapes.pages import cursor_page, no_cursor, page_answer, page_shape
from control.v3.events.conditions import EventFilter, VerdictName
from meterline.access import Scope
from meterline.event import Column, EventQuery, ListedEvent, Order, Verdict, decode_cursor
from meterline.event import encode_cursor as encoded
from meterline.http import json_response
from meterline.http.operation import Call, Operation
from meterline.http.shapes import CursorPage, InstantShown, Parameters, Ulid
from meterline.meter import Outcome
from meterline.window import MINUTE_MS, rfc3339

Sort = Annotated[
    str,
    Field(
        pattern=r"^(time|ingested_at|stored_at)( (asc|desc))?$",
        description="What to sort by; the latest come first unless it says `asc`.",
        examples=["ingested_at asc"],
    ),
]


class EventsParameters(Parameters):
    """Which events, in which order, which page."""

    filter: EventFilter = EventFilter()
    sort: Sort = "time"
    page: CursorPage = CursorPage()

    def order(self) -> Order:
        """The order asked for."""
        by, _, direction = self.sort.partition(" ")
        return Order(Column(by), direction != "asc")


class EventErrorShown(TypedDict):
    """Why an event does not count, wholly or in one meter."""

    code: Literal["validation_error"]
    message: Annotated[str, Field(description="For people.")]
    attributes: Annotated[dict[str, str], Field(description="The same for programs.")]


MeterVerdictShown = TypedDict(  # a class cannot have a member called `from`
    "MeterVerdictShown",
    {
        "id": Ulid,
        "key": str,
        "outcome": Literal["counted", "rejected"],
        "from": Annotated[InstantShown, Field(description="Start of the window that it lies in.")],
        "to": Annotated[InstantShown, Field(description="End of the window.")],
        "dimensions": dict[str, str],
        "reason": NotRequired[Annotated[str, Field(description="Why it is rejected, in a word.")]],
        "field": NotRequired[Annotated[str, Field(description="What the reason is about.")]],
        "value": NotRequired[Annotated[str, Field(description="What stands there, its start.")]],
    },
)


class FirstEventShown(TypedDict):
    """The event of the same `source` and `id` that came before, and counts."""

    position: str
    ingested_at: NotRequired[InstantShown]
    stored_at: NotRequired[InstantShown]
    differs: NotRequired[
        Annotated[
            list[Literal["type", "subject", "time", "data"]],
            Field(description="In what a conflicting event differs from it."),
        ]
    ]


class EventVerdictShown(TypedDict):
    """What became of an event. Only a `new` one counts; `meters` are those of its type."""

    kind: VerdictName
    meters: NotRequired[list[MeterVerdictShown]]
    of: NotRequired[FirstEventShown]
    reason: NotRequired[str]
    field: NotRequired[Annotated[str, Field(description="What the reason is about.")]]


class ListedEventShown(TypedDict):
    """An event with what became of it. `event` is absent where it could not be read."""

    event: NotRequired[EventShown]
    text: NotRequired[
        Annotated[str, Field(description="The start of what could not be read as an event.")]
    ]
    ingested_at: Annotated[InstantShown, Field(description="When it was received.")]
    stored_at: Annotated[InstantShown, Field(description="When the log took it in.")]
    position: Annotated[str, Field(description="Where it lies: log.partition.offset.place.")]
    validation_errors: NotRequired[list[EventErrorShown]]
    verdict: EventVerdictShown


EVENT_PAGE: Final = page_shape("EventPageShown", ListedEventShown, "A page of events.")
LISTED_EXAMPLE: Final[Any] = {
    "event": {**EVENT_EXAMPLE, "data": {"tokens": "many", "model": "small"}},
    "ingested_at": "2026-01-31T10:00:01.250Z",
    "stored_at": "2026-01-31T10:00:01.262Z",
    "position": "1.0.12.3",
    "validation_errors": [
        {
            "code": "validation_error",
            "message": "meter tokens does not count it: $.tokens is not_a_number",
            "attributes": {
                "meter": "tokens",
                "field": "$.tokens",
                "reason": "not_a_number",
                "value": '"many"',
            },
        }
    ],
    "verdict": {
        "kind": "new",
        "meters": [
            {
                "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
                "key": "tokens",
                "outcome": "rejected",
                "from": "2026-01-31T10:00:00Z",
                "to": "2026-01-31T10:01:00Z",
                "dimensions": {"model": "small"},
                "reason": "not_a_number",
                "field": "$.tokens",
                "value": '"many"',
            }
        ],
    },
}
_CURSOR_EXAMPLE: Final = "dGltZSBkZXNjIDE3Njk4NTM2MDAwMDAgMS4wLjEyLjM"
LIST_EVENTS: Final = Operation(
    id="list-metering-events",
    method="GET",
    path="/events",
    tag="Events",
    summary="List events with their verdicts",
    description=(
        "Events as they were sent, the latest first, each with its verdict: which meters count it, "
        "and why others do not. Without `filter[verdict]` only new ones are listed, not those that "
        "came again (`duplicate`), that came again with other contents (`conflict`), or that could "
        "not be read (`invalid`). An event is listed within seconds of being received."
    ),
    scope=Scope.EVENTS_READ,
    parameters=EventsParameters,
    answers=(page_answer("A page of events.", EVENT_PAGE, LISTED_EXAMPLE, _CURSOR_EXAMPLE),),
)


class V3Events(OfStores):
    """The handler of the list."""

    @answers(LIST_EVENTS)
    async def list(self, call: Call[EventsParameters, None]) -> web.Response:
        """One page; `meta.page.next` leads to the next, or is null."""
        asked = call.parameters
        order, after = asked.order(), asked.page.after
        try:
            place = None if after is None else decode_cursor(after, order)
        except ValueError as error:
            raise no_cursor(str(error)) from error
        query = EventQuery(
            namespace=call.namespace,
            now_ms=self._stores.now_ms,
            limit=asked.page.size + 1,
            conditions=asked.filter.conditions(),
            verdicts=asked.filter.verdicts(),
            order=order,
            after=place,
            unowned=Scope.OPERATE in call.principal.scopes,
        )
        found = await judged(self._stores, query)
        return json_response(
            cursor_page(
                found, asked.page, shown, lambda it: encoded(order, it.listed.place_by(order))
            )
        )


def shown(one: Judged) -> ListedEventShown:
    """A listed event as v3 shows it."""
    listed = one.listed
    members: ListedEventShown = {
        "ingested_at": rfc3339(listed.recorded_ms),
        "stored_at": rfc3339(listed.append_ms),
        "position": listed.position,
        "verdict": _verdict(one),
    }
    sent = one.sent
    if sent is None:
        members["text"] = listed.text.decode(errors="replace")
    else:
        members["event"] = cast("EventShown", sent)
    if problems := one.problems:
        members["validation_errors"] = [
            {"code": "validation_error", "message": words, "attributes": attributes}
            for words, attributes in problems
        ]
    return members


def _verdict(one: Judged) -> EventVerdictShown:
    listed = one.listed
    members: EventVerdictShown = {"kind": listed.verdict.value}
    if listed.verdict is Verdict.NEW:
        members["meters"] = [meter_verdict_shown(outcome) for outcome in one.outcomes]
    if (position := position_of_first(listed)) is not None:
        members["of"] = _first(one, position)
    if listed.reason:
        members["reason"] = listed.reason
    if listed.field:
        members["field"] = listed.field
    return members


def _first(one: Judged, position: str) -> FirstEventShown:
    members: FirstEventShown = {"position": position}
    first: ListedEvent | None = one.first
    if first is not None:
        members["ingested_at"] = rfc3339(first.recorded_ms)
        members["stored_at"] = rfc3339(first.append_ms)
    if one.differs:
        members["differs"] = list(one.differs)
    return members


def meter_verdict_shown(outcome: Outcome) -> MeterVerdictShown:
    """What a meter made of an event."""
    members: MeterVerdictShown = {
        "id": outcome.meter.id,
        "key": outcome.meter.key,
        "outcome": "counted" if outcome.counted else "rejected",
        "from": rfc3339(outcome.window * MINUTE_MS),
        "to": rfc3339((outcome.window + 1) * MINUTE_MS),
        "dimensions": dict(outcome.groups),
    }
    if outcome.reason:
        members["reason"], members["field"] = outcome.reason, outcome.field
    if outcome.value:
        members["value"] = outcome.value
    return members
