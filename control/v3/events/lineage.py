"""The trace of an event (API v3): where it counted, and which deliveries reported it."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.event_judgement import Judged, judged
from control.handlers import Handlers, Operation
from control.kept import kept_from
from control.stores import Ledger, Stores
from control.usage.admission import Asks
from control.v3.events.operations import LISTED_EXAMPLE, ListedEventShown, shown
from control.v3.reports.run_shapes import DELIVERY_EXAMPLE, DeliveryShown, delivery_shown
from meterline.access import Scope
from meterline.audit import Reported, reported
from meterline.event import Column, Condition, EventQuery, Op, Order, Verdict, decode_event
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import Parameters, Text
from meterline.limits import ATTRIBUTE_CHARS_MAX, TRACED_DELIVERIES_MAX, TRACED_EVENTS_MAX
from meterline.problem import Problem, ProblemType, not_found
from meterline.usage import EVENTS

Attribute = Annotated[Text, Field(min_length=1, max_length=ATTRIBUTE_CHARS_MAX)]


class EventTraceParameters(Parameters):
    """Which event: both together are its identity."""

    source: Annotated[Attribute, Field(description="Its `source`.")]
    id: Annotated[Attribute, Field(description="Its `id`.")]


class ReportedEntryShown(TypedDict):
    """A delivery that reported the event, and the entry that it is in."""

    delivery: DeliveryShown
    dimensions: Annotated[dict[str, str], Field(description="Which entry: `groupBy` of it.")]
    value: Annotated[str, Field(description="`valueText` of the entry.")]
    certain: Annotated[
        bool,
        Field(
            description="Whether the run waited for the event. If not, it came while the run was "
            "made, or another revision of the meter counted it: it may be in, or not."
        ),
    ]


class EventTraceShown(TypedDict):
    """What became of an event and its copies, and where it was reported."""

    events: Annotated[
        list[ListedEventShown],
        Field(description="The event and its copies, as they were stored, the first one first."),
    ]
    deliveries: NotRequired[
        Annotated[
            list[ReportedEntryShown],
            Field(
                description=f"The last {TRACED_DELIVERIES_MAX} at most; absent where the key lacks "
                "`reports:read`."
            ),
        ]
    ]


_EXAMPLE: Final[Any] = {
    "events": [LISTED_EXAMPLE],
    "deliveries": [
        {
            "delivery": DELIVERY_EXAMPLE,
            "dimensions": {"model": "small"},
            "value": "1250",
            "certain": True,
        }
    ],
}


class V3EventTrace(Handlers, tag="Events"):
    """The handler of the trace."""

    def __init__(self, stores: Stores, ledger: Ledger) -> None:
        self._stores = stores
        self._ledger = ledger

    @Operation(
        id="get-event-trace",
        route="GET /event-trace",
        summary="Trace an event",
        description=(
            "The event of this `source` and `id` with its copies; the verdict of the one that is "
            "new names the meters, windows and dimensions that it counts in. And the deliveries "
            "that reported it, with the entry that it is a part of."
        ),
        scope=Scope.EVENTS_READ,
        asks=Asks.SEARCH,
        parameters=EventTraceParameters,
        answer=Answer(200, "The trace.", EventTraceShown, example=_EXAMPLE),
        problems=(ProblemType.NOT_FOUND,),
    )
    async def trace(self, call: Call[EventTraceParameters, None]) -> web.Response:
        """200 with everything that is known of the event."""
        asked = call.parameters
        conditions = (
            (Column.ID, Condition(Op.EQ, (asked.id,))),
            (Column.SOURCE, Condition(Op.EQ, (asked.source,))),
        )
        query = EventQuery(
            namespace=call.namespace,
            now_ms=self._stores.now_ms,
            limit=TRACED_EVENTS_MAX,
            conditions=conditions,
            verdicts=frozenset(Verdict) - {Verdict.INVALID},
            order=Order(Column.STORED_AT, descending=False),
        )
        found = await judged(self._stores, query)
        if not found:
            since = await kept_from(self._stores, EVENTS)
            raise not_found_event(f"{asked.source} {asked.id}", since)
        answer: EventTraceShown = {"events": [shown(one) for one in found]}
        if Scope.REPORTS_READ in call.principal.scopes:
            entries = [it for one in found for it in await self._reported(call.namespace, one)]
            answer["deliveries"] = _entries(entries)
        return json_response(answer)

    async def _reported(self, namespace: str, one: Judged) -> list[Reported]:
        counted = [it for it in one.outcomes if it.counted]
        if not counted:
            return []
        listed = one.listed
        over = await self._ledger.deliveries.deliveries_over(
            namespace,
            [it.meter.id for it in counted],
            listed.subject,
            listed.time_ms,
            TRACED_DELIVERIES_MAX,
        )
        event = decode_event(listed.text)
        found = [reported(event, listed.append_ms, counted, by) for by in over]
        return [it for it in found if it is not None]


def not_found_event(name: str, since: str | None) -> Problem:
    """There is no such event; where events were dropped it says so."""
    problem = not_found("event", name)
    if since is None:
        return problem
    message = f"{problem.detail} Events that were stored before {since} are not kept any more."
    return Problem(ProblemType.NOT_FOUND, message)


def _entries(found: Sequence[Reported]) -> list[ReportedEntryShown]:
    return [
        {
            "delivery": delivery_shown(one.by.delivery),
            "dimensions": dict(one.groups),
            "value": one.value,
            "certain": one.certain,
        }
        for one in found
    ]
