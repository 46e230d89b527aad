"""A real PostgreSQL that asks the product for TLS, a certificate and a password."""

import os
import pwd
from pathlib import Path
from typing import Final

import asyncpg

from tests.contract.connections.authority import Authority
from tests.services.local import LocalService
from tests.services.postgres import local_postgres_with_tls
from tests.services.ready import postgres_dsn

USER: Final = "meterline"
PASSWORD: Final = "first-password"
# The tests themselves come as another user.
RULES: Final = f"""\
host all postgres 127.0.0.1/32 trust
hostssl all {USER} 127.0.0.1/32 scram-sha-256 clientcert=verify-ca
"""


def secured_postgres(authority: Authority, folder: Path) -> LocalService:
    """Return a server that is ready to start; `folder` is for its certificates."""
    service = local_postgres_with_tls(lambda _: None)
    data = service.folder / "data"
    server = authority.pair("postgres", folder)
    key = data / "server.key"
    key.write_bytes(server.key.read_bytes())
    key.chmod(0o600)  # it refuses a key that others may read
    shown = data / "server.crt"
    shown.write_bytes(server.cert.read_bytes())
    trusted = data / "ca.crt"
    trusted.write_bytes(authority.file.read_bytes())
    if service.user is not None:
        entry = pwd.getpwnam(service.user)
        for path in (key, shown, trusted):
            os.chown(path, entry.pw_uid, entry.pw_gid)
    (data / "pg_hba.conf").write_text(RULES)
    with (data / "postgresql.conf").open("a") as settings:
        settings.write(
            "ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\n"
            "ssl_ca_file = 'ca.crt'\n"
        )
    return service


async def as_admin(service: LocalService, *statements: str) -> None:
    """Run statements as the user of the tests."""
    connection = await asyncpg.connect(postgres_dsn(service.url))
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def product_url(service: LocalService) -> str:
    """As `control_url` has it; the database of the user is made by `as_admin`."""
    address = service.url.rpartition("@")[2].partition("/")[0]
    return f"postgresql://{USER}@{address}/{USER}"


MAKE_USER: Final = (
    f"CREATE USER {USER} PASSWORD '{PASSWORD}'",
    f"CREATE DATABASE {USER} OWNER {USER}",
)
