"""Fixtures of the contract suites: a fresh control store on each database, both usage stores."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.sql.engine import Database, open_database
from meterline.backends.sql.migrate import migrate


@pytest.fixture(params=["sqlite", "postgresql"])
async def control_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A control URL, as settings have it, of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'control.db'}"
        return
    server = make_url(request.getfixturevalue("postgres"))
    name = f"meterline_{uuid4().hex}"
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
        yield server.set(drivername="postgresql", database=name).render_as_string(
            hide_password=False
        )
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    await engine.dispose()


@pytest.fixture
async def control_database(control_url: str) -> AsyncIterator[Database]:
    """A migrated control store."""
    database = open_database(control_url)
    await migrate(database)
    yield database
    await database.close()


@pytest.fixture(params=["chdb", "clickhouse"])
async def usage_store(request: pytest.FixtureRequest) -> AsyncIterator[ClickHouseUsageStore]:
    """A usage store that others write to as well: take numbers of your own (`fresh_numbers`)."""
    name = "chdb_url" if request.param == "chdb" else "clickhouse"
    made = ClickHouseUsageStore(Connection(request.getfixturevalue(name)))
    await made.create_tables()
    yield made
    await made.close()
