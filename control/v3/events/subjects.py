"""The subjects that events name (API v3, by the peer's path and names): where a search for a
customer begins, whether or not a meter counts these events.
"""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.shapes.pages import cursor_page, no_cursor, page_answer, page_shape
from control.usage.admission import Asks
from control.v3.events.conditions import EventTextFilter, EventTimeFilter
from meterline.access import Scope
from meterline.event import Column, Condition, EventSubject, SubjectQuery
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import CursorPage, InstantShown, Parameters
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


_PAGE: Final = page_shape(
    "EventSubjectPageShown", EventSubjectShown, "A page of subjects, sorted by code points."
)
_EXAMPLE: Final[EventSubjectShown] = {
    "key": "customer-1",
    "first_event_at": "2026-01-02T08:00:00Z",
    "last_event_at": "2026-01-31T10:00:00Z",
}


class V3EventSubjects(OfStores, tag="Events"):
    """The handler of the list."""

    @Operation(
        id="list-event-subjects",
        route="GET /events/subjects",
        summary="List the subjects that events name",
        description="Only events that are kept are looked at, without copies of one. A search that "
        "would read too much is answered 400: give `filter[stored_at]` a span.",
        scope=Scope.USAGE_READ,
        asks=Asks.SEARCH,
        parameters=EventSubjectsParameters,
        answer=page_answer("A page of subjects.", _PAGE, _EXAMPLE, _EXAMPLE["key"]),
    )
    async def list(self, call: Call[EventSubjectsParameters, None]) -> web.Response:
        """One page; the cursor is the last subject of the page before."""
        asked, page = call.parameters.filter, call.parameters.page
        if page.after is not None and "\x00" in page.after:
            raise no_cursor()
        query = SubjectQuery(call.namespace, page.size + 1, asked.conditions(), page.after)
        found = await self._stores.usage.event_subjects(query)
        return json_response(cursor_page(found, page, _shown, lambda it: it.subject))


def _shown(one: EventSubject) -> EventSubjectShown:
    return {
        "key": one.subject,
        "first_event_at": rfc3339(one.first_ms),
        "last_event_at": rfc3339(one.last_ms),
    }
