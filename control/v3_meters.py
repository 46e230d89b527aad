"""Meters in API v3 (peer-api.md 1.5)."""

from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from control.edge import (
    Closed,
    Description,
    EventType,
    Instant,
    Text,
    body_of,
    integer_parameter,
    parameters_of,
    path_name,
)
from control.stores import Stores
from meterline.http import json_response
from meterline.limits import (
    LABELS_MAX,
    PAGE_NUMBER_MAX,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
)
from meterline.meter import Aggregation, Meter, MeterDraft, faults_of
from meterline.problem import invalid
from meterline.window import rfc3339

# Both prefixes of the peer's history (peer-api.md 1.1).
PREFIXES: Final = ("/api/v3/metering", "/api/v3/openmeter")
LABEL: Final = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"

LabelText = Annotated[str, Field(pattern=LABEL)]


class MeterBody(Closed):
    """What defines a meter; the rules of a definition are `meterline.meter.faults_of`."""

    key: Text
    name: Text
    aggregation: Aggregation
    event_type: EventType
    description: Description | None = None
    labels: Annotated[dict[LabelText, LabelText], Field(max_length=LABELS_MAX)] = {}
    events_from: Instant | None = None
    value_property: Text | None = None
    dimensions: dict[Text, Text] = {}

    def draft(self) -> MeterDraft:
        """The definition, not yet judged."""
        return MeterDraft(
            key=self.key,
            name=self.name,
            aggregation=self.aggregation,
            event_type=self.event_type,
            value_property=self.value_property,
            description=self.description or "",
            dimensions=tuple(sorted(self.dimensions.items())),
            events_from_ms=self.events_from,
            labels=tuple(sorted(self.labels.items())),
        )


class V3Meters:
    """Handlers of the collection and of one meter."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def routes(self) -> list[web.RouteDef]:
        """Where they are mounted."""
        return [
            route
            for prefix in PREFIXES
            for route in (
                web.get(f"{prefix}/meters", self.list),
                web.post(f"{prefix}/meters", self.create),
                web.get(f"{prefix}/meters/{{id_or_key}}", self.get),
                web.delete(f"{prefix}/meters/{{id_or_key}}", self.delete),
            )
        ]

    async def create(self, request: web.Request) -> web.Response:
        """201 with the meter; 400 with all faults, 409 where the key is taken."""
        parameters_of(request, ())
        draft = (await body_of(request, MeterBody)).draft()
        if faults := faults_of(draft):
            raise invalid(*faults)
        stores = self._stores
        meter = await stores.catalogue.create_meter(stores.namespace, draft, stores.clock.now_ms())
        return json_response(members(meter), status=201)

    async def list(self, request: web.Request) -> web.Response:
        """One page of the meters, by creation."""
        parameters = parameters_of(request, ("page[number]", "page[size]"))
        number = integer_parameter(parameters, "page[number]", 1, 1, PAGE_NUMBER_MAX)
        size = integer_parameter(parameters, "page[size]", PAGE_SIZE_DEFAULT, 1, PAGE_SIZE_MAX)
        meters = await self._stores.catalogue.meters(self._stores.namespace)
        first = (number - 1) * size
        page = {"number": number, "size": size, "total": len(meters)}
        data = [members(meter) for meter in meters[first : first + size]]
        return json_response({"data": data, "meta": {"page": page}})

    async def get(self, request: web.Request) -> web.Response:
        """The meter."""
        parameters_of(request, ())
        return json_response(members(await self._stores.meter(path_name(request))))

    async def delete(self, request: web.Request) -> web.Response:
        """204; its usage is kept, and no longer answered."""
        parameters_of(request, ())
        stores = self._stores
        meter = await stores.meter(path_name(request))
        await stores.catalogue.delete_meter(stores.namespace, meter.id, stores.clock.now_ms())
        return web.Response(status=204)


def members(meter: Meter) -> dict[str, object]:
    """The meter as v3 shows it; what it does not have is left out."""
    shown: dict[str, object] = {
        "id": meter.id,
        "key": meter.key,
        "name": meter.name,
        "aggregation": meter.aggregation.value,
        "event_type": meter.event_type,
        "dimensions": dict(meter.dimensions),
        "labels": dict(meter.labels),
        "created_at": rfc3339(meter.created_at_ms),
        "updated_at": rfc3339(meter.updated_at_ms),
    }
    if meter.description:
        shown["description"] = meter.description
    if meter.value_property is not None:
        shown["value_property"] = meter.value_property
    if meter.events_from_ms is not None:
        shown["events_from"] = rfc3339(meter.events_from_ms)
    return shown
