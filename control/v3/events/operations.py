"""The list of events in API v3, as in OpenMeter, each with its verdict: counted by which meters,
duplicate of, conflict, rejected why.
"""

from typing import Annotated, Any, Final, Literal, NotRequired, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.event_judgement import Judged, judged
from control.handlers import OfStores, Operation
from control.kept import with_kept
from control.shapes.event import EVENT_EXAMPLE, EventShown
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import KeptMetaShown, cursor_page, no_cursor, page_answer, page_shape
from control.usage.admission import Asks
from control.v3.events.conditions import EventFilter, VerdictName
from meterline.access import Scope
from meterline.event import Column, EventQuery, Order, Verdict, decode_cursor
from meterline.event import encode_cursor as encoded
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import CursorPage, InstantShown, Parameters, Ulid
from meterline.meter import Outcome
from meterline.usage import EVENTS
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
        "reason": NotRequired[
            Annotated[Maybe[str], Field(description="Why it is rejected, in a word.")]
        ],
        "field": NotRequired[Annotated[Maybe[str], Field(description="What the reason is about.")]],
        "value": NotRequired[
            Annotated[Maybe[str], Field(description="What stands there, its start.")]
        ],
    },
)


class FirstEventShown(TypedDict):
    """The event of the same `source` and `id` that came before, and counts."""

    position: str
    ingested_at: NotRequired[Maybe[InstantShown]]
    stored_at: NotRequired[Maybe[InstantShown]]
    differs: NotRequired[
        Annotated[
            Maybe[list[Literal["type", "subject", "time", "data"]]],
            Field(description="In what a conflicting event differs from it."),
        ]
    ]


class EventVerdictShown(TypedDict):
    """What became of an event. Only a `new` one counts; `meters` are those of its type."""

    kind: VerdictName
    meters: NotRequired[Maybe[list[MeterVerdictShown]]]
    of: NotRequired[Maybe[FirstEventShown]]
    reason: NotRequired[Maybe[str]]
    field: NotRequired[Annotated[Maybe[str], Field(description="What the reason is about.")]]


class ListedEventShown(TypedDict):
    """An event with what became of it. `event` is absent where it could not be read."""

    event: NotRequired[Maybe[EventShown]]
    text: NotRequired[
        Annotated[Maybe[str], Field(description="The start of what could not be read as an event.")]
    ]
    ingested_at: Annotated[InstantShown, Field(description="When it was received.")]
    stored_at: Annotated[InstantShown, Field(description="When the log took it in.")]
    position: Annotated[str, Field(description="Where it lies: log.partition.offset.place.")]
    validation_errors: NotRequired[Maybe[list[EventErrorShown]]]
    verdict: EventVerdictShown


EVENT_PAGE: Final = page_shape(
    "EventPageShown", ListedEventShown, "A page of events.", KeptMetaShown
)
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


class V3Events(OfStores, tag="Events"):
    """The handler of the list."""

    @Operation(
        id="list-metering-events",
        route="GET /events",
        summary="List events with their verdicts",
        description=(
            "Events as they were sent, the latest first, each with its verdict: which meters "
            "count it, and why others do not. Without `filter[verdict]` only new ones are listed, "
            "not those that came again (`duplicate`), that came again with other contents "
            "(`conflict`), or that could not be read (`invalid`). An event is listed within "
            "seconds of being received."
        ),
        scope=Scope.EVENTS_READ,
        asks=Asks.SEARCH,
        parameters=EventsParameters,
        answer=page_answer("A page of events.", EVENT_PAGE, LISTED_EXAMPLE, _CURSOR_EXAMPLE),
    )
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
        page = cursor_page(
            found, asked.page, shown, lambda it: encoded(order, it.listed.place_by(order))
        )
        return json_response(await with_kept(self._stores, EVENTS, page))


def shown(one: Judged) -> ListedEventShown:
    """A listed event as v3 shows it."""
    listed, sent = one.listed, one.sent
    shown: ListedEventShown = {
        "event": cast("EventShown | None", sent),
        "text": listed.text.decode(errors="replace") if sent is None else None,
        "ingested_at": rfc3339(listed.recorded_ms),
        "stored_at": rfc3339(listed.append_ms),
        "position": listed.position,
        "validation_errors": [
            {"code": "validation_error", "message": message, "attributes": attributes}
            for message, attributes in one.problems
        ]
        or None,
        "verdict": _verdict(one),
    }
    return present(shown)


def _verdict(one: Judged) -> EventVerdictShown:
    listed, new = one.listed, one.listed.verdict is Verdict.NEW
    shown: EventVerdictShown = {
        "kind": listed.verdict.value,
        "meters": [meter_verdict_shown(it) for it in one.outcomes] if new else None,
        "of": None if one.of is None else _first(one, one.of),
        "reason": listed.reason or None,
        "field": listed.field or None,
    }
    return present(shown)


def _first(one: Judged, position: str) -> FirstEventShown:
    first = one.first
    shown: FirstEventShown = {
        "position": position,
        "ingested_at": None if first is None else rfc3339(first.recorded_ms),
        "stored_at": None if first is None else rfc3339(first.append_ms),
        "differs": [*one.differs] or None,
    }
    return present(shown)


def meter_verdict_shown(outcome: Outcome) -> MeterVerdictShown:
    """What a meter made of an event."""
    shown: MeterVerdictShown = {
        "id": outcome.meter.id,
        "key": outcome.meter.key,
        "outcome": "counted" if outcome.counted else "rejected",
        "from": rfc3339(outcome.window * MINUTE_MS),
        "to": rfc3339((outcome.window + 1) * MINUTE_MS),
        "dimensions": dict(outcome.groups),
        "reason": outcome.reason or None,
        "field": outcome.field if outcome.reason else None,
        "value": outcome.value or None,
    }
    return present(shown)
