"""The published documents, served without a key (contract section 4.3; OpenMeter's v3)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
import yaml
from aiohttp import web

JSON: Final = "application/json"
YAML: Final = "application/yaml"  # RFC 9512
V3_PLACES: Final = ("/api", "/api/v3")
V1_PLACES: Final = ("/api/v1",)
# Anybody may read them from anywhere, also a page of another site: they are no secret.
_HEADERS: Final = {"Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=300"}


def as_json(document: Mapping[str, object]) -> bytes:
    """The document, laid out for people too."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def as_yaml(document: Mapping[str, object]) -> bytes:
    """The document in YAML, members in the order of the JSON one."""
    plain = msgspec.json.decode(msgspec.json.encode(document))  # no anchors for what is shared
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100).encode()


def routes(document: Mapping[str, object], places: tuple[str, ...]) -> list[web.RouteDef]:
    """`{place}/openapi.json` and `.yaml`, GET and HEAD, for each place."""
    texts = {"json": (as_json(document), JSON), "yaml": (as_yaml(document), YAML)}
    return [
        web.get(f"{place}/openapi.{form}", _giving(body, media))
        for place in places
        for form, (body, media) in texts.items()
    ]


def _giving(body: bytes, media: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def give(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=media, headers=_HEADERS)

    return give
