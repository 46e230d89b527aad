"""The published documents over HTTP: every place, both forms, GET and HEAD."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from control.openapi import published
from meterline.runtime.commands import documents

pytestmark = pytest.mark.standard

# Written out here: a change of the constants in the product must fail.
PLACES = {"/api": "v3", "/api/v3": "v3", "/api/v1": "v1"}
MEDIA_TYPES = {"json": "application/json", "yaml": "application/yaml"}
CLIENTS = Path(__file__).parents[3] / "clients" / "openapi"


def _application() -> web.Application:
    application = web.Application()
    v3, v1 = documents.v3(documents.declared_v3()), documents.v1(documents.declared_v1())
    application.add_routes(published.routes(v3, published.V3_PLACES))
    application.add_routes(published.routes(v1, published.V1_PLACES))
    return application


def _operation_ids(document: Mapping[str, Any]) -> list[str]:
    operations = (operation for path in document["paths"].values() for operation in path.values())
    return [each["operationId"] for each in operations if "operationId" in each]


@pytest.mark.parametrize("form", MEDIA_TYPES)
@pytest.mark.parametrize("place", PLACES)
async def test_each_place_serves_the_published_file(place: str, form: str) -> None:
    async with TestClient(TestServer(_application())) as client:
        path = f"{place}/openapi.{form}"
        got, head = await client.get(path), await client.head(path)
        body = await got.read()
        assert (got.status, head.status) == (200, 200)
        assert got.content_type == head.content_type == MEDIA_TYPES[form]
        assert await head.read() == b""
        assert head.headers["Content-Length"] == str(len(body))
    served = msgspec.json.decode(body) if form == "json" else yaml.safe_load(body)
    assert served == msgspec.json.decode((CLIENTS / f"{PLACES[place]}.json").read_bytes())
    ids = _operation_ids(served)
    assert ids
    assert len(ids) == len(set(ids))
