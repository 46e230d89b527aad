"""The usage store behind a proxy that speaks TLS and asks for certificates of clients."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.schema import create_database
from meterline.ports import AccessRefused, Unavailable, Unsuitable
from meterline.runtime.connections.faults import TlsRefused, cause
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience, RetryTimes
from meterline.runtime.wiring.connections import usage_access
from tests.contract.connections.authority import Authority, Pair, replaced
from tests.contract.connections.tls_proxy import TlsProxy
from tests.services.clickhouse import local_clickhouse


@pytest.fixture
def proxy(clickhouse: str, authority: Authority, certificates: Path) -> Iterator[TlsProxy]:
    upstream = urlsplit(clickhouse)
    assert upstream.hostname is not None
    assert upstream.port is not None
    server = authority.pair("clickhouse", certificates)
    with TlsProxy((upstream.hostname, upstream.port), server, authority).running() as made:
        yield made


def settings(proxy: TlsProxy, authority: Authority, shown: Pair, **more: Any) -> Settings:
    return Settings(
        usage_url=f"https://127.0.0.1:{proxy.port}/db_{uuid4().hex}",
        usage_ca_file=authority.file,
        usage_cert_file=shown.cert,
        usage_key_file=shown.key,
        **more,
    )


async def test_it_is_reached_over_tls(proxy: TlsProxy, authority: Authority, client: Pair) -> None:
    given = settings(proxy, authority, client)
    access = usage_access(given)
    await create_database(given.usage_url, access)
    connection = Connection(given.usage_url, access=access)
    try:
        await connection.execute("CREATE TABLE t (n UInt8) ENGINE = MergeTree ORDER BY n")
        await connection.insert("t", ["n"], [[1], [2]])
        assert await connection.query("SELECT sum(n) FROM t", {}) == [(3,)]
        assert set(proxy.shown) == {"client"}
    finally:
        name = urlsplit(given.usage_url).path.strip("/")
        await connection.execute(f"DROP DATABASE {name}")
        await connection.close()


async def test_a_certificate_that_is_renewed_while_it_runs(
    proxy: TlsProxy, authority: Authority, tmp_path: Path
) -> None:
    mine = authority.pair("first", tmp_path)
    given = settings(proxy, authority, mine)
    connection = Connection(given.usage_url.rpartition("/")[0], access=usage_access(given))
    assert await connection.query("SELECT 1", {}) == [(1,)]
    later = authority.pair("second", tmp_path)
    replaced(mine.key, later.key.read_bytes())  # one of two: they do not fit each other yet
    proxy.cut()
    assert await connection.query("SELECT 1", {}) == [(1,)]
    assert set(proxy.shown) == {"first"}
    replaced(mine.cert, later.cert.read_bytes())
    proxy.cut()
    assert await connection.query("SELECT 1", {}) == [(1,)]
    assert proxy.shown[-1] == "second"
    await connection.close()


async def test_a_server_of_another_authority_is_not_believed(
    proxy: TlsProxy, client: Pair, tmp_path: Path
) -> None:
    given = settings(proxy, Authority(tmp_path, "stranger"), client)
    connection = Connection(given.usage_url, access=usage_access(given))
    with pytest.raises(Unavailable) as caught:
        await connection.query("SELECT 1", {})
    error = cause(caught.value, None)
    assert isinstance(error, TlsRefused)
    assert "the server's certificate is not accepted: " in str(error)
    await connection.close()


USERS = """\
<clickhouse>
<profiles><default/></profiles>
<quotas><default/></quotas>
<users>
{users}
</users>
</clickhouse>
"""
USER = """\
<{name}>
<password>{password}</password>
<networks><ip>::/0</ip></networks>
<profile>default</profile>
<quota>default</quota>
</{name}>
"""


class WithUsers:
    """A server whose user meterline has a password; a new one is known after a start."""

    def __init__(self, folder: Path) -> None:
        self._users = folder / "users.xml"
        config = f"<clickhouse><users_config>{self._users}</users_config></clickhouse>"
        self.set_password("first")
        self.service = local_clickhouse(lambda _: None, replaced(folder / "config.xml", config))
        self.url = self.service.url.replace("http://", "http://meterline@")

    def set_password(self, password: str) -> None:
        """Of the user."""
        users = (("default", ""), ("meterline", password))  # the tests ask as the other one
        shown = "".join(USER.format(name=name, password=word) for name, word in users)
        replaced(self._users, USERS.format(users=shown))


@pytest.fixture
def with_users(tmp_path: Path) -> Iterator[WithUsers]:
    made = WithUsers(tmp_path)
    try:
        made.service.start()
        yield made
    finally:
        made.service.stop()


async def test_a_password_that_is_changed_while_it_runs(
    with_users: WithUsers, tmp_path: Path
) -> None:
    password = replaced(tmp_path / "password", "first")
    given = Settings(usage_url=with_users.url, usage_password_file=password)
    connection = Connection(given.usage_url, access=usage_access(given))

    async def works() -> None:
        assert await connection.query("SELECT currentUser()", {}) == [("meterline",)]
        pieces = [piece async for piece in connection.stream("SELECT 1 AS n", {}, {}, bytes)]
        assert b"".join(pieces) == b'{"n":1}\n'

    await works()
    await asyncio.to_thread(with_users.service.kill)
    with_users.set_password("second")
    await asyncio.to_thread(with_users.service.start)
    with pytest.raises(AccessRefused, match="Authentication failed"):
        await connection.query("SELECT 1", {})
    replaced(password, "second")
    await works()
    await connection.close()


async def test_a_start_with_a_wrong_password_names_the_file(
    with_users: WithUsers, tmp_path: Path
) -> None:
    password = replaced(tmp_path / "password", "wrong")
    given = Settings(usage_url=with_users.url, usage_password_file=password)
    connection = Connection(given.usage_url, access=usage_access(given))
    hasty = RetryTimes(first_s=0.001, longest_s=0.01, tell_s=10)
    with pytest.raises(Unsuitable, match="Authentication failed") as ended:
        await Patience(given, asyncio.Event(), hasty).wait(
            "usage", lambda: connection.execute("SELECT 1")
        )
    assert "Correct user and database in usage_url, or usage_password_file" in str(ended.value)
    await connection.close()
