"""Migrations of the control store: equal to the schema, safe at once; missing ones are told."""

import asyncio
import importlib
import pkgutil
import re

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from meterline.backends import control_store
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrate import check_migrated, migrate, newest
from meterline.backends.control_store.tables.meters import metadata
from meterline.ports import Unsuitable

for _module in pkgutil.iter_modules(control_store.__path__, f"{control_store.__name__}."):
    if _module.name.startswith(f"{control_store.__name__}.schema"):
        importlib.import_module(_module.name)  # so that `metadata` has all tables

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


async def _shape(connection: AsyncConnection) -> list[tuple[str, ...]]:
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


async def test_migrations_give_the_schema(control_url: str) -> None:
    database = open_database(control_url)
    await migrate(database)
    migrated = await database.read(_shape)

    async def remake(connection: AsyncConnection) -> None:
        await connection.run_sync(metadata.drop_all)
        assert await _shape(connection) == []
        await connection.run_sync(metadata.create_all)

    await database.write(remake)
    declared = await database.read(_shape)
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
    async def advance(connection: AsyncConnection) -> None:
        later = f"{newest() + 1:04d}"
        await connection.execute(text(f"UPDATE alembic_version SET version_num = '{later}'"))

    await control_database.write(advance)
    await check_migrated(control_database)
    await migrate(control_database)
