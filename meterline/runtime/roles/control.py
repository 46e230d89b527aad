"""The role that has the whole API."""

import asyncio
from contextlib import AsyncExitStack

from control.health import Health
from meterline.runtime.drain import draining
from meterline.runtime.roles.gateway import open_gateway
from meterline.runtime.roles.reporting import secrets_of
from meterline.runtime.roles.serving import serve_role
from meterline.runtime.roles.stores import opened_stores
from meterline.runtime.roles.whole_api import checks_of_api, measure_stores, whole_api
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters, reports
from meterline.runtime.wiring.access import open_gate, session_guard
from meterline.runtime.wiring.adapters import CLOCK
from meterline.runtime.wiring.telemetry import telemetry


async def control(settings: Settings, stop: asyncio.Event) -> None:
    """The whole API, events included; no counting and no sending."""
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        measured = telemetry(settings, "control", stack)
        opened = await opened_stores(settings, patience, stack, measured)
        await patience.wait("control", lambda: adapters.put_meters(settings, opened))
        box = await secrets_of(settings, patience, opened)
        gate = await open_gate(settings, opened.database, stack, CLOCK)
        gateway = await open_gateway(settings, opened.log, gate.gate, stack, measured)
        # a dispatcher of another process finds by itself what there is to do
        service = reports.report_service(settings, opened, box, stack, lambda: None)
        drain = draining(stack, stop, settings.drain_s)
        checks = checks_of_api(settings, opened, gate, drain)
        api = whole_api(settings, opened, service, gate, gateway, checks)
        measure_stores(measured, opened)
        measured.of_health(Health(checks))
        await serve_role(stack, settings, "control", api, measured, drain, session_guard(gate))
        await drain.ended.wait()
