"""The gateway: POST of events over HTTP (contract section 4.1; peer-api.md 1.1 and 1.3).

It needs the log and nothing else: it goes on while every other part is away.
"""

from typing import Final

from aiohttp import web

from ingest.admission import AdmissionRules, admit, body_form
from ingest.publisher import Publisher
from meterline.event import DEFAULT_NAMESPACE
from meterline.http import read_body
from meterline.limits import BODY_BYTES_MAX
from meterline.ports import Clock

EVENTS_PATHS: Final = {
    "/api/v3/metering/events": 202,
    "/api/v3/openmeter/events": 202,
    "/api/v1/events": 204,
}
"""Where events are posted, and the status that says that all of them are durable."""


def routes(
    publisher: Publisher,
    rules: AdmissionRules,
    clock: Clock,
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[web.RouteDef]:
    """The routes of ingest, for an application with `problem_middleware` and `SERVER_OPTIONS`."""

    async def take(request: web.Request, status: int) -> web.Response:
        form = body_form(request.headers.get("Content-Type"))
        body = await read_body(request, body_bytes_max)
        await publisher.publish(admit(body, form, namespace, clock.now_ms(), rules))
        return web.Response(status=status)

    async def accepted(request: web.Request) -> web.Response:
        return await take(request, 202)

    async def no_content(request: web.Request) -> web.Response:
        return await take(request, 204)

    return [
        web.post(path, accepted if status == 202 else no_content)  # noqa: PLR2004
        for path, status in EVENTS_PATHS.items()
    ]
