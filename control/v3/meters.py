"""Meters in API v3 (peer-api.md 1.5)."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, NotRequired, Self

from aiohttp import web
from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from control.absence import NotNull
from control.meter_shapes import (
    VALUE_WORDS,
    Dimensions,
    JsonPath,
    MeterKey,
    MeterName,
    disagreements_of,
    judged_whole,
)
from control.names import METER_NAMES
from control.pages import NumberMetaShown
from control.stores import Stores
from control.text_filter import TextFilter
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import NO_BODY, Answer, Bound, Call, Operation, bind, json_body
from meterline.http.shapes import (
    Closed,
    Description,
    EventType,
    Instant,
    InstantShown,
    NoParameters,
    NumberedPage,
    Parameters,
    Ulid,
)
from meterline.limits import LABELS_MAX
from meterline.meter import Aggregation, Meter, MeterChange, MeterDraft
from meterline.problem import Fault, ProblemType
from meterline.window import rfc3339

LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


def _label(name: str) -> str:
    if not re.fullmatch(LABEL, name):
        raise PydanticCustomError("matches_regex", "is no name of a label, such as team")
    return name


Labels = Annotated[
    dict[Annotated[str, AfterValidator(_label)], Annotated[str, Field(pattern=f"^{LABEL}$")]],
    Field(
        max_length=LABELS_MAX,
        description="For finding meters again.",
        examples=[{"team": "a"}],
        json_schema_extra={"propertyNames": {"pattern": f"^{LABEL}$"}},
    ),
]
ValueProperty = Annotated[JsonPath | None, NotNull(), Field(description=VALUE_WORDS)]


class MeterBody(Closed):
    """What defines a meter."""

    key: MeterKey
    name: MeterName
    aggregation: Aggregation
    event_type: Annotated[EventType, Field(description="`type` of the events that it measures.")]
    description: Annotated[Description, Field(description="For people.")] = ""
    labels: Labels = {}
    events_from: Annotated[
        Instant | None, NotNull(), Field(description="Events of before are not counted.")
    ] = None
    value_property: ValueProperty = None
    dimensions: Dimensions = {}

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, sent: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        found: list[Fault] = []
        if isinstance(sent, dict) and sent.get("value_property", "") is not None:
            value = sent.get("value_property")
            found = disagreements_of(sent.get("aggregation"), value, sent.get("dimensions"))
        return judged_whole(handler, sent, found)

    def draft(self) -> MeterDraft:
        """The definition."""
        return MeterDraft(
            key=self.key,
            name=self.name,
            aggregation=self.aggregation,
            event_type=self.event_type,
            value_property=self.value_property,
            description=self.description,
            dimensions=tuple(sorted(self.dimensions.items())),
            events_from_ms=self.events_from,
            labels=tuple(sorted(self.labels.items())),
        )


class MeterUpdateBody(Closed):
    """What an update gives anew; what it leaves out stays. `""` and `{}` empty a member."""

    name: Annotated[MeterName | None, NotNull()] = None
    description: Annotated[Description | None, NotNull(), Field(description="For people.")] = None
    labels: Annotated[Labels | None, NotNull()] = None
    event_type: Annotated[
        EventType | None, NotNull(), Field(description="`type` of the events that it measures.")
    ] = None
    value_property: ValueProperty = None
    dimensions: Annotated[Dimensions | None, NotNull()] = None

    def change(self) -> MeterChange:
        """The change that it asks for."""
        labels, dimensions = self.labels, self.dimensions
        return MeterChange(
            name=self.name,
            description=self.description,
            labels=None if labels is None else tuple(sorted(labels.items())),
            event_type=self.event_type,
            value_property=self.value_property,
            dimensions=None if dimensions is None else tuple(sorted(dimensions.items())),
        )


class MeterFilter(Parameters):
    """Conditions on meters, joined by and."""

    key: TextFilter | None = None
    name: TextFilter | None = None

    def accepts(self, meter: Meter) -> bool:
        """Whether a meter is listed."""
        return all(
            one is None or one.accepts(text)
            for one, text in ((self.key, meter.key), (self.name, meter.name))
        )


_SORTED_BY: Final[dict[str, Callable[[Meter], Any]]] = {
    "key": lambda meter: meter.key,
    "name": lambda meter: meter.name,
    "aggregation": lambda meter: meter.aggregation.value,
    "created_at": lambda meter: meter.created_at_ms,
    "updated_at": lambda meter: meter.updated_at_ms,
}


class MeterListParameters(Parameters):
    """Which meters, in which order, which page."""

    page: NumberedPage = NumberedPage()
    sort: Annotated[
        str,
        Field(
            pattern=rf"^({'|'.join(_SORTED_BY)})( (asc|desc))?$",
            description="A member, and ` desc` behind it for the other direction.",
            examples=["name desc"],
        ),
    ] = "created_at"
    filter: MeterFilter = MeterFilter()


class MeterShown(TypedDict):
    """A meter: what is measured of which events. What it does not have is left out."""

    id: Ulid
    key: str
    name: str
    description: NotRequired[str]
    aggregation: Aggregation
    event_type: str
    value_property: NotRequired[str]
    dimensions: Annotated[dict[str, str], Field(description="Names, and JSON paths into `data`.")]
    events_from: NotRequired[InstantShown]
    labels: dict[str, str]
    created_at: InstantShown
    updated_at: InstantShown


class MeterPageShown(TypedDict):
    """A page of meters."""

    data: list[MeterShown]
    meta: NumberMetaShown


_SENT: Final = {
    "key": "tokens_total",
    "name": "Tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
    "dimensions": {"model": "$.model"},
}
_SHOWN: Final = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    **_SENT,
    "labels": {},
    "created_at": "2026-01-31T10:00:00Z",
    "updated_at": "2026-01-31T10:00:00Z",
}

CREATE_METER: Final = Operation(
    id="create-meter",
    method="POST",
    path="/meters",
    tag="Meters",
    summary="Create a meter",
    description="Create a meter. It also measures the events that were sent before it was made.",
    scope=Scope.METERS_WRITE,
    parameters=NoParameters,
    body=json_body(MeterBody, _SENT),
    answers=(Answer(201, "The meter.", MeterShown, example=_SHOWN),),
    problems=(ProblemType.CONFLICT,),
)
LIST_METERS: Final = Operation(
    id="list-meters",
    method="GET",
    path="/meters",
    tag="Meters",
    summary="List meters",
    scope=Scope.METERS_READ,
    parameters=MeterListParameters,
    body=NO_BODY,
    answers=(
        Answer(
            200,
            "A page of meters.",
            MeterPageShown,
            example={"data": [_SHOWN], "meta": {"page": {"number": 1, "size": 20, "total": 1}}},
        ),
    ),
)
GET_METER: Final = Operation(
    id="get-meter",
    method="GET",
    path="/meters/{meterId}",
    tag="Meters",
    summary="Get a meter",
    scope=Scope.METERS_READ,
    names=METER_NAMES,
    parameters=NoParameters,
    body=NO_BODY,
    answers=(Answer(200, "The meter.", MeterShown, example=_SHOWN),),
)
UPDATE_METER: Final = Operation(
    id="update-meter",
    method="PUT",
    path="/meters/{meterId}",
    tag="Meters",
    summary="Update a meter",
    description=(
        "Change a meter. Members that are left out stay as they are; key, aggregation and "
        "events_from never change. Another event_type, value_property or other dimensions make a "
        "new revision, which answers at once and is filled in from the events that are kept."
    ),
    scope=Scope.METERS_WRITE,
    names=METER_NAMES,
    parameters=NoParameters,
    body=json_body(MeterUpdateBody, {"name": "All tokens", "description": "Of every model."}),
    answers=(
        Answer(
            200,
            "The meter as it is now.",
            MeterShown,
            example={**_SHOWN, "name": "All tokens", "description": "Of every model."},
        ),
    ),
    problems=(ProblemType.CONFLICT,),
)
DELETE_METER: Final = Operation(
    id="delete-meter",
    method="DELETE",
    path="/meters/{meterId}",
    tag="Meters",
    summary="Delete a meter",
    description="Delete a meter; a report that uses it has to go first. Its events are kept.",
    scope=Scope.METERS_WRITE,
    names=METER_NAMES,
    parameters=NoParameters,
    body=NO_BODY,
    answers=(Answer(204, "It is deleted."),),
    problems=(ProblemType.CONFLICT,),
)


class V3Meters:
    """Handlers of the collection and of one meter."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def bound(self) -> list[Bound]:
        """What it answers."""
        return [
            bind(CREATE_METER, self.create),
            bind(LIST_METERS, self.list),
            bind(GET_METER, self.get),
            bind(UPDATE_METER, self.update),
            bind(DELETE_METER, self.delete),
        ]

    async def create(self, call: Call[NoParameters, MeterBody]) -> web.Response:
        """201 with the meter; 409 where the key is taken."""
        stores, draft = self._stores, call.body.draft()
        meter = await stores.catalogue.create_meter(
            call.namespace, draft, stores.clock.now_ms(), author=call.principal.author
        )
        return json_response(shown(meter), status=201)

    async def list(self, call: Call[MeterListParameters, None]) -> web.Response:
        """One page of the meters that pass the filter."""
        asked = call.parameters
        member, _, direction = asked.sort.partition(" ")
        meters = [
            meter
            for meter in await self._stores.catalogue.meters(call.namespace)
            if asked.filter.accepts(meter)
        ]
        meters.sort(key=_SORTED_BY[member], reverse=direction == "desc")
        number, size = asked.page.number, asked.page.size
        first = (number - 1) * size
        page: MeterPageShown = {
            "data": [shown(meter) for meter in meters[first : first + size]],
            "meta": {"page": {"number": number, "size": size, "total": len(meters)}},
        }
        return json_response(page)

    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The meter."""
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        return json_response(shown(meter))

    async def update(self, call: Call[NoParameters, MeterUpdateBody]) -> web.Response:
        """200 with the meter as it is now; 409 where it is not for the API to change it so."""
        stores, change = self._stores, call.body.change()
        meter = await stores.catalogue.update_meter(
            call.namespace,
            call.names["meterId"],
            change,
            stores.clock.now_ms(),
            author=call.principal.author,
        )
        return json_response(shown(meter))

    async def delete(self, call: Call[NoParameters, None]) -> web.Response:
        """204; its usage is kept, and no longer answered."""
        stores = self._stores
        await stores.catalogue.delete_meter(
            call.namespace,
            call.names["meterId"],
            stores.clock.now_ms(),
            author=call.principal.author,
        )
        return web.Response(status=204)


def shown(meter: Meter) -> MeterShown:
    """The meter as v3 shows it."""
    members: MeterShown = {
        "id": meter.id,
        "key": meter.key,
        "name": meter.name,
        "aggregation": meter.aggregation,
        "event_type": meter.event_type,
        "dimensions": dict(meter.dimensions),
        "labels": dict(meter.labels),
        "created_at": rfc3339(meter.created_at_ms),
        "updated_at": rfc3339(meter.updated_at_ms),
    }
    if meter.description:
        members["description"] = meter.description
    if meter.value_property is not None:
        members["value_property"] = meter.value_property
    if meter.events_from_ms is not None:
        members["events_from"] = rfc3339(meter.events_from_ms)
    return members
