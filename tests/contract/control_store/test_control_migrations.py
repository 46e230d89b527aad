"""Migrations of the control store: equal to the schema, safe at once; missing ones are told."""

import asyncio
import importlib
import pkgutil
import re
import sqlite3
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text

from meterline.backends.control_store import tables
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.migrations.migrated import check_migrated, newest
from meterline.backends.control_store.tables.columns import metadata
from meterline.ports import Unsuitable

for _module in pkgutil.iter_modules(tables.__path__, f"{tables.__name__}."):
    importlib.import_module(_module.name)  # so that `metadata` has all tables

# A store with one meter, as `sqlite3` dumps it, that the seventeen migrations before the first
# release made.
EARLY_STORE: Final = Path(__file__).with_name("store_of_early_build.sql")
# All that the databases themselves say about tables, keys, checks and indexes.
POSTGRESQL_COLUMNS = """
    SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
POSTGRESQL_CONSTRAINTS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2
"""
POSTGRESQL_INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
)
SQLITE_OBJECTS = "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2"


async def _shape(connection: Connection) -> list[tuple[str, ...]]:
    questions = [POSTGRESQL_COLUMNS, POSTGRESQL_CONSTRAINTS, POSTGRESQL_INDEXES]
    if connection.dialect.name == "sqlite":
        questions = [SQLITE_OBJECTS]
    lines: list[tuple[str, ...]] = []
    for question in questions:
        for row in await connection.execute(text(question)):
            line = tuple(re.sub(r"\s+", " ", str(part)) for part in row)
            if "alembic_version" not in " ".join(line):
                lines.append(line)
    return lines


async def _declared(database: Database) -> list[tuple[str, ...]]:
    """The shape of a store as the modules of tables declare it; what the store had is dropped."""

    async def remake(connection: Connection) -> list[tuple[str, ...]]:
        await connection.run_sync(metadata.drop_all)
        assert await _shape(connection) == []
        await connection.run_sync(metadata.create_all)
        return await _shape(connection)

    return await database.write(remake)


async def test_migrations_give_the_schema(control_url: str) -> None:
    database = open_database(control_url)
    await migrate(database)
    migrated = await database.read(_shape)
    declared = await _declared(database)
    await database.close()
    assert migrated == declared
    assert len(declared) > len(metadata.tables)


async def test_an_empty_store_is_told_and_a_migrated_one_passes(control_url: str) -> None:
    database = open_database(control_url)
    with pytest.raises(Unsuitable, match=r"is empty.*run `meterline migrate`"):
        await check_migrated(database)
    await migrate(database)
    await check_migrated(database)
    await database.close()


async def test_many_may_migrate_at_once_and_again(control_url: str) -> None:
    databases = [open_database(control_url) for _ in range(3)]
    await asyncio.gather(*(migrate(database) for database in databases))
    await migrate(databases[0])
    await check_migrated(databases[1])
    for database in databases:
        await database.close()


async def test_old_code_leaves_a_newer_store_alone(control_database: Database) -> None:
    async def advance(connection: Connection) -> None:
        later = f"{newest() + 1:04d}"
        await connection.execute(text(f"UPDATE alembic_version SET version_num = '{later}'"))

    await control_database.write(advance)
    await check_migrated(control_database)
    await migrate(control_database)


async def test_a_store_of_the_last_build_before_the_first_release_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    with sqlite3.connect(path) as early:
        early.executescript(EARLY_STORE.read_text())
    early.close()
    database = open_database(f"sqlite:///{path}")
    await migrate(database)
    await check_migrated(database)
    shape = await database.read(_shape)
    meters = await SqlCatalogueStore(database).meters("default")
    declared = await _declared(database)
    await database.close()
    assert shape == declared
    assert [meter.key for meter in meters] == ["tokens"]


async def test_a_store_of_an_earlier_build_is_refused(control_database: Database) -> None:
    async def go_back(connection: Connection) -> None:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0016'"))

    await control_database.write(go_back)
    for start in (check_migrated, migrate):
        with pytest.raises(Unsuitable, match=r"migration 16 of a build before 0\.1\.0"):
            await start(control_database)


def test_each_column_has_a_meaning() -> None:
    columns = [column for table in metadata.tables.values() for column in table.columns]
    assert len(columns) > len(metadata.tables)
    assert [str(column) for column in columns if not (column.doc or "").endswith(".")] == []
