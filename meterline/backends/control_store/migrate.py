"""Bring a control store to the schema of this release."""

from typing import Final

import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrations.migrated import (
    MIGRATIONS,
    check_not_early,
    newest,
    number_there,
)

LOCK: Final = 7_306_093_112_418_733  # of PostgreSQL's advisory locks: any number that is ours


async def migrate(database: Database) -> None:
    """Run the migrations that are missing, in one transaction; several processes may do so at once.

    A store that a newer release has migrated stays as it is. Raises `Unavailable`, and `Unsuitable`
    for a store of an early build that cannot be migrated.
    """

    async def act(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        await migrate_within(connection)

    await database.write(act)


async def migrate_within(connection: Connection, number: int | None = None) -> None:
    """Bring a store to a migration, the newest unless it is named, in a transaction of the caller:
    what is written in it is never there without the rest. Raises as `migrate` does.
    """
    to = "head" if number is None else f"{number:04d}"
    await connection.run_sync(lambda it: _upgrade(it, to))


def _upgrade(connection: sqlalchemy.Connection, to: str) -> None:
    there = number_there(connection)
    check_not_early(there)
    if there > newest():
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
