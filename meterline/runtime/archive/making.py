"""A backup of the installation that the settings name."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from aggregator.catch_up import check_all_counted
from meterline.backends.clickhouse.usage.whole import ClickHouseArchive
from meterline.backends.control_store.migrations.migrated import check_migrated
from meterline.runtime.archive.files import Tell
from meterline.runtime.archive.serving import ask_for_backup
from meterline.runtime.archive.writing import Source, write_archive
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import CLOCK, Opened


def source_of(settings: Settings, opened: Opened) -> Source:
    """The stores of a process that has them open."""
    usage, losses = ClickHouseArchive(opened.connection), settings.losses_accepted
    log, progress = opened.log, opened.stores.progress
    check = partial(check_all_counted, log, opened.usage, progress, losses_accepted=losses)
    return Source(log, opened.database, usage, check, CLOCK)


async def make_backup(folder: Path, settings: Settings, opened: Opened, tell: Tell) -> None:
    """Write a backup of open stores."""
    manifest = await write_archive(folder, source_of(settings, opened), tell)
    size = sum(one.bytes for one in manifest.files)
    tell(f"{len(manifest.files)} files, {size:,} bytes, as of {manifest.made_at}")


async def backup(folder: Path, settings: Settings, stop: asyncio.Event, tell: Tell) -> None:
    """Write a backup into `folder`: of an embedded set-up by the process that runs it, if one does.

    Raises `Unavailable`, `Unsuitable`.
    """
    embedded = settings.usage_url == "chdb" or not settings.kafka_servers
    if embedded and await ask_for_backup(settings.data_dir, folder, tell):
        return
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
        database = adapters.open_control_database(settings, stack)
        await patience.wait("control", lambda: check_migrated(database))
        usage = await patience.wait("usage", lambda: adapters.open_usage(settings, stack))
        opened = await patience.wait(
            "stores", lambda: adapters.open_all(settings, database, usage, log)
        )
        await make_backup(folder, settings, opened, tell)
