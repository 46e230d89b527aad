"""The role that reports."""

import asyncio
from contextlib import AsyncExitStack

from control import front
from control.health import Health, checks_of
from meterline.runtime.roles.reporting import run_until_stopped, secrets_of
from meterline.runtime.roles.serving import serve_role
from meterline.runtime.roles.stores import opened_stores
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import reports
from meterline.runtime.wiring.telemetry import telemetry


async def dispatch(settings: Settings, stop: asyncio.Event) -> None:
    """Reports alone."""
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        measured = telemetry(settings, "dispatch", stack)
        opened = await opened_stores(settings, patience, stack, measured)
        sender = reports.webhook_sender(settings, stack)
        box = await secrets_of(settings, patience, opened)
        dispatcher = reports.dispatcher(settings, opened, box, sender, measured.tracer)
        health = Health(checks_of(opened.stores))
        measured.of_reports(opened)
        measured.of_health(health)
        routes = health.routes() + front.routes(None)
        await serve_role(stack, settings, "dispatch", routes, measured)
        await run_until_stopped(stop, None, dispatcher, reports.replayer(opened, dispatcher))
