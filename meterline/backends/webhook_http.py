"""WebhookSender over aiohttp: one POST, one deadline, nothing followed, nothing inflated,
nothing remembered.

Addresses are judged where sockets are made, for every connection, whether a name or a literal
led there: a resolver of aiohttp is never asked about literals, and a check when the URL was
stored would not see a name change its answer.
"""

import errno
import os
import socket
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Final

from aiohttp import (
    AddrInfoType,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
)

from meterline import limits
from meterline.backends.dialable import Network, may_dial
from meterline.ports import Clock
from meterline.report_ports import Answer
from meterline.run import AttemptOutcome

USER_AGENT: Final = "Meterline"
KEEP_ALIVE_S: Final = (
    3.0  # shorter than what servers keep: a POST on a closed connection is a failure
)
_CHUNK_BYTES: Final = 16_384
_SUCCESS: Final = 2  # first digit of a status
_REDIRECT: Final = 3


class ForbiddenAddress(OSError):
    """An address that may not be dialled. Its words name no address: a tenant learns nothing of
    the inside.
    """

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "the endpoint leads to an address that may not be dialled")


class HttpWebhookSender:
    """See `report_ports.WebhookSender`. `allowed` opens networks that are otherwise forbidden."""

    def __init__(
        self,
        clock: Clock,
        allowed: Sequence[Network] = (),
        timeout_s: float = limits.DELIVERY_TIMEOUT_S,
        connections_max: int = limits.DELIVERIES_IN_FLIGHT_MAX,
    ) -> None:
        self._clock = clock
        self._allowed = tuple(allowed)
        self._timeout = ClientTimeout(total=timeout_s)
        self._timeout_s = timeout_s
        self._connections_max = connections_max
        self._opened: ClientSession | None = None

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """See the port."""
        started_ms = self._clock.now_ms()
        status = None
        try:
            async with self._session().post(
                url, data=BytesIO(body), headers=headers, allow_redirects=False
            ) as response:
                status = response.status
                start = await _read(response)
                outcome, reason = _judge(status)
                return Answer(
                    outcome,
                    self._clock.now_ms() - started_ms,
                    status,
                    reason,
                    start,
                    response.headers.get("Retry-After"),
                )
        except (ClientError, OSError, ValueError) as error:
            outcome, reason = _explain(error, self._timeout_s)
            return Answer(outcome, self._clock.now_ms() - started_ms, status, reason)

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
                socket_factory=self._socket,
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

    def _socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        if family not in (socket.AF_INET, socket.AF_INET6) or not may_dial(
            str(address[0]), self._allowed
        ):
            raise ForbiddenAddress
        return socket.socket(family, kind, protocol)


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


def _judge(status: int) -> tuple[AttemptOutcome, str]:
    if status // 100 == _SUCCESS:
        return AttemptOutcome.DELIVERED, ""
    if status // 100 == _REDIRECT:
        reason = (
            f"the receiver answered {status}: redirects are not followed; change the report's URL"
        )
        return AttemptOutcome.REFUSED, reason
    return AttemptOutcome.REFUSED, f"the receiver answered {status}; expected is 2xx"


def _explain(error: Exception, timeout_s: float) -> tuple[AttemptOutcome, str]:
    """In words, without addresses: what is told is shown to the report's owner."""
    inner = error.os_error if isinstance(error, ClientConnectorError) else error
    if isinstance(inner, ForbiddenAddress):
        return AttemptOutcome.FORBIDDEN, str(inner.strerror)
    if isinstance(error, TimeoutError):
        reason = f"no whole answer within {timeout_s:g} s"
    elif isinstance(error, ClientConnectorDNSError):
        reason = "the host name does not resolve"
    elif isinstance(error, ClientSSLError):
        reason = f"TLS failed: {_tls_words(error)}"
    elif isinstance(error, ClientConnectorError):
        # by its number: the words of asyncio hold the address
        number = error.os_error.errno
        reason = f"no connection: {os.strerror(number) if number else 'failed'}"
    elif isinstance(error, ServerDisconnectedError):
        reason = "the receiver closed the connection without an answer"
    else:
        reason = f"no usable answer: {type(error).__name__}"
    return AttemptOutcome.UNREACHED, reason


def _tls_words(error: ClientSSLError) -> str:
    inner = error.__cause__ or error.os_error
    return str(getattr(inner, "verify_message", "") or getattr(inner, "reason", "") or "refused")
