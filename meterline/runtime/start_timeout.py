"""What a start waits for: servers that are not there yet, for a bounded time and with words."""

import asyncio
import logging
import os
import socket
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import structlog

from meterline.limits import (
    START_PROBE_S,
    START_REFUSALS_MAX,
    START_TELL_S,
    START_WAIT_S_MAX,
    START_WAIT_S_MIN,
)
from meterline.ports import AccessRefused, Unavailable, Unsuitable
from meterline.runtime.connections.faults import TlsRefused, cause, kafka_fault
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.connections import kafka_security
from meterline.window import Backoff

logger = structlog.get_logger()
T = TypeVar("T")
Part = Literal["log", "usage", "control", "stores"]
Dig = Callable[[], Awaitable[Exception | None]]

# Each attempt gives one line of ours; these clients would add several of their own.
_CLIENTS: Final = ("aiokafka", "clickhouse_connect", "urllib3")
_PORTS: Final = {"http": 8123, "https": 8443, "postgresql": 5432}


@dataclass(frozen=True, slots=True)
class Server:
    """Where a part is, and which setting says so. An embedded part has no addresses."""

    name: str
    setting: str
    addresses: tuple[tuple[str, int], ...] = ()
    log_in: str = ""  # the settings that a login comes from
    dig: Dig | None = None  # for the error that its client hides

    def __str__(self) -> str:
        shown = ", ".join(f"{host}:{port}" for host, port in self.addresses)
        return f"{self.name} at {shown}" if shown else self.name


def servers(settings: Settings) -> Mapping[Part, Server]:
    """The parts as the settings have them, and all of them together; passwords are in none."""
    kafka = tuple(_split(one) for one in settings.kafka_servers.split(",") if one)
    dig: Dig | None = None
    if settings.log_tls or settings.log_sasl:
        dig = partial(kafka_fault, kafka, kafka_security(settings), settings.log_timeout_s)
    log_in = "log_sasl, log_user, log_password_file or log_token_file, or the rights of the user"
    log = Server("Kafka", "log_url", kafka, log_in, dig)
    usage = _of_url("ClickHouse", "usage", settings)
    if further := settings.usage_shards or settings.usage_replicas:
        more = tuple(map(_address, further))
        setting = f"usage_url and usage_{'shards' if settings.usage_shards else 'replicas'}"
        usage = replace(usage, setting=setting, addresses=usage.addresses + more)
    control = _of_url("PostgreSQL", "control", settings)
    every = log.addresses + usage.addresses + control.addresses
    stores = Server("log, usage store and control store", "their settings", every)
    return {"log": log, "usage": usage, "control": control, "stores": stores}


def _split(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _of_url(name: str, store: str, settings: Settings) -> Server:
    setting, file = f"{store}_url", f"{store}_password_file"
    url = getattr(settings, setting)
    if not urlsplit(url).hostname:
        return Server(name, setting)
    in_file = getattr(settings, file) is not None
    log_in = f"user and database in {setting}, or {file}" if in_file else ""
    return Server(name, setting, (_address(url),), log_in)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


@dataclass(frozen=True, slots=True)
class RetryTimes:
    """Seconds: the first and the longest wait between attempts, and when a running attempt is
    logged.
    """

    first_s: float = START_WAIT_S_MIN
    longest_s: float = START_WAIT_S_MAX
    tell_s: float = START_TELL_S


class Patience:
    """Of one start. All its waits together last `start_timeout_s` at most, and one attempt."""

    def __init__(
        self, settings: Settings, stop: asyncio.Event, times: RetryTimes = RetryTimes()
    ) -> None:
        self._times = times
        self._servers = servers(settings)
        self._timeout_s = settings.start_timeout_s
        self._stop = stop
        self._deadline_s = asyncio.get_running_loop().time() + settings.start_timeout_s

    async def wait(self, part: Part, act: Callable[[], Awaitable[T]]) -> T:
        """The result of `act`, tried until the server of `part` answers; the log tells each wait.

        Raises `Unsuitable` with words when the time is over, or when the server has refused the
        access a few times; what an embedded part raises passes at once, for no wait mends it.
        Raises `asyncio.CancelledError` when the process is told to stop first.
        """
        server, refused = self._servers[part], 0
        backoff = Backoff(self._times.first_s, self._times.longest_s)
        while not self._stop.is_set():
            try:
                with quiet():
                    return await self._attempt(part, server, act)
            except Unavailable as error:
                if not server.addresses:
                    raise
                error = cause(error, None if server.dig is None else await server.dig())
                refused += isinstance(error, AccessRefused)
                wait_s = backoff.next_s()
                reason, hint = await reason_of(server, error), _hint(server, error)
                if refused == START_REFUSALS_MAX:
                    raise Unsuitable(f"{server}: {reason}. {_then(hint)}") from error
                if self._left_s() < wait_s:
                    waited = f"Gave up after {self._timeout_s} s (start_timeout_s)"
                    raise Unsuitable(f"{server}: {reason}. {waited}. {_then(hint)}") from error
                logger.warning(
                    "waiting",
                    part=part,
                    server=str(server),
                    reason=reason,
                    hint=hint,
                    wait_s=wait_s,
                    left_s=round(self._left_s()),
                )
                await self._pause(wait_s)
        raise asyncio.CancelledError

    async def _attempt(self, part: Part, server: Server, act: Callable[[], Awaitable[T]]) -> T:
        """One attempt, as long as its client allows; the log tells one that takes long."""
        begun_s = asyncio.get_running_loop().time()
        trying = asyncio.ensure_future(act())
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while not trying.done() and not stopped.done():
                both: set[asyncio.Future[Any]] = {trying, stopped}
                await asyncio.wait(both, timeout=self._times.tell_s, return_when=FIRST_COMPLETED)
                if not trying.done() and not stopped.done():
                    so_far_s = round(asyncio.get_running_loop().time() - begun_s)
                    reason = f"no answer for {so_far_s} s"
                    logger.warning("waiting", part=part, server=str(server), reason=reason)
            if trying.done():
                return trying.result()
            raise asyncio.CancelledError
        finally:
            trying.cancel()
            stopped.cancel()
            await asyncio.gather(trying, stopped, return_exceptions=True)

    def _left_s(self) -> float:
        return self._deadline_s - asyncio.get_running_loop().time()

    async def _pause(self, wait_s: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), wait_s)
        except TimeoutError:
            return


async def diagnosis(server: Server, error: Unavailable) -> str:
    """Why a server cannot be used now, and what to do: for a person who asks once."""
    with quiet():
        error = cause(error, None if server.dig is None else await server.dig())
    hint = _hint(server, error)
    return f"{server}: {await reason_of(server, error)}. {hint[0].upper()}{hint[1:]}"


def _hint(server: Server, error: Unavailable) -> str:
    if isinstance(error, TlsRefused):
        store = server.setting.partition("_")[0]
        return f"correct {store}_ca_file, {store}_cert_file or {store}_key_file"
    if isinstance(error, AccessRefused):
        return f"correct {server.log_in or f'user, password and database in {server.setting}'}"
    return f"start it, or correct {server.setting}"


def _then(hint: str) -> str:
    return f"{hint[0].upper()}{hint[1:]}, then start again"


async def reason_of(server: Server, error: Unavailable) -> str:
    """Why it cannot be used: clients hide it, so each address is tried. Where one takes
    connections, what the client said.
    """
    if isinstance(error, AccessRefused):
        return str(error)
    tried = await asyncio.gather(*(_probe(*address) for address in server.addresses))
    if "" in tried:
        return f"connected, but {error}"
    if len(tried) == 1:
        return tried[0]
    shown = zip(server.addresses, tried, strict=True)
    return "; ".join(f"{host}:{port}: {why}" for (host, port), why in shown)


async def _probe(host: str, port: int) -> str:
    """Why no connection comes about; "" where one does."""
    try:
        async with asyncio.timeout(START_PROBE_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no connection within {START_PROBE_S} s"
    except socket.gaierror:
        return f"the host name {host} cannot be resolved"
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else "no connection"
    writer.close()
    return ""


@contextmanager
def quiet() -> Iterator[None]:
    """What the clients log of an attempt is left out; it would be told thrice."""
    named = [logging.getLogger(name) for name in _CLIENTS]
    levels = [one.level for one in named]
    try:
        for one in named:
            one.setLevel(logging.CRITICAL)
        yield
    finally:
        for one, level in zip(named, levels, strict=True):
            one.setLevel(level)
