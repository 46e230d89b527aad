"""PostgreSQL: the rights that docs/operations.md gives to its users are enough for the product.

Those of ClickHouse are tried in tests/contract/usage/test_shards_rights.py.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.control_store.migrate import migrate
from meterline.meter import Aggregation, MeterDraft
from meterline.ports import AccessRefused
from tests.contract.conftest import fresh_database

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/operations.md"
NOW_MS: Final = 1_700_000_000_000


def blocks() -> list[list[str]]:
    """The statements of each block of SQL on the page, of PostgreSQL."""
    section = PAGE.read_text("utf-8").partition("\nPostgreSQL, for a database")[2]
    section, clickhouse, _ = section.partition("\nClickHouse, for a database")
    assert clickhouse
    found = re.findall(r"^```sql\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [[line.rstrip(";") for line in block.splitlines()] for block in found]


def named(statement: str, database: str, user: str) -> str:
    """A statement of the page for a database and a user with other names."""
    statement = re.sub(r"(?<=DATABASE )meterline\b", database, statement)
    return re.sub(r"(?<=TO )meterline$", user, statement)


def test_the_page_has_the_statements_that_are_run_here() -> None:
    assert [len(block) for block in blocks()] == [2, 3]
    assert named("GRANT X ON DATABASE meterline TO meterline", "d", "u").endswith("d TO u")


class PostgresUser:
    """A database, and a user who may do nothing in it yet."""

    def __init__(self, admin: AsyncConnection, owner_url: str, name: str) -> None:
        self._admin = admin
        self._owner_url = owner_url
        self._name = name

    async def grant(self, statements: list[str]) -> None:
        """Give rights, as the page says."""
        database = make_url(self._owner_url).database
        assert database is not None
        for statement in statements:
            await self._admin.execute(text(named(statement, database, self._name)))

    def opened(self) -> Database:
        """The control store, as the user sees it."""
        url = make_url(self._owner_url).set(username=self._name, password="secret")
        return open_database(url.render_as_string(hide_password=False))

    def as_owner(self) -> Database:
        """The control store, as the user sees it who runs `migrate`."""
        return open_database(self._owner_url)


@pytest.fixture
async def postgres_user(postgres: str) -> AsyncIterator[PostgresUser]:
    name = f"user_{uuid4().hex}"
    async with fresh_database(postgres) as url:
        admin = make_url(url).set(drivername="postgresql+asyncpg")
        engine = create_async_engine(admin, isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            await connection.execute(text(f"CREATE USER {name} PASSWORD 'secret'"))
            yield PostgresUser(connection, url, name)
            await connection.execute(text(f"DROP OWNED BY {name}"))
            await connection.execute(text(f"DROP USER {name}"))
        await engine.dispose()


async def used(database: Database) -> None:
    """Write and read rows of several tables."""
    draft = MeterDraft("calls", "", Aggregation.COUNT, "call")
    catalogue = SqlCatalogueStore(database)
    made = await catalogue.create_meter("default", draft, NOW_MS)
    assert await catalogue.meters("default") == [made]
    await catalogue.delete_meter("default", made.id, NOW_MS)
    assert await SqlAccessStore(database).changes("default", 10)


async def test_who_migrates_needs_the_schema_only(postgres_user: PostgresUser) -> None:
    database = postgres_user.opened()
    with pytest.raises(AccessRefused, match="permission denied for schema public"):
        await migrate(database)
    await postgres_user.grant(blocks()[0])
    await migrate(database)
    await used(database)
    await database.close()


async def test_who_does_not_migrate_needs_rows_only(postgres_user: PostgresUser) -> None:
    owner = postgres_user.as_owner()
    await migrate(owner)
    await owner.close()
    await postgres_user.grant(blocks()[1])
    database = postgres_user.opened()
    await used(database)
    await database.close()
