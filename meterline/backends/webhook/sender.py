"""WebhookSender over aiohttp: one POST, one deadline, nothing followed, nothing inflated,
nothing remembered.

Addresses are judged where sockets are made, for every connection, whether a name or a literal
led there: a resolver of aiohttp is never asked about literals, and a check when the URL was
stored would not see a name change its answer. Through a proxy only literals can be judged, for it
is the proxy that resolves names and dials.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from aiohttp import (
    AddrInfoType,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver
from yarl import URL

from meterline import limits
from meterline.backends.webhook.dialable import Network, may_dial, may_name
from meterline.backends.webhook.names import Names
from meterline.backends.webhook.reasons import ForbiddenAddress, explained, judged
from meterline.delivery import Answer
from meterline.ports import Clock

USER_AGENT: Final = "Meterline"
KEEP_ALIVE_S: Final = (
    3.0  # shorter than what servers keep: a POST on a closed connection is a failure
)
_CHUNK_BYTES: Final = 16_384
_PIECE_BYTES: Final = 65_536  # written at once; aiohttp's own pieces are of this size


@dataclass(frozen=True, slots=True)
class Egress:
    """How deliveries leave. `tls` is what receivers' certificates are judged by, None: what this
    machine trusts; `proxy` is the URL of an HTTP proxy; `resolver` answers for names, None: the
    system's, by `Names`.
    """

    tls: ssl.SSLContext | None = None
    proxy: str | None = None
    resolver: AbstractResolver | None = None


_STRAIGHT: Final = Egress()


def tls_with(ca_file: Path) -> ssl.SSLContext:
    """What this machine trusts, and the authorities in a file too. Raises `OSError` and
    `ValueError` with words.
    """
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        message = f"{ca_file} holds no certificates in PEM form: {error.reason or error}"
        raise ValueError(message) from error
    return context


class HttpWebhookSender:
    """See `meterline.delivery.WebhookSender`. `allowed` opens networks that are else forbidden."""

    def __init__(
        self,
        clock: Clock,
        allowed: Sequence[Network] = (),
        timeout_s: float = limits.DELIVERY_TIMEOUT_S,
        connections_max: int = limits.DELIVERIES_IN_FLIGHT_MAX,
        egress: Egress = _STRAIGHT,
    ) -> None:
        self._clock = clock
        self._allowed = tuple(allowed)
        self._egress = egress
        self._timeout = ClientTimeout(total=timeout_s)
        self._timeout_s = timeout_s
        self._connections_max = connections_max
        self._opened: ClientSession | None = None

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """See the port."""
        started_ms = self._clock.now_ms()
        proxy = self._egress.proxy
        status = None
        try:
            if proxy is not None and not may_name(URL(url).host or "", self._allowed):
                raise ForbiddenAddress
            async with self._session().post(
                url, data=_payload(body), headers=headers, allow_redirects=False, proxy=proxy
            ) as response:
                status = response.status
                start = await _read(response)
                took_ms = self._clock.now_ms() - started_ms
                return judged(response, start, took_ms, through_proxy=proxy is not None)
        except (ClientError, OSError, ValueError) as error:
            took_ms = self._clock.now_ms() - started_ms
            return explained(error, took_ms, status, self._timeout_s, proxy)

    async def close(self) -> None:
        """See the port."""
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> ClientSession:
        # Made when first used, for it belongs to the loop that it is used in.
        if self._opened is None:
            connector = TCPConnector(
                limit=self._connections_max,
                keepalive_timeout=KEEP_ALIVE_S,
                resolver=self._egress.resolver or self._names(),
                ssl=True if self._egress.tls is None else self._egress.tls,
                socket_factory=None if self._egress.proxy else self._socket,
            )
            self._opened = ClientSession(
                connector=connector,
                timeout=self._timeout,
                trust_env=False,
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            )
        return self._opened

    def _names(self) -> Names:
        # Told as what it is also where a delivery is given less time than a lookup.
        return Names(deadline_s=min(limits.NAME_LOOKUP_S, self._timeout_s / 2))

    def _socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        if family not in (socket.AF_INET, socket.AF_INET6) or not may_dial(
            str(address[0]), self._allowed
        ):
            raise ForbiddenAddress
        return socket.socket(family, kind, protocol)


def _payload(body: bytes) -> bytes | BytesIO:
    """What is long is written a piece at a time, so that others have their turns between."""
    return body if len(body) <= _PIECE_BYTES else BytesIO(body)


async def _read(response: ClientResponse) -> bytes:
    """The start of the body. It is read to its end or a bound, within the deadline, so that a
    connection can be used again; beyond the bound it is closed.
    """
    start = b""
    size = 0
    while chunk := await response.content.read(_CHUNK_BYTES):
        start += chunk[: limits.RESPONSE_BYTES_KEPT - len(start)]
        size += len(chunk)
        if size > limits.RESPONSE_BYTES_READ_MAX:
            response.close()
            break
    return start
