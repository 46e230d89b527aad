"""Meters in API v3, as in OpenMeter."""

from collections.abc import Callable
from typing import Annotated, Any, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import NumberMetaShown, numbered_answer, numbered_page, page_shape, part
from control.shapes.text_filter import NamedFilter
from control.v3.meters.bodies import MeterBody, MeterUpdateBody
from control.v3.meters.revision_shapes import MeterRevisionShown, revision_shown
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import InstantShown, NoParameters, NumberedPage, Parameters, Ulid
from meterline.limits import METER_CHANGES_MAX
from meterline.meter import Aggregation, ListedMeter, Meter, MeterRevision
from meterline.problem import ProblemType
from meterline.window import rfc3339


class MeterFilter(NamedFilter):
    """Conditions on meters, joined by and."""


_SORTED_BY: Final[dict[str, Callable[[ListedMeter], Any]]] = {
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
    """A meter: what is measured of which events, by the revision in force. What it does not have is
    left out.
    """

    id: Ulid
    key: str
    name: str
    description: NotRequired[Maybe[str]]
    aggregation: Aggregation
    event_type: str
    value_property: NotRequired[Maybe[str]]
    dimensions: Annotated[dict[str, str], Field(description="Names, and JSON paths into `data`.")]
    events_from: NotRequired[Maybe[InstantShown]]
    labels: dict[str, str]
    revision: Annotated[int, Field(description="Number of the revision in force.")]
    effective_from: NotRequired[
        Annotated[
            Maybe[InstantShown],
            Field(description="First instant of it; what is earlier, older revisions answer."),
        ]
    ]
    pending_revision: NotRequired[
        Annotated[
            Maybe[MeterRevisionShown],
            Field(description="Takes over once it is filled in; until then the meter is as shown."),
        ]
    ]
    from_settings: Annotated[
        bool, Field(description="The settings file defines it: it can be changed only there.")
    ]
    created_at: InstantShown
    updated_at: InstantShown


_PAGE: Final = page_shape("MeterPageShown", MeterShown, "A page of meters.", NumberMetaShown)
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
    "revision": 3,
    "from_settings": False,
    "created_at": "2026-01-31T10:00:00Z",
    "updated_at": "2026-01-31T10:00:00Z",
}


class V3Meters(OfStores, tag="Meters"):
    """Handlers of the collection and of one meter."""

    @Operation(
        id="create-meter",
        route="POST /meters",
        summary="Create a meter",
        description=(
            "Create a meter. It also counts events that were sent before it was created. The "
            f"meters of a namespace may change {METER_CHANGES_MAX} times a minute; further changes "
            "get 429."
        ),
        scope=Scope.METERS_WRITE,
        body=json_body(MeterBody, _SENT),
        answer=Answer(201, "The meter.", MeterShown, example=_SHOWN),
        problems=(ProblemType.CONFLICT,),
    )
    async def create(self, call: Call[NoParameters, MeterBody]) -> web.Response:
        """201 with the meter; 409 where the key is taken."""
        stores, draft = self._stores, call.body.draft()
        meter = await stores.catalogue.create_meter(
            call.namespace, draft, stores.now_ms, author=call.author
        )
        return json_response(shown(meter, None), status=201)

    @Operation(
        id="list-meters",
        route="GET /meters",
        summary="List meters",
        scope=Scope.METERS_READ,
        parameters=MeterListParameters,
        answer=numbered_answer("A page of meters.", _PAGE, _SHOWN),
    )
    async def list(self, call: Call[MeterListParameters, None]) -> web.Response:
        """One page of the meters that pass the filter."""
        asked = call.parameters
        member, _, direction = asked.sort.partition(" ")
        catalogue = self._stores.catalogue
        listed = [
            one
            for one in await catalogue.listed_meters(call.namespace)
            if asked.filter.accepts(one.key, one.name)
        ]
        listed.sort(key=_SORTED_BY[member], reverse=direction == "desc")
        ids = [one.id for one in part(listed, asked.page.number, asked.page.size)]
        found = {one.id: one for one in await catalogue.meters(call.namespace, ids=ids)}
        waiting = await self._stores.revisions.waiting(call.namespace)
        # One that was deleted meanwhile is left out.
        page = [shown(found[one], waiting.get(one)) for one in ids if one in found]
        return json_response(numbered_page(asked.page, page, len(listed)))

    @Operation(
        id="get-meter",
        route="GET /meters/{meterId}",
        summary="Get a meter",
        scope=Scope.METERS_READ,
        answer=Answer(200, "The meter.", MeterShown, example=_SHOWN),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The meter."""
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        return json_response(await self._shown(call.namespace, meter))

    @Operation(
        id="update-meter",
        route="PUT /meters/{meterId}",
        summary="Update a meter",
        description=(
            "Change a meter. Members that are left out stay as they are. key, aggregation and "
            "events_from cannot be changed. A change of event_type, value_property or dimensions "
            "creates a new revision. It is backfilled from stored events and becomes active when "
            "that is finished. Until then it is shown as pending_revision. A second change before "
            "that is applied on top of the first, and replaces it."
        ),
        scope=Scope.METERS_WRITE,
        body=json_body(MeterUpdateBody, {"name": "All tokens", "description": "Of every model."}),
        answer=Answer(
            200,
            "The meter as it is now.",
            MeterShown,
            example={**_SHOWN, "name": "All tokens", "description": "Of every model."},
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def update(self, call: Call[NoParameters, MeterUpdateBody]) -> web.Response:
        """200 with the meter as it is now; 409 where it is not for the API to change it so."""
        stores, change = self._stores, call.body.change()
        meter = await stores.catalogue.update_meter(
            call.namespace, call.names["meterId"], change, stores.now_ms, author=call.author
        )
        return json_response(await self._shown(call.namespace, meter))

    @Operation(
        id="delete-meter",
        route="DELETE /meters/{meterId}",
        summary="Delete a meter",
        description="Delete a meter. Delete reports that use it first. Its events are kept.",
        scope=Scope.METERS_WRITE,
        answer=Answer(204, "It is deleted."),
        problems=(ProblemType.CONFLICT,),
    )
    async def delete(self, call: Call[NoParameters, None]) -> web.Response:
        """204; its usage is kept, and no longer answered."""
        stores = self._stores
        await stores.catalogue.delete_meter(
            call.namespace, call.names["meterId"], stores.now_ms, author=call.author
        )
        return web.Response(status=204)

    async def _shown(self, namespace: str, meter: Meter) -> MeterShown:
        return shown(meter, (await self._stores.revisions.waiting(namespace)).get(meter.id))


def shown(meter: Meter, pending: MeterRevision | None) -> MeterShown:
    """The meter as v3 shows it."""
    shown: MeterShown = {
        "id": meter.id,
        "key": meter.key,
        "name": meter.name,
        "description": meter.description or None,
        "aggregation": meter.aggregation,
        "event_type": meter.event_type,
        "value_property": meter.value_property,
        "dimensions": dict(meter.dimensions),
        "events_from": instant(meter.events_from_ms),
        "labels": dict(meter.labels),
        "revision": meter.revision,
        "effective_from": instant(meter.effective_from_ms),
        "pending_revision": None if pending is None else revision_shown(pending),
        "from_settings": meter.from_settings,
        "created_at": rfc3339(meter.created_at_ms),
        "updated_at": rfc3339(meter.updated_at_ms),
    }
    return present(shown)
