"""Meters in API v1: the contract's words (2.3) and the peer's (peer-api.md 2)."""

from dataclasses import replace
from typing import Annotated, Final, Literal

from aiohttp import web
from pydantic import AliasGenerator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from control.edge import Closed, Description, EventType, Instant, Text, body_of, path_name
from control.stores import Stores
from meterline.http import json_response
from meterline.limits import LABELS_MAX
from meterline.meter import Aggregation, Meter, MeterDraft, faults_of
from meterline.problem import Fault, invalid
from meterline.window import WindowSize, rfc3339

_V1_WORDS: Final = {
    "key": "slug",
    "event_type": "eventType",
    "value_property": "valueProperty",
    "dimensions": "groupBy",
}
Capitals = Literal["SUM", "COUNT", "AVG", "MIN", "MAX", "UNIQUE_COUNT", "LATEST"]


class Camel(Closed):
    """A body whose members are spelled as v1 does."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=to_camel))


class MeterBody(Camel):
    """What defines a meter. `windowSize` is taken for old clients' sake and means nothing."""

    slug: Text
    aggregation: Capitals
    event_type: EventType
    name: Text | None = None
    description: Description | None = None
    event_from: Instant | None = None
    value_property: Text | None = None
    group_by: dict[Text, Text] | None = None
    window_size: WindowSize | None = None
    metadata: Annotated[dict[Text, Text] | None, Field(max_length=LABELS_MAX)] = None

    def draft(self) -> MeterDraft:
        """The definition, not yet judged; a meter without a name has its slug for one."""
        return MeterDraft(
            key=self.slug,
            name=self.slug if self.name is None else self.name,
            aggregation=Aggregation(self.aggregation.lower()),
            event_type=self.event_type,
            # contract 2.3 has no word for "none" but the empty text
            value_property=self.value_property or None,
            description=self.description or "",
            dimensions=tuple(sorted((self.group_by or {}).items())),
            events_from_ms=self.event_from,
            labels=tuple(sorted((self.metadata or {}).items())),
        )


class V1Meters:
    """Handlers of the collection and of one meter. Unknown query parameters are ignored."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def routes(self) -> list[web.RouteDef]:
        """Where they are mounted."""
        return [
            web.get("/api/v1/meters", self.list),
            web.post("/api/v1/meters", self.create),
            web.get("/api/v1/meters/{id_or_key}", self.get),
            web.delete("/api/v1/meters/{id_or_key}", self.delete),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """201 with the meter; 400 with all faults, 409 where the slug is taken."""
        draft = (await body_of(request, MeterBody)).draft()
        if faults := faults_of(draft):
            raise invalid(*(_in_v1_words(fault) for fault in faults))
        stores = self._stores
        meter = await stores.catalogue.create_meter(stores.namespace, draft, stores.clock.now_ms())
        return json_response(members(meter), status=201)

    async def list(self, _request: web.Request) -> web.Response:
        """All meters, by creation, in a bare array."""
        meters = await self._stores.catalogue.meters(self._stores.namespace)
        return json_response([members(meter) for meter in meters])

    async def get(self, request: web.Request) -> web.Response:
        """The meter."""
        return json_response(members(await self._stores.meter(path_name(request))))

    async def delete(self, request: web.Request) -> web.Response:
        """204; its usage is kept, and no longer answered."""
        stores = self._stores
        meter = await stores.meter(path_name(request))
        await stores.catalogue.delete_meter(stores.namespace, meter.id, stores.clock.now_ms())
        return web.Response(status=204)


def members(meter: Meter) -> dict[str, object]:
    """The meter as v1 shows it."""
    shown: dict[str, object] = {
        "id": meter.id,
        "slug": meter.key,
        "name": meter.name,
        "description": meter.description,
        "aggregation": meter.aggregation.value.upper(),
        "windowSize": WindowSize.MINUTE.value,
        "eventType": meter.event_type,
        "valueProperty": meter.value_property or "",
        "groupBy": dict(meter.dimensions),
        "metadata": dict(meter.labels),
        "createdAt": rfc3339(meter.created_at_ms),
        "updatedAt": rfc3339(meter.updated_at_ms),
    }
    if meter.events_from_ms is not None:
        shown["eventFrom"] = rfc3339(meter.events_from_ms)
    return shown


def _in_v1_words(fault: Fault) -> Fault:
    name, _, rest = fault.field.partition(".")
    words = _V1_WORDS.get(name, name)
    reason = fault.reason.replace("value_property", "valueProperty")
    return replace(fault, field=f"{words}.{rest}" if rest else words, reason=reason)
