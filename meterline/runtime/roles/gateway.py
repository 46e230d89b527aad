"""What roles that take events in have in common."""

import asyncio
from contextlib import AsyncExitStack

from ingest.gateway import Gateway
from meterline.http.gate import Gate
from meterline.runtime.roles.stores import ended
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import CLOCK, OpenLog
from meterline.runtime.wiring.layout_watch import follow_routes
from meterline.runtime.wiring.telemetry import Telemetry


async def open_gateway(
    settings: Settings,
    log: OpenLog,
    gate: Gate,
    stack: AsyncExitStack,
    measured: Telemetry,
    *,
    with_inbox: bool = False,
) -> Gateway:
    """The gateway; with the inbox, its reader runs until the stack is closed."""
    publisher = adapters.publisher(settings, log, measured.recorder)
    measured.of_gateway(publisher)
    stack.push_async_callback(publisher.close)
    following = asyncio.create_task(follow_routes(log))
    stack.push_async_callback(ended, following)
    inbox = adapters.inbox(settings, publisher, log, stack) if with_inbox else None
    if inbox is not None:
        reading = asyncio.create_task(inbox.run())
        stack.push_async_callback(ended, reading)
    rules = adapters.admission_rules(settings, log)
    return Gateway(publisher, rules, CLOCK, gate, settings.body_bytes_max, measured.recorder)
