"""Meters in API v1: the contract's words (2.3), and OpenMeter's."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, NotRequired, Self, cast

from aiohttp import web
from pydantic import (
    AliasGenerator,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.shapes.meter import (
    VALUE_DESCRIPTION,
    Dimensions,
    JsonPath,
    MeterKey,
    MeterName,
    disagreements_of,
    judged_whole,
    pairs,
)
from control.shapes.optional_members import Maybe, instant, present
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import (
    AnyParameters,
    Closed,
    Description,
    Digits,
    EventType,
    Instant,
    InstantShown,
    LooseParameters,
    NoNul,
    Ulid,
)
from meterline.limits import ATTRIBUTE_CHARS_MAX, LABELS_MAX, METERS_MAX, PAGE_NUMBER_MAX
from meterline.meter import Aggregation, Meter, MeterChange, MeterDraft, MeterRevision
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.window import WindowSize, rfc3339

_V1_NAMES: Final = {
    "key": "slug",
    "event_type": "eventType",
    "value_property": "valueProperty",
    "dimensions": "groupBy",
}
Capitals = Literal["SUM", "COUNT", "UNIQUE_COUNT", "AVG", "MIN", "MAX", "LATEST"]


class Camel(Closed):
    """A body whose members are spelled as v1 does."""

    model_config = ConfigDict(alias_generator=AliasGenerator(alias=to_camel))


def _empty_is_none(value: object) -> object:
    return None if value == "" else value


# contract 2.3 has no word for "none" but the empty text
ValueProperty = Annotated[
    JsonPath | None,
    BeforeValidator(_empty_is_none),
    WithJsonSchema({"type": ["string", "null"], "pattern": r"^(\$.*)?$"}),
    Field(description=VALUE_DESCRIPTION),
]
MetadataText = Annotated[str, Field(max_length=ATTRIBUTE_CHARS_MAX), NoNul]
Metadata = Annotated[
    dict[MetadataText, MetadataText],
    Field(max_length=LABELS_MAX, description="For finding meters again; `labels` in v3."),
]

Ignored = Annotated[
    dict[str, object] | None, Field(description="Taken for old clients' sake, and not kept.")
]


class MeterBody(Camel):
    """What defines a meter. `windowSize` and `annotations` are taken for old clients' sake."""

    slug: MeterKey
    aggregation: Capitals
    event_type: EventType
    name: Annotated[MeterName | None, Field(description="The slug, where it is absent.")] = None
    description: Description | None = None
    event_from: Annotated[
        Instant | None, Field(description="Events of before are not counted.")
    ] = None
    value_property: ValueProperty = None
    group_by: Dimensions | None = None
    window_size: WindowSize | None = None
    annotations: Ignored = None
    metadata: Metadata | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, sent: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        found: list[Fault] = []
        if isinstance(sent, dict):
            value = sent.get("valueProperty") or None
            found = disagreements_of(sent.get("aggregation"), value, sent.get("groupBy"))
        return judged_whole(handler, sent, map(_in_v1_names, found))

    def draft(self) -> MeterDraft:
        """The definition; a meter without a name has its slug for one."""
        return MeterDraft(
            key=self.slug,
            name=self.slug if self.name is None else self.name,
            aggregation=Aggregation(self.aggregation.lower()),
            event_type=self.event_type,
            value_property=self.value_property,
            description=self.description or "",
            dimensions=tuple(sorted((self.group_by or {}).items())),
            events_from_ms=self.event_from,
            labels=tuple(sorted((self.metadata or {}).items())),
        )


class MeterUpdateBody(Camel):
    """What an update gives anew; what is absent or null stays. `""` and `{}` empty a member."""

    name: MeterName | None = None
    description: Description | None = None
    group_by: Dimensions | None = None
    annotations: Ignored = None
    metadata: Metadata | None = None

    def change(self) -> MeterChange:
        """The change that it asks for."""
        return MeterChange(
            name=self.name,
            description=self.description,
            dimensions=pairs(self.group_by),
            labels=pairs(self.metadata),
        )


OrderBy = Literal["key", "name", "aggregation", "createdAt", "updatedAt"]
_SORTED_BY: Final[dict[OrderBy, Callable[[Meter], Any]]] = {
    "key": lambda meter: meter.key,
    "name": lambda meter: meter.name,
    "aggregation": lambda meter: meter.aggregation.value,
    "createdAt": lambda meter: meter.created_at_ms,
    "updatedAt": lambda meter: meter.updated_at_ms,
}


class MeterListParameters(LooseParameters):
    """Which meters, in which order; without any, all of them by creation."""

    page: Annotated[
        int, Field(ge=1, le=PAGE_NUMBER_MAX, description="Number of the page, from 1."), Digits
    ] = 1
    page_size: Annotated[
        int, Field(alias="pageSize", ge=1, le=METERS_MAX, description="Meters of a page."), Digits
    ] = METERS_MAX
    order: Annotated[Literal["ASC", "DESC"], Field(description="Direction of the order.")] = "ASC"
    order_by: Annotated[OrderBy, Field(alias="orderBy", description="What to sort by.")] = (
        "createdAt"
    )
    include_deleted: Annotated[
        bool, Field(alias="includeDeleted", description="Whether to list deleted meters too.")
    ] = False


class PendingRevisionShown(TypedDict):
    """What a meter is to measure, once that is filled in from the events that are kept."""

    eventType: str
    valueProperty: Annotated[str, Field(description='JSON path into `data`; "" for a count.')]
    groupBy: Annotated[dict[str, str], Field(description="Names, and JSON paths into `data`.")]


class MeterShown(TypedDict):
    """A meter: what is measured of which events."""

    id: Ulid
    slug: str
    name: str
    description: str
    aggregation: Capitals
    windowSize: Annotated[Literal["MINUTE"], Field(description="Always the same; of old times.")]
    eventType: str
    valueProperty: Annotated[str, Field(description='JSON path into `data`; "" for a count.')]
    groupBy: Annotated[dict[str, str], Field(description="Names, and JSON paths into `data`.")]
    metadata: dict[str, str]
    eventFrom: NotRequired[Maybe[InstantShown]]
    pendingRevision: NotRequired[Maybe[PendingRevisionShown]]
    createdAt: InstantShown
    updatedAt: InstantShown
    deletedAt: NotRequired[Maybe[InstantShown]]


_SENT: Final = {
    "slug": "tokens_total",
    "name": "Tokens",
    "description": "Of every model",
    "aggregation": "SUM",
    "eventType": "prompt",
    "valueProperty": "$.tokens",
    "groupBy": {"model": "$.model"},
}
_SHOWN: Final = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    **_SENT,
    "windowSize": "MINUTE",
    "metadata": {},
    "createdAt": "2026-01-31T10:00:00Z",
    "updatedAt": "2026-01-31T10:00:00Z",
}


class V1Meters(OfStores, tag="Meters"):
    """Handlers of the collection and of one meter. Unknown query parameters are ignored."""

    @Operation(
        id="createMeter",
        route="POST /v1/meters",
        summary="Create a meter",
        scope=Scope.METERS_WRITE,
        parameters=AnyParameters,
        body=json_body(MeterBody, _SENT),
        answer=Answer(201, "The meter.", MeterShown, example=_SHOWN),
        problems=(ProblemType.CONFLICT,),
    )
    async def create(self, call: Call[AnyParameters, MeterBody]) -> web.Response:
        """201 with the meter; 409 where the slug is taken."""
        stores, draft = self._stores, call.body.draft()
        meter = await stores.catalogue.create_meter(
            call.namespace, draft, stores.now_ms, author=call.author
        )
        return json_response(shown(meter, None), status=201)

    @Operation(
        id="listMeters",
        route="GET /v1/meters",
        summary="List meters",
        scope=Scope.METERS_READ,
        parameters=MeterListParameters,
        answer=Answer(200, "Meters.", list[MeterShown], example=[_SHOWN]),
    )
    async def list(self, call: Call[MeterListParameters, None]) -> web.Response:
        """Meters in a bare array; the last deleted ones behind them, where asked for."""
        asked, catalogue = call.parameters, self._stores.catalogue
        meters = await catalogue.meters(call.namespace)
        if asked.include_deleted:
            meters += await catalogue.deleted_meters(call.namespace, METERS_MAX)
        meters.sort(key=_SORTED_BY[asked.order_by], reverse=asked.order == "DESC")
        first = (asked.page - 1) * asked.page_size
        listed = meters[first : first + asked.page_size]
        waiting = await self._stores.revisions.waiting(call.namespace)
        return json_response([shown(meter, waiting.get(meter.id)) for meter in listed])

    @Operation(
        id="getMeter",
        route="GET /v1/meters/{meterIdOrSlug}",
        summary="Get a meter",
        scope=Scope.METERS_READ,
        parameters=AnyParameters,
        answer=Answer(200, "The meter.", MeterShown, example=_SHOWN),
    )
    async def get(self, call: Call[AnyParameters, None]) -> web.Response:
        """The meter."""
        meter = await self._stores.meter(call.namespace, call.names["meterIdOrSlug"])
        return json_response(await self._shown(call.namespace, meter))

    @Operation(
        id="updateMeter",
        route="PUT /v1/meters/{meterIdOrSlug}",
        summary="Update a meter",
        description=(
            "Change a meter's words or its group-by keys. Another groupBy makes a new revision, "
            "which is filled in from the events that are kept and takes over when that is done; "
            "until then the meter answers as before, and pendingRevision shows what it is to be."
        ),
        scope=Scope.METERS_WRITE,
        parameters=AnyParameters,
        body=json_body(MeterUpdateBody, {"name": "All tokens"}),
        answer=Answer(
            200, "The meter as it is now.", MeterShown, example={**_SHOWN, "name": "All tokens"}
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def update(self, call: Call[AnyParameters, MeterUpdateBody]) -> web.Response:
        """200 with the meter as it is now; 409 where it is not for the API to change it so."""
        stores = self._stores
        try:
            meter = await stores.catalogue.update_meter(
                call.namespace,
                call.names["meterIdOrSlug"],
                call.body.change(),
                stores.now_ms,
                author=call.author,
            )
        except Problem as problem:
            if problem.faults:
                raise invalid(*map(_in_v1_names, problem.faults)) from problem
            raise
        return json_response(await self._shown(call.namespace, meter))

    @Operation(
        id="deleteMeter",
        route="DELETE /v1/meters/{meterIdOrSlug}",
        summary="Delete a meter",
        scope=Scope.METERS_WRITE,
        parameters=AnyParameters,
        answer=Answer(204, "It is deleted."),
        problems=(ProblemType.CONFLICT,),
    )
    async def delete(self, call: Call[AnyParameters, None]) -> web.Response:
        """204; its usage is kept, and no longer answered."""
        stores = self._stores
        await stores.catalogue.delete_meter(
            call.namespace, call.names["meterIdOrSlug"], stores.now_ms, author=call.author
        )
        return web.Response(status=204)

    async def _shown(self, namespace: str, meter: Meter) -> MeterShown:
        return shown(meter, (await self._stores.revisions.waiting(namespace)).get(meter.id))


def shown(meter: Meter, pending: MeterRevision | None) -> MeterShown:
    """The meter as v1 shows it."""
    shown: MeterShown = {
        "id": meter.id,
        "slug": meter.key,
        "name": meter.name,
        "description": meter.description,
        "aggregation": cast("Capitals", meter.aggregation.value.upper()),
        "windowSize": "MINUTE",
        **_measured(meter),
        "metadata": dict(meter.labels),
        "eventFrom": instant(meter.events_from_ms),
        "pendingRevision": None if pending is None else _measured(pending.meter),
        "createdAt": rfc3339(meter.created_at_ms),
        "updatedAt": rfc3339(meter.updated_at_ms),
        "deletedAt": instant(meter.deleted_at_ms),
    }
    return present(shown)


def _measured(meter: Meter) -> PendingRevisionShown:
    return {
        "eventType": meter.event_type,
        "valueProperty": meter.value_property or "",
        "groupBy": dict(meter.dimensions),
    }


def _in_v1_names(fault: Fault) -> Fault:
    name, _, rest = fault.field.partition(".")
    v1_name = _V1_NAMES.get(name, name)
    reason = fault.reason.replace("value_property", "valueProperty")
    return replace(fault, field=f"{v1_name}.{rest}" if rest else v1_name, reason=reason)
