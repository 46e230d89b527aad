"""Bring a control store to the schema of this release, or find out that it is not there yet."""

from pathlib import Path
from typing import Final

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.ports import Unsuitable

FOLDER: Final = Path(__file__).parent / "migrations"
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


async def number_of(database: Database) -> int:
    """The last migration that the store has seen; 0 for an empty store. Raises `Unavailable`."""
    return await database.read(number_within)


async def number_within(connection: Connection) -> int:
    """As `number_of`, in a transaction of the caller."""
    return await connection.run_sync(_number)


async def check_migrated(database: Database) -> None:
    """Raise `Unsuitable` where a migration is missing, `Unavailable` where nobody can tell."""
    there, needed = await number_of(database), newest()
    _check_not_early(there)
    if there < needed:
        state = "empty" if there == 0 else f"at migration {there}"
        message = (
            f"the control store is {state}, this release needs {needed}: run `meterline migrate`"
        )
        raise Unsuitable(message)


def newest() -> int:
    """The number of the last migration of this release."""
    return int(_script().get_current_head() or 0)


def _number(connection: sqlalchemy.Connection) -> int:
    """The last migration that the store has seen; 0 for an empty store."""
    return int(MigrationContext.configure(connection).get_current_revision() or 0)


def _check_not_early(there: int) -> None:
    first = int(_script().get_base() or 0)
    if 0 < there < first:
        message = (
            f"the control store is at migration {there} of a build before 0.1.0, and this release"
            f" upgrades stores from migration {first} on: run `meterline migrate` of the last build"
            " before 0.1.0 first, or start with an empty control store"
        )
        raise Unsuitable(message)


def _upgrade(connection: sqlalchemy.Connection, to: str) -> None:
    there = _number(connection)
    _check_not_early(there)
    if there > newest():
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
