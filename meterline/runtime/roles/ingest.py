"""The role that takes events in."""

import asyncio
from contextlib import AsyncExitStack

from control import front
from control.health import Health
from ingest.gateway import routes as event_routes
from meterline.runtime.drain import draining
from meterline.runtime.roles.gateway import open_gateway
from meterline.runtime.roles.serving import serve_role
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.access import open_gate
from meterline.runtime.wiring.adapters import CLOCK
from meterline.runtime.wiring.telemetry import joined, telemetry
from meterline.runtime.workers.worker import from_environment


async def ingest(settings: Settings, stop: asyncio.Event) -> None:
    """The gateway alone: it needs the log and nothing else. It may be one of several workers."""
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        worker = await from_environment(stack)
        measured = telemetry(settings, "ingest", stack)
        if worker is not None:  # first: its parent may tell it to stop while it waits
            joined(stack, worker, measured, stop)
        log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
        # asked for keys only
        database = adapters.open_control_database(settings, stack, measured.recorder)
        # each worker grants its part of a limit
        shared = {"limit_shares": settings.limit_shares * settings.workers}
        gate = await open_gate(settings.model_copy(update=shared), database, stack, CLOCK)
        gateway = await open_gateway(settings, log, gate.gate, stack, measured, with_inbox=True)
        retire = None if worker is None else worker.retire
        drain = draining(stack, stop, settings.drain_s, retire)
        checks = {"log": lambda: log.end(0), **gate.checks, "process": drain.check}
        health = Health(checks)
        measured.of_health(health)
        routes = event_routes(gateway, gate.gate) + health.routes() + front.routes(None)
        await serve_role(stack, settings, "ingest", routes, measured, drain, worker=worker)
        await drain.ended.wait()
