"""Disks that are wiped: all that an installation had is gone, but what is kept elsewhere."""

import asyncio
import shutil
from typing import Final

import asyncpg
from aiokafka.admin import AIOKafkaAdminClient

from tests.journey.setups import Servers
from tests.recovery.installation import Installation
from tests.upgrade.servers import Place

SECRET_KEY: Final = "METERLINE_SECRET_KEY"
_NAME: Final = "METERLINE_LOG_TOPIC"
_DATABASE: Final = "METERLINE_CONTROL_URL"


def wipe_folder(one: Installation) -> str:
    """Kill the process, and remove its folder of data. Returns the key that an operator keeps."""
    one.setup.kill()
    data = one.setup.folder / "data"
    key = (data / "secret.key").read_text()
    shutil.rmtree(data)
    return key


def put_key(one: Installation, key: str) -> None:
    """Put the key of an installation into a new folder of data."""
    path = one.setup.folder / "data" / "secret.key"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(key)
    path.chmod(0o600)


def wipe_servers(one: Installation, servers: Servers) -> str:
    """Kill all processes, and remove their folders, the topic and both databases. Returns the key
    that an operator keeps.
    """
    one.setup.kill()
    for process in one.setup.processes.values():
        shutil.rmtree(process.folder / "data", ignore_errors=True)
    settings = one.settings
    place = Place(servers, settings[_NAME], settings[_DATABASE])
    place.clickhouse(f"DROP DATABASE {place.name} SYNC", database="default")
    asyncio.run(_drop(place))
    return settings[SECRET_KEY]


async def _drop(place: Place) -> None:
    """Remove the database of the control store, and the topic."""
    dsn = place.servers.postgres.replace("postgresql+asyncpg://", "postgresql://", 1)
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"DROP DATABASE {place.name} WITH (FORCE)")
    finally:
        await connection.close()
    admin = AIOKafkaAdminClient(bootstrap_servers=place.servers.kafka)
    await admin.start()
    try:
        await admin.delete_topics([place.name])
    finally:
        await admin.close()
