"""The role that counts."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from control import front
from control.health import Health, checks_of
from meterline.runtime.roles.serving import serve_role
from meterline.runtime.roles.stores import opened_stores
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters, counting
from meterline.runtime.wiring.inbox_agreement import agreed_inbox
from meterline.runtime.wiring.telemetry import telemetry


async def aggregate(settings: Settings, stop: asyncio.Event) -> None:
    """Counting alone."""
    adapters.check_room(settings)
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        measured = telemetry(settings, "aggregate", stack)
        opened = await opened_stores(settings, patience, stack, measured)
        drained = await agreed_inbox(settings, stack)
        counted = counting.aggregation_worker(settings, opened, drained)
        checks = {**checks_of(opened.stores), "counting": counted.check}
        checks["disk"] = partial(adapters.check_disk, settings)
        health = Health(checks)
        measured.of_counting(counted.step, counted.standing, counted.seen_cached)
        measured.of_progress(opened)
        measured.of_health(health)
        routes = health.routes() + front.routes(None)
        await serve_role(stack, settings, "aggregate", routes, measured)
        await counted.worker.run(stop)
