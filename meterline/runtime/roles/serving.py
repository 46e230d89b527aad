"""What every role answers over HTTP."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from meterline.http.scrape import measuring
from meterline.http.tracing import tracing
from meterline.runtime.allocator import trim_for_ever
from meterline.runtime.drain import Drain
from meterline.runtime.process import serve
from meterline.runtime.roles.loop_watch import LoopWatch
from meterline.runtime.roles.stores import ended
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.access import host_guard
from meterline.runtime.wiring.adapters import CLOCK
from meterline.runtime.wiring.telemetry import Telemetry
from meterline.runtime.workers.worker import Worker

logger = structlog.get_logger()


async def serve_role(
    stack: AsyncExitStack,
    settings: Settings,
    role: str,
    routes: list[web.RouteDef],
    measured: Telemetry,
    drain: Drain | None = None,
    guards: Sequence[Middleware] = (),
    worker: Worker | None = None,
    **more: str,
) -> None:
    """Answer requests, and scrapes of metrics; a line of the log tells where."""
    stack.push_async_callback(ended, asyncio.create_task(trim_for_ever()))
    watch = LoopWatch(CLOCK)
    stack.push_async_callback(ended, asyncio.create_task(watch.turn_for_ever()))
    watch.start()
    stack.callback(watch.close)
    stack.push_async_callback(measured.scrape.close)
    hosts, outermost = host_guard(settings), list[Middleware]()
    if measured.tracer.on:
        outermost.append(tracing(measured.tracer))
    outermost += () if drain is None else drain.middlewares()
    routes, scraped = list(routes), measured.scrape.routes()
    if settings.metrics_port is None:
        routes += scraped
    else:
        of_metrics = None if worker is None else worker.metrics
        place = of_metrics or (settings.host, settings.metrics_port)
        await serve(stack, scraped, place, CLOCK, hosts)
    address = (settings.host, settings.port) if worker is None else worker.api
    inner = [*hosts, *guards]
    answered = measuring(measured.recorder, traced=measured.tracer.on)
    served = await serve(stack, routes, address, CLOCK, inner, outermost, answered)
    if drain is not None:
        drain.serving = served
    if worker is not None:
        worker.ready()
        more["worker"] = str(worker.number)
    logger.info("ready", role=role, url=f"http://{settings.host}:{served.port}", **more)
