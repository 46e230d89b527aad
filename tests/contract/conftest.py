"""Fixtures of the contract suites: a fresh control store on each database, both usage stores."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrate import migrate
from tests.conftest import made_ready
from tests.contract.usage.sharded import ALSO_SHARDED, connected, opened
from tests.services.ready import postgres_dsn
from tests.services.shards import Shards, shards

DATABASES: Final = ("sqlite", "postgresql")
SAMPLED: Final = frozenset({"test_block_cache", "test_block_reads"})


@asynccontextmanager
async def fresh_database(server: str, template: str = "template0") -> AsyncIterator[str]:
    """The control URL of a new database of a PostgreSQL server; gone in the end."""
    name = f"meterline_{uuid4().hex}"
    engine = create_async_engine(make_url(server), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        yield postgres_dsn(server, name)
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    await engine.dispose()


@pytest.fixture(params=DATABASES)
async def control_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A control URL, as settings have it, of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'control.db'}"
        return
    async with fresh_database(request.getfixturevalue("postgres")) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_template(postgres: str) -> str:
    """A migrated database without anything in it; PostgreSQL copies it faster than it migrates."""
    name = "meterline_template"

    async def make() -> None:
        engine = create_async_engine(make_url(postgres), isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            await connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
            await connection.execute(text(f"CREATE DATABASE {name}"))
        await engine.dispose()
        database = open_database(postgres_dsn(postgres, name))
        await migrate(database)
        await database.close()

    with ThreadPoolExecutor(1) as thread:  # the fixture that asks for it has a loop already
        thread.submit(asyncio.run, make()).result()
    return name


@pytest.fixture(params=DATABASES)
async def control_database(
    request: pytest.FixtureRequest, tmp_path: Path, migrated: Path
) -> AsyncIterator[Database]:
    """A migrated control store."""
    if request.param == "sqlite":
        shutil.copy(migrated, tmp_path / "control.db")
        database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
        yield database
        await database.close()
        return
    template = request.getfixturevalue("migrated_template")
    async with fresh_database(request.getfixturevalue("postgres"), template) as url:
        database = open_database(url)
        yield database
        await database.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of the usage store runs over both engines; some of them over two servers, too. What
    asks hundreds of drawn questions asks the embedded one, and those two: the engine is the same.
    """
    if "usage_store" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        sharded = ["shards"] if module in ALSO_SHARDED else []
        one = [] if module in SAMPLED else ["clickhouse"]
        stores = ["shards"] if module == "test_shards" else ["chdb", *one, *sharded]
        metafunc.parametrize("usage_store", stores, indirect=True)


@pytest.fixture(scope="session")
def two_servers() -> Iterator[Shards]:
    """Two ClickHouse servers with a cluster of both; leave them running."""
    with shards() as made:
        yield made


@pytest.fixture
async def usage_store(
    request: pytest.FixtureRequest, with_tables: set[str]
) -> AsyncIterator[ClickHouseUsageStore]:
    """A usage store that others write to as well: take numbers of your own (`fresh_numbers`)."""
    if request.param == "shards":
        urls = request.getfixturevalue("two_servers").urls("shared")
        store = connected(urls) if urls[0] in with_tables else await opened(urls)
        with_tables.add(urls[0])
        yield store
        await store.close()
        return
    url = request.getfixturevalue("chdb_url" if request.param == "chdb" else "clickhouse")
    made = ClickHouseUsageStore(Connection(url))
    await made_ready(made, url, with_tables)
    yield made
    await made.close()
