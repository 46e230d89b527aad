"""The subjects that events name (API v3, by the peer's path and names): where a search for a
customer begins, whether or not a meter counts these events.
"""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.pages import CursorMetaShown, cursors
from control.stores import Stores
from control.v3.events.conditions import EventTextFilter, EventTimeFilter
from meterline.access import Scope
from meterline.event import Column, Condition, SubjectQuery
from meterline.http import json_response
from meterline.http.operation import NO_BODY, Answer, Bound, Call, Operation, bind
from meterline.http.shapes import CursorPage, InstantShown, Parameters
from meterline.problem import Fault, invalid
from meterline.window import rfc3339


class EventSubjectFilter(Parameters):
    """Conditions on events, joined by and: a subject is listed if one of its events meets them."""

    key: Annotated[EventTextFilter | None, Field(description="The subject.")] = None
    source: EventTextFilter | None = None
    type: EventTextFilter | None = None
    time: EventTimeFilter | None = None
    stored_at: EventTimeFilter | None = None

    def conditions(self) -> tuple[tuple[Column, Condition], ...]:
        """What is asked for."""
        found: list[tuple[Column, Condition]] = []
        for name in type(self).model_fields:
            asked: EventTextFilter | EventTimeFilter | None = getattr(self, name)
            if asked is not None:
                column = Column.SUBJECT if name == "key" else Column(name)
                found += [(column, condition) for condition in asked.conditions()]
        return tuple(found)


class EventSubjectsParameters(Parameters):
    """Of which events, which page."""

    filter: EventSubjectFilter = EventSubjectFilter()
    page: CursorPage = CursorPage()


class EventSubjectShown(TypedDict):
    """A subject, and when its events happened that meet the conditions."""

    key: Annotated[str, Field(description="`subject` of its events.")]
    first_event_at: Annotated[InstantShown, Field(description="`time` of the earliest.")]
    last_event_at: Annotated[InstantShown, Field(description="`time` of the latest.")]


class EventSubjectPageShown(TypedDict):
    """A page of subjects, sorted by code points."""

    data: list[EventSubjectShown]
    meta: CursorMetaShown


LIST_EVENT_SUBJECTS: Final = Operation(
    id="list-event-subjects",
    method="GET",
    path="/events/subjects",
    tag="Events",
    summary="List the subjects that events name",
    description="Only events that are kept are looked at, without copies of one. A search that "
    "would read too much is answered 400: give `filter[stored_at]` a span.",
    scope=Scope.USAGE_READ,
    parameters=EventSubjectsParameters,
    body=NO_BODY,
    answers=(
        Answer(
            200,
            "A page of subjects.",
            EventSubjectPageShown,
            example={
                "data": [
                    {
                        "key": "customer-1",
                        "first_event_at": "2026-01-02T08:00:00Z",
                        "last_event_at": "2026-01-31T10:00:00Z",
                    }
                ],
                "meta": cursors(20, ["customer-1"], more=False),
            },
        ),
    ),
)


class V3EventSubjects:
    """The handler of the list."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def bound(self) -> list[Bound]:
        """What it answers."""
        return [bind(LIST_EVENT_SUBJECTS, self.list)]

    async def list(self, call: Call[EventSubjectsParameters, None]) -> web.Response:
        """One page; the cursor is the last subject of the page before."""
        asked, page = call.parameters.filter, call.parameters.page
        if page.after is not None and "\x00" in page.after:
            reason = "is no cursor; take it from meta.page.next of the page before"
            raise invalid(Fault("page[after]", reason, "matches_regex", "query"))
        # one more than asked for tells whether there is a following page
        query = SubjectQuery(call.namespace, page.size + 1, asked.conditions(), page.after)
        found = await self._stores.usage.event_subjects(query)
        listed = found[: page.size]
        answer: EventSubjectPageShown = {
            "data": [
                {
                    "key": one.subject,
                    "first_event_at": rfc3339(one.first_ms),
                    "last_event_at": rfc3339(one.last_ms),
                }
                for one in listed
            ],
            "meta": cursors(
                page.size, [one.subject for one in listed], more=len(found) > page.size
            ),
        }
        return json_response(answer)
