"""What came of a POST, in words for the report's owner: they name no address, and tell the faults
of a proxy from those of the receiver.
"""

import errno
import os
from typing import Final

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientResponse,
    ClientSSLError,
    ServerDisconnectedError,
)
from yarl import URL

from meterline.backends.webhook.names import NameNotResolved
from meterline.delivery import Answer, AttemptOutcome

_SUCCESS: Final = 2  # first digit of a status
_REDIRECT: Final = 3
_PROXY_AUTHENTICATION: Final = 407
_GATEWAY_FAULTS: Final = frozenset({502, 504})  # a proxy says that it does not reach the receiver


class ForbiddenAddress(OSError):
    """An address that may not be dialled. Its words name no address: a tenant learns nothing of
    the inside.
    """

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "the endpoint leads to an address that may not be dialled")


def judged(
    response: ClientResponse, start: bytes, duration_ms: int, *, through_proxy: bool
) -> Answer:
    """An answer that came whole, or as far as it is read."""
    outcome, reason, of_receiver = _judge(response, through_proxy=through_proxy)
    retry_after = response.headers.get("Retry-After")
    return Answer(outcome, duration_ms, response.status, reason, start, retry_after, of_receiver)


def _judge(response: ClientResponse, *, through_proxy: bool) -> tuple[AttemptOutcome, str, bool]:
    status = response.status
    if status // 100 == _SUCCESS:
        return AttemptOutcome.DELIVERED, "", True
    if through_proxy and (
        status == _PROXY_AUTHENTICATION or "error=" in response.headers.get("Proxy-Status", "")
    ):  # RFC 9209
        return AttemptOutcome.UNREACHED, f"the egress proxy failed: it answered {status}", False
    if status // 100 == _REDIRECT:
        reason = (
            f"the receiver answered {status}: redirects are not followed; change the report's URL"
        )
        return AttemptOutcome.REFUSED, reason, True
    who = "the receiver"
    if through_proxy and response.url.scheme == "http" and status in _GATEWAY_FAULTS:
        who = "the receiver, or the egress proxy before it,"
    return AttemptOutcome.REFUSED, f"{who} answered {status}; expected 2xx", True


def explained(
    error: Exception, duration_ms: int, status: int | None, timeout_s: float, proxy: str | None
) -> Answer:
    """An attempt that ended without a whole answer: a success all the same where it began so."""
    if status is not None and status // 100 == _SUCCESS:
        # The receiver took it: that the rest of its answer did not come changes nothing.
        return Answer(AttemptOutcome.DELIVERED, duration_ms, status, "its answer was cut short")
    inner = error.os_error if isinstance(error, ClientConnectorError) else error
    if isinstance(inner, ForbiddenAddress):
        return Answer(AttemptOutcome.FORBIDDEN, duration_ms, status, str(inner.strerror))
    found = None if proxy is None else _proxy_message(error, proxy)
    if found is None:
        of_name = not isinstance(inner, NameNotResolved) or inner.of_name
        found = _message(error, timeout_s), of_name
    reason, of_receiver = found
    return Answer(AttemptOutcome.UNREACHED, duration_ms, status, reason, of_receiver=of_receiver)


def _proxy_message(error: Exception, proxy: str) -> tuple[str, bool] | None:
    """What is wrong with or behind the proxy, and whether that says something of the receiver; None
    where the proxy did its part.
    """
    if isinstance(error, ClientHttpProxyError):
        if error.status in _GATEWAY_FAULTS:
            return f"the egress proxy does not reach the receiver: it answered {error.status}", True
        return f"the egress proxy refused to connect: it answered {error.status}", False
    if isinstance(error, ClientConnectorDNSError) and error.host == URL(proxy).host:
        return f"the egress proxy cannot be reached: its name {_name_message(error)}", False
    if isinstance(error, ClientProxyConnectionError):
        return f"the egress proxy cannot be reached: {_os_message(error)}", False
    return None


def _message(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no whole answer within {timeout_s:g} s"
    if isinstance(error, ClientConnectorDNSError):
        return f"the host name {_name_message(error)}"
    if isinstance(error, ClientSSLError):
        return f"TLS failed: {_tls_message(error)}"
    if isinstance(error, ClientConnectorError):
        return f"no connection: {_os_message(error)}"
    if isinstance(error, ServerDisconnectedError):
        return "the receiver closed the connection without an answer"
    return "no usable answer: it is not valid HTTP, or it broke off"


def _name_message(error: ClientConnectorDNSError) -> str:
    found = error.os_error
    return found.message if isinstance(found, NameNotResolved) else "does not resolve"


def _os_message(error: ClientConnectorError) -> str:
    # by its number: the words of asyncio hold the address
    number = error.os_error.errno
    return os.strerror(number) if number else "failed"


def _tls_message(error: ClientSSLError) -> str:
    inner = error.__cause__ or error.os_error
    return str(getattr(inner, "verify_message", "") or getattr(inner, "reason", "") or "refused")
