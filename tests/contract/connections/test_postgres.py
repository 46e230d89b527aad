"""The control store on a PostgreSQL that asks for TLS, a certificate and a password."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrate import migrate
from meterline.backends.control_store.migrations.migrated import check_migrated
from meterline.ports import AccessRefused, Unsuitable
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience, RetryTimes
from meterline.runtime.wiring.control_access import control_access
from tests.contract.connections.authority import Authority, Pair, replaced
from tests.contract.connections.secured_postgres import (
    MAKE_USER,
    PASSWORD,
    USER,
    as_admin,
    product_url,
)
from tests.services.local import LocalService

HASTY = RetryTimes(first_s=0.001, longest_s=0.01, tell_s=10)


@pytest.fixture
async def url(postgres_with_tls: LocalService) -> AsyncIterator[str]:
    await as_admin(postgres_with_tls, *MAKE_USER)
    yield product_url(postgres_with_tls)
    gone = (f"DROP DATABASE {USER} WITH (FORCE)", f"DROP USER {USER}")
    await as_admin(postgres_with_tls, *gone)


@pytest.fixture
def password(tmp_path: Path) -> Path:
    return replaced(tmp_path / "password", f"{PASSWORD}\n")


def settings(url: str, authority: Authority, shown: Pair, **more: Any) -> Settings:
    return Settings(
        control_url=url,
        control_tls=True,
        control_ca_file=authority.file,
        control_cert_file=shown.cert,
        control_key_file=shown.key,
        **more,
    )


def opened(given: Settings) -> Database:
    return open_database(given.control_url, access=control_access(given))


async def encrypted(connection: Connection) -> bool:
    asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    return bool((await connection.execute(text(asked))).scalar_one())


async def test_it_is_reached_over_tls(
    url: str, authority: Authority, client: Pair, password: Path
) -> None:
    database = opened(settings(url, authority, client, control_password_file=password))
    await migrate(database)
    await check_migrated(database)
    assert await database.read(encrypted)
    await database.close()


async def test_a_password_that_is_changed_while_it_runs(
    postgres_with_tls: LocalService, url: str, authority: Authority, client: Pair, password: Path
) -> None:
    database = opened(settings(url, authority, client, control_password_file=password))
    assert await database.read(encrypted)
    replaced(password, "second-password")
    await as_admin(
        postgres_with_tls,
        f"ALTER USER {USER} PASSWORD 'second-password'",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'",
    )
    assert await database.read(encrypted)
    replaced(password, "a wrong one")
    await as_admin(
        postgres_with_tls,
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'",
    )
    with pytest.raises(AccessRefused, match="password authentication failed"):
        await database.read(encrypted)
    await database.close()


async def test_a_start_says_what_is_wrong_and_which_setting(
    url: str, authority: Authority, client: Pair, password: Path, tmp_path: Path
) -> None:
    async def refused(given: Settings) -> str:
        database = opened(given)
        waiting = Patience(given, asyncio.Event(), HASTY)
        with pytest.raises(Unsuitable) as ended:
            await waiting.wait("control", lambda: migrate(database))
        await database.close()
        return str(ended.value)

    files = "Correct control_ca_file, control_cert_file or control_key_file, then start again"
    stranger = Authority(tmp_path, "stranger")
    given = settings(url, stranger, client, control_password_file=password)
    told = await refused(given)
    assert "TLS: the server's certificate is not accepted: " in told
    assert files in told
    unknown = stranger.pair("unknown")
    given = settings(url, authority, unknown, control_password_file=password)
    told = await refused(given)
    assert "TLS: the server refuses the certificate of this process" in told
    assert files in told
    given = Settings(control_url=url, control_password_file=password)
    assert "no pg_hba.conf entry" in await refused(given)
