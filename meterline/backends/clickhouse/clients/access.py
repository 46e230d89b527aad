"""How a server is reached, and with which password."""

import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver import options
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.httpclient import HttpClient
from clickhouse_connect.driver.httputil import get_pool_manager

from meterline.backends.clickhouse.clients.crashes import let_crashes_end
from meterline.limits import CONNECT_TIMEOUT_S, ENGINE_CACHE_BYTES, USAGE_STORE_TIMEOUT_S

# With its first insert the client imports pandas, and that numpy and pyarrow, only to ask whether
# the rows are theirs: 0.7 s and 95 MB. Ours are plain values. So they are said to be missing.
for _package in ("np", "pd", "pd_time_test", "arrow", "pl"):
    vars(options).setdefault(_package, None)


class ServerAccess(NamedTuple):
    """What the URL does not say. `password` is asked before each statement: it may change.

    `shows_certificate`: a client certificate is in `tls`. A user who is named in the URL, without
    any password, is then known by it.
    """

    tls: ssl.SSLContext | None = None
    password: Callable[[], str] | None = None
    shows_certificate: bool = False
    connect_timeout_s: int = CONNECT_TIMEOUT_S
    timeout_s: int = USAGE_STORE_TIMEOUT_S


PLAIN: Final = ServerAccess()


def connected(url: str, access: ServerAccess = PLAIN) -> Client:
    """A client of `chdb:<folder>` or `http(s)://user:password@host:port/database`.

    Raises what clickhouse-connect raises: it asks the server for its version.
    """
    if url.startswith("chdb:"):
        path = url.removeprefix("chdb:")
        options = dict(ENGINE_CACHE_BYTES)
        let_crashes_end()
        return clickhouse_connect.get_client(interface="chdb", path=path, chdb_options=options)
    parts = urlsplit(url)
    password = unquote(parts.password or "")
    more: dict[str, Any] = {}
    if access.password is not None:
        password = access.password()
    elif access.shows_certificate and parts.username and not password:
        more["client_cert"] = "in the context"  # a name for the client: it opens no file
    if access.tls is not None:
        more["pool_mgr"] = get_pool_manager(ssl_context=access.tls)
    return clickhouse_connect.get_client(
        interface=parts.scheme,
        host=parts.hostname or "127.0.0.1",
        port=parts.port or (8443 if parts.scheme == "https" else 8123),
        username=_user(url),
        password=password,
        database=parts.path.strip("/") or "default",
        autogenerate_session_id=False,  # queries run side by side
        send_receive_timeout=access.timeout_s,
        connect_timeout=access.connect_timeout_s,
        **more,
    )


def renew_password(client: Client, url: str, access: ServerAccess) -> Client:
    """The client, with the password as it is now."""
    if access.password is not None and isinstance(client, HttpClient):
        shown = b64encode(f"{_user(url)}:{access.password()}".encode()).decode()
        client.headers["Authorization"] = f"Basic {shown}"
    return client


def _user(url: str) -> str:
    return unquote(urlsplit(url).username or "default")
