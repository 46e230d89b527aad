"""Routes from operations."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from aiohttp import web

from meterline.http.gate import Gate
from meterline.http.operation import Bound
from meterline.http.reading import read_call
from meterline.http.scrape import OPERATION
from meterline.http.tracing import current_trace

# Both prefixes of OpenMeter's history; the first is the contract's.
V3_PREFIXES: Final = ("/api/v3/metering", "/api/v3/openmeter")
OLD_PREFIXES: Final = ("/api",)  # v1 and v2: their paths name the version


def mount(bound: Iterable[Bound], prefixes: Sequence[str], gate: Gate) -> list[web.RouteDef]:
    """Routes of operations below each prefix; every request of theirs passes the gate.

    HEAD comes with GET.
    """
    return [
        web.route(one.operation.method, prefix + one.operation.path, _answering(one, gate))
        for one in bound
        for prefix in prefixes
    ]


def _answering(one: Bound, gate: Gate) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    operation, answer = one.operation, one.answer

    async def handle(request: web.Request) -> web.StreamResponse:
        request[OPERATION] = operation.id
        if (trace := current_trace()) is not None:
            trace.begin()
        principal = gate.enter(request, operation.scope)
        return await answer(await read_call(operation, request, principal))

    return handle
