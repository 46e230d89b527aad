"""What roles that report have in common."""

import asyncio

from dispatcher.replayer import Replayer
from dispatcher.worker import Dispatcher
from meterline.backends.secrets import FernetSecretBox
from meterline.runtime.secret_key import secret_box
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring.adapters import Opened
from meterline.runtime.wiring.adapters import Worker as Shell


async def secrets_of(settings: Settings, patience: Patience, opened: Opened) -> FernetSecretBox:
    """What opens the secrets of endpoints."""
    return await patience.wait("control", lambda: secret_box(settings, opened.reports))


async def run_until_stopped(
    stop: asyncio.Event, worker: Shell | None, dispatcher: Dispatcher, replayer: Replayer
) -> None:
    """Run until `stop`; a worker that fails ends the others, and its error is raised."""

    async def stop_dispatcher() -> None:
        await stop.wait()
        dispatcher.stop()
        replayer.stop()

    async def count() -> None:
        if worker is not None:
            try:
                await worker.run(stop)
            finally:
                stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(count())
        group.create_task(stop_dispatcher())
        group.create_task(dispatcher.run())
        group.create_task(replayer.run())
