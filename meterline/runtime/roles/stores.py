"""The stores that a role opens, and the tasks that end with it."""

import asyncio
from contextlib import AsyncExitStack

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrations.migrated import check_migrated
from meterline.ports import SILENT, Recorder
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import Opened, OpenLog
from meterline.runtime.wiring.layout_watch import follow_layout
from meterline.runtime.wiring.telemetry import Telemetry


async def opened_stores(
    settings: Settings, patience: Patience, stack: AsyncExitStack, measured: Telemetry
) -> Opened:
    """All stores of a role that runs beside others, whose schema is there."""
    log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
    recorder = measured.recorder
    database = adapters.open_control_database(settings, stack, recorder)
    await patience.wait("control", lambda: check_migrated(database))
    opened = await gathered(settings, patience, stack, database, log, recorder)
    following = asyncio.create_task(follow_layout(opened))
    stack.push_async_callback(ended, following)
    return opened


async def gathered(
    settings: Settings,
    patience: Patience,
    stack: AsyncExitStack,
    database: Database,
    log: OpenLog,
    recorder: Recorder = SILENT,
) -> Opened:
    """The usage store beside a log and a control store that are open."""
    usage = await patience.wait("usage", lambda: adapters.open_usage(settings, stack, recorder))
    return await patience.wait(
        "stores", lambda: adapters.open_all(settings, database, usage, log, recorder)
    )


async def ended(task: asyncio.Task[None]) -> None:
    """End a task that runs for ever."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
