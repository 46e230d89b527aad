"""Expand, then contract: the build before runs on the new schema of the control store. Each
migration only adds, and what earlier builds ask (tests/upgrade) is still understood.
"""

import importlib
import pkgutil
import re
import sqlite3
from collections.abc import Sequence
from functools import partial

import asyncpg
import pytest
from sqlalchemy import text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrate import migrate, migrate_within
from meterline.backends.control_store.migrations import versions
from meterline.backends.control_store.migrations.migrated import newest
from tests.tidy.tree import pyproject, read
from tests.upgrade.recording import names, statements
from tests.upgrade.shape import Shape, may_contract, narrowed, shape_of

FIRST = 21  # the one before dropped an index, before there were releases
# Of the rows that the product has; not what a migration itself asks, of tables that it makes anew.
ASKED = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b(?!.*(alembic|sqlite_master))", re.DOTALL
)
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+)", re.MULTILINE)
RENAMED = "ALTER TABLE report_deliveries RENAME COLUMN subject TO customer"


def contracts_after(number: int) -> str | None:
    """The release that a migration waits for, if it says that it takes something away."""
    (name,) = (
        one.name
        for one in pkgutil.iter_modules(versions.__path__)
        if one.name.startswith(f"m{number:04d}_")
    )
    module = importlib.import_module(f"{versions.__name__}.{name}")
    after: str | None = getattr(module, "contracts_after", None)
    return after


async def shape(database: Database) -> Shape:
    async def look(connection: Connection) -> Shape:
        return await connection.run_sync(shape_of)

    return await database.read(look)


async def test_each_migration_only_adds(control_url: str) -> None:
    version, released = pyproject()["project"]["version"], RELEASE.findall(read("CHANGELOG.md"))
    database = open_database(control_url)
    await database.write(partial(migrate_within, number=FIRST - 1))
    before = await shape(database)
    for number in range(FIRST, newest() + 1):
        await database.write(partial(migrate_within, number=number))
        after, waits_for = await shape(database), contracts_after(number)
        if waits_for is None:
            assert narrowed(before, after) == [], f"migration {number}"
        else:
            assert may_contract(waits_for, version, released) is None, f"migration {number}"
        before = after
    await database.close()


async def test_a_migration_that_takes_away_is_found(control_database: Database) -> None:
    before = await shape(control_database)

    async def rename(connection: Connection) -> None:
        await connection.execute(text(RENAMED))

    await control_database.write(rename)
    found = narrowed(before, await shape(control_database))
    assert "report_deliveries: the column subject is gone" in found


def asked(name: str, url: str) -> Sequence[str]:
    """What a recorded build asked of this kind of database."""
    set_up = "embedded" if url.startswith("sqlite") else "servers"
    return [one for one in statements(name, set_up) if ASKED.match(one)]


async def refused(url: str, those: Sequence[str]) -> list[str]:
    """The statements that a store does not understand; none of them is run."""
    if url.startswith("sqlite"):
        return _refused_by_sqlite(url.removeprefix("sqlite:///"), those)
    connection = await asyncpg.connect(url)
    found = []
    for one in those:
        try:
            await connection.prepare(one)
        except asyncpg.PostgresError as error:
            found.append(f"{error}: {one}")
    await connection.close()
    return found


def _refused_by_sqlite(path: str, those: Sequence[str]) -> list[str]:
    found = []
    connection = sqlite3.connect(path)
    for one in those:
        try:
            connection.execute(f"EXPLAIN {one}", [None] * one.count("?"))
        except sqlite3.Error as error:
            found.append(f"{error}: {one}")
    connection.close()
    return found


@pytest.mark.parametrize("name", names())
async def test_what_earlier_builds_ask_is_understood(name: str, control_url: str) -> None:
    database = open_database(control_url)
    await migrate(database)
    those = asked(name, control_url)
    assert len(those) > 100, "the recording has them"
    assert await refused(control_url, those) == []

    async def rename(connection: Connection) -> None:
        await connection.execute(text(RENAMED))

    await database.write(rename)
    await database.close()
    assert await refused(control_url, those), "a column that is missing is noticed"
