"""The list of events in API v2, as in OpenMeter: pages by cursor, filters as JSON."""

from typing import Annotated, Any, Final, NotRequired, TypeVar

from aiohttp import web
from pydantic import AfterValidator, ConfigDict, Field, Json
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from control.event_judgement import judged
from control.handlers import OfStores, Operation
from control.shapes.refused_parameters import Customers
from control.usage.admission import Asks
from control.v1.events import EXAMPLE, ClientId, IngestedEventShown, shown
from meterline.access import Scope
from meterline.event import Column, Condition, EventQuery, Op, Order, decode_cursor
from meterline.event import encode_cursor as encoded
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import Closed, Cursor, Digits, Instant, LooseParameters
from meterline.limits import (
    EVENT_FILTER_CHARS_MAX,
    PAGE_SIZE_MAX,
    QUERY_FILTER_DEPTH_MAX,
    QUERY_FILTER_PARTS_MAX,
    QUERY_FILTER_VALUES_MAX,
)
from meterline.problem import Fault, invalid

ORDER: Final = Order()
Operand = Annotated[str, Field(max_length=EVENT_FILTER_CHARS_MAX)]
Operands = Annotated[list[Operand], Field(min_length=1, max_length=QUERY_FILTER_VALUES_MAX)]
PARTS: Final = Field(min_length=1, max_length=QUERY_FILTER_PARTS_MAX)
_ALIASES: Final = ConfigDict(alias_generator=lambda name: f"${name.rstrip('_')}")


class FilterString(Closed):
    """Conditions on a text, joined by and."""

    model_config = _ALIASES

    eq: Operand | None = None
    ne: Operand | None = None
    in_: Operands | None = None
    nin: Operands | None = None
    like: Annotated[
        Operand | None, Field(description="% stands for any text, _ for any character.")
    ] = None
    nlike: Operand | None = None
    ilike: Annotated[Operand | None, Field(description="Whatever the case of letters.")] = None
    nilike: Operand | None = None
    gt: Operand | None = None
    gte: Operand | None = None
    lt: Operand | None = None
    lte: Operand | None = None
    and_: "Annotated[list[FilterString], PARTS] | None" = None
    or_: "Annotated[list[FilterString], PARTS] | None" = None


class FilterTime(Closed):
    """Conditions on an instant, joined by and."""

    model_config = _ALIASES

    gt: Instant | None = None
    gte: Instant | None = None
    lt: Instant | None = None
    lte: Instant | None = None
    and_: "Annotated[list[FilterTime], PARTS] | None" = None
    or_: "Annotated[list[FilterTime], PARTS] | None" = None


_Asked = TypeVar("_Asked", FilterString, FilterTime)


def _condition(asked: FilterString | FilterTime) -> Condition:
    """What is asked for."""
    found = []
    for name in type(asked).model_fields:
        operand: Any = getattr(asked, name)
        op = Op(name.rstrip("_"))
        if operand is None:
            continue
        if op in (Op.AND, Op.OR):
            found.append(Condition(op, parts=tuple(_condition(part) for part in operand)))
        else:
            found.append(Condition(op, tuple(operand) if isinstance(operand, list) else (operand,)))
    return Condition(Op.AND, parts=tuple(found))


def _depth(asked: FilterString | FilterTime) -> int:
    parts = (*(asked.and_ or ()), *(asked.or_ or ()))
    return 1 + max(_depth(part) for part in parts) if parts else 0


def _within_depth(asked: _Asked) -> _Asked:
    if _depth(asked) > QUERY_FILTER_DEPTH_MAX:
        template = "holds $and, $or more than {most} deep"
        raise PydanticCustomError("max_depth", template, {"most": QUERY_FILTER_DEPTH_MAX})
    return asked


OnText = Annotated[FilterString, AfterValidator(_within_depth)]
OnTime = Annotated[FilterTime, AfterValidator(_within_depth)]


class EventsFilter(Closed):
    """Conditions on events, joined by and."""

    id: OnText | None = None
    source: OnText | None = None
    subject: OnText | None = None
    type: OnText | None = None
    time: OnTime | None = None
    ingested_at: Annotated[OnTime | None, Field(alias="ingestedAt")] = None
    customer_id: Annotated[Customers, Field(alias="customerId")] = None

    def conditions(self) -> tuple[tuple[Column, Condition], ...]:
        """What is asked for."""
        asked = (
            (Column.ID, self.id),
            (Column.SOURCE, self.source),
            (Column.SUBJECT, self.subject),
            (Column.TYPE, self.type),
            (Column.TIME, self.time),
            (Column.INGESTED_AT, self.ingested_at),
        )
        return tuple((column, _condition(one)) for column, one in asked if one is not None)


class EventPageParameters(LooseParameters):
    """Which events, which page."""

    cursor: Annotated[Cursor | None, Field(description="`nextCursor` of the page before.")] = None
    limit: Annotated[
        int, Field(ge=1, le=PAGE_SIZE_MAX, description="Entries of a page."), Digits
    ] = PAGE_SIZE_MAX
    client_id: Annotated[ClientId | None, Field(alias="clientId")] = None
    filter: Annotated[
        Json[EventsFilter] | None,
        Field(
            description="Conditions as JSON.",
            examples=['{"subject":{"$eq":"customer-1"},"type":{"$in":["request","prompt"]}}'],
        ),
    ] = None


class EventPageShown(TypedDict):
    """A page of events, the latest first."""

    items: list[IngestedEventShown]
    nextCursor: NotRequired[Annotated[str, Field(description="Of the next page, if there is one.")]]


class V2Events(OfStores, tag="Events"):
    """The handler of the list."""

    @Operation(
        id="listEventsV2",
        route="GET /v2/events",
        summary="List events, with filters and pages",
        scope=Scope.EVENTS_READ,
        asks=Asks.SEARCH,
        parameters=EventPageParameters,
        answer=Answer(200, "A page of events.", EventPageShown, example={"items": [EXAMPLE]}),
    )
    async def list(self, call: Call[EventPageParameters, None]) -> web.Response:
        """One page; `nextCursor` leads to the next, where there is one."""
        asked = call.parameters
        try:
            after = None if asked.cursor is None else decode_cursor(asked.cursor, ORDER)
        except ValueError as error:
            raise invalid(Fault("cursor", str(error), "matches_regex", "query")) from error
        query = EventQuery(
            namespace=call.namespace,
            now_ms=self._stores.now_ms,
            limit=asked.limit + 1,  # one more than asked for tells whether there is a next page
            conditions=() if asked.filter is None else asked.filter.conditions(),
            order=ORDER,
            after=after,
        )
        found = await judged(self._stores, query)
        page: EventPageShown = {"items": [shown(one) for one in found[: asked.limit]]}
        if len(found) > asked.limit:
            page["nextCursor"] = encoded(ORDER, found[asked.limit - 1].listed.place_by(ORDER))
        return json_response(page)
