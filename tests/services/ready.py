"""Does a server serve? Each probe returns None, or in words why not."""

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Coroutine
from urllib.parse import urlsplit

import asyncpg
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

PROBE_TIMEOUT_S = 5.0
PROBE_WITHIN_S = 15.0  # clients give up first, and close what they opened
CLOSED_WITHIN_S = 0.01


def kafka_problem(bootstrap: str) -> str | None:
    """Ask for a group coordinator: answered only when a broker leads the offsets topic."""
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    return _tcp_problem(host, int(port)) or _run(_kafka(bootstrap))


def clickhouse_problem(url: str) -> str | None:
    """GET /ping."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/ping", timeout=PROBE_TIMEOUT_S) as answer:
            body: bytes = answer.read(100)
    except (OSError, urllib.error.URLError) as error:
        return f"/ping: {error}"
    return None if body.startswith(b"Ok.") else f"/ping answered {body!r}"


def postgres_problem(url: str) -> str | None:
    """Connect and SELECT 1; `url` in SQLAlchemy's spelling."""
    parts = urlsplit(url)
    refused = _tcp_problem(parts.hostname or "127.0.0.1", parts.port or 5432)
    return refused or _run(_postgres(postgres_dsn(url)))


def postgres_dsn(url: str, database: str | None = None) -> str:
    """Return the URL as asyncpg and the product take it; of another database of the server, where
    one is named.
    """
    dsn = url.replace("postgresql+asyncpg://", "postgresql://", 1)
    return dsn if database is None else f"{dsn.rpartition('/')[0]}/{database}"


async def _kafka(bootstrap: str) -> str | None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=2000)
    try:
        await admin.start()
        await admin.find_coordinator("meterline-test-probe")
    except KafkaError as error:
        return f"group coordinator: {error!r}"
    finally:
        await admin.close()
    return None


async def _postgres(dsn: str) -> str | None:
    try:
        connection = await asyncpg.connect(dsn, timeout=PROBE_TIMEOUT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        return f"connect: {error!r}"
    try:
        await connection.fetchval("SELECT 1")
    finally:
        await connection.close()
    return None


def _tcp_problem(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error}"
    return None


def _run(probe: Coroutine[None, None, str | None]) -> str | None:
    """Run a probe on a loop of its own, in a thread: the caller may be inside a running loop."""
    answers: list[str | None] = []

    async def bounded() -> str | None:
        try:
            return await asyncio.wait_for(probe, PROBE_WITHIN_S)
        finally:  # connections that were given up are closed in the turns that follow
            await asyncio.sleep(CLOSED_WITHIN_S)

    def body() -> None:
        try:
            answers.append(asyncio.run(bounded()))
        except TimeoutError:
            answers.append(f"no answer within {PROBE_WITHIN_S:g} s")

    thread = threading.Thread(target=body, name="probe")
    thread.start()
    thread.join()
    return answers[0] if answers else "the probe broke; see its traceback above"
