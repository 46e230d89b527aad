"""How far a control store is migrated. Every role asks at its start, so nothing here imports what
runs migrations: that takes a tenth of a second of processor time.
"""

import re
from pathlib import Path
from typing import Final

import sqlalchemy
from sqlalchemy import text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.ports import Unsuitable

MIGRATIONS: Final = Path(__file__).parent
_FILE: Final = re.compile(r"m(\d{4})_\w+\.py")


async def number_of(database: Database) -> int:
    """The last migration that the store has seen; 0 for an empty store. Raises `Unavailable`."""
    return await database.read(number_within)


async def number_within(connection: Connection) -> int:
    """As `number_of`, in a transaction of the caller."""
    return await connection.run_sync(number_there)


async def check_migrated(database: Database) -> None:
    """Raise `Unsuitable` where a migration is missing, `Unavailable` where nobody can tell."""
    there, needed = await number_of(database), newest()
    check_not_early(there)
    if there < needed:
        state = "empty" if there == 0 else f"at migration {there}"
        message = (
            f"the control store is {state}, this release needs {needed}: run `meterline migrate`"
        )
        raise Unsuitable(message)


def newest() -> int:
    """The number of the last migration of this release."""
    return max(_numbers())


def number_there(connection: sqlalchemy.Connection) -> int:
    """The last migration that the store has seen; 0 for an empty store."""
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return 0
    return int(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or 0)


def check_not_early(there: int) -> None:
    """Raise `Unsuitable` for a store of a build that this release cannot upgrade."""
    first = min(_numbers())
    if 0 < there < first:
        message = (
            f"the control store is at migration {there} of a build before 0.1.0, and this release"
            f" upgrades stores from migration {first} on: run `meterline migrate` of the last build"
            " before 0.1.0 first, or start with an empty control store"
        )
        raise Unsuitable(message)


def _numbers() -> list[int]:
    """Of the migrations of this release: each is a file, and is named by its number."""
    names = (_FILE.fullmatch(file.name) for file in (MIGRATIONS / "versions").iterdir())
    return [int(name[1]) for name in names if name is not None]
