"""Disks that are wiped: all that an installation had is gone, but what is kept elsewhere."""

import asyncio
import shutil
from pathlib import Path
from typing import Final

import asyncpg
from aiokafka.admin import AIOKafkaAdminClient

from tests.journey.setups import Servers
from tests.recovery.installation import Installation
from tests.services.ready import postgres_dsn
from tests.upgrade.servers import Place

SECRET_KEY: Final = "METERLINE_SECRET_KEY"
KEY_FILE: Final = "secret.key"
_NAME: Final = "METERLINE_LOG_TOPIC"
_DATABASE: Final = "METERLINE_CONTROL_URL"


def wipe_folder(one: Installation) -> str:
    """Kill the process, and remove its folder of data. Returns the key that an operator keeps."""
    one.setup.kill()
    key = key_of(one)
    shutil.rmtree(one.data)
    return key


def key_of(one: Installation) -> str:
    """The key of secrets: a setting on servers, a file in one process."""
    return one.settings.get(SECRET_KEY) or (one.data / KEY_FILE).read_text().strip()


def put_key(data: Path, key: str) -> None:
    """Put the key that an operator keeps into a new folder of data."""
    data.mkdir(exist_ok=True)
    path = data / KEY_FILE
    path.write_text(key)
    path.chmod(0o600)


def wipe_servers(one: Installation, servers: Servers) -> str:
    """Kill all processes, and remove their folders, the topic and both databases. Returns the key
    that an operator keeps.
    """
    one.setup.kill()
    for process in one.setup.processes.values():
        shutil.rmtree(process.folder / "data", ignore_errors=True)
    place = Place(servers, one.settings[_NAME], one.settings[_DATABASE])
    place.clickhouse(f"DROP DATABASE {place.name} SYNC", database="default")
    asyncio.run(_drop(place))
    return key_of(one)


async def _drop(place: Place) -> None:
    """Remove the database of the control store, and the topic."""
    connection = await asyncpg.connect(postgres_dsn(place.servers.postgres))
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
