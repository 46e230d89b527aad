"""The role that brings stores to this release, and ends."""

import asyncio
from contextlib import AsyncExitStack

import structlog

from meterline.backends.control_store.migrate import migrate
from meterline.runtime.roles.stores import gathered
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters

logger = structlog.get_logger()


async def migrate_all(settings: Settings, stop: asyncio.Event) -> None:
    """Bring every store to this release: topic, tables, control store."""
    adapters.check_room(settings)
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        database = adapters.open_control_database(settings, stack)
        await patience.wait("control", lambda: migrate(database))
        log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
        # They know each other from here on: one that is lost later is noticed.
        await gathered(settings, patience, stack, database, log)
        logger.info("migrated")
