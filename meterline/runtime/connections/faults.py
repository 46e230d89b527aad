"""Why a connection to a server does not come about: clients hide it behind words of their own."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiokafka.conn import create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from meterline.ports import AccessRefused, Unavailable

_LOGIN: Final = (IllegalSaslStateError, SaslAuthenticationFailed, UnsupportedSaslMechanismError)
# The other side went away in the middle of it: that says nothing of certificates.
_GONE: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
# What a server without TLS answers is no record of TLS.
_NO_TLS: Final = ("wrong version number", "http request", "record layer failure")


class TlsRefused(AccessRefused):
    """A certificate is not accepted, here or there."""


def cause(error: Unavailable, behind: Exception | None) -> Unavailable:
    """What is told of an error that may have another one behind it."""
    if isinstance(error, AccessRefused):
        return error
    if (reason := tls_fault(behind or error)) is not None:
        return TlsRefused(reason)
    if isinstance(behind, _LOGIN):
        return AccessRefused(f"login refused: {behind}")
    return error


def tls_fault(error: BaseException) -> str | None:
    """What TLS refused, on this side or on the other; None where it did not."""
    for one in _chain(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"TLS: the server's certificate is not accepted: {one.verify_message}"
        if isinstance(one, ssl.SSLError) and not isinstance(one, _GONE):
            reason = (one.reason or str(one)).lower().replace("_", " ")
            if reason in _NO_TLS:
                return "the server does not speak TLS on this port: correct the address"
            if "alert" in reason:  # what the other side said of us
                word = reason.rpartition("alert ")[2]
                return f"TLS: the server refuses the certificate of this process ({word})"
            return f"TLS: {reason}"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and all that it came from."""
    seen: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and one not in seen:
            seen.append(one)
            yield one
            # urllib3 keeps them in `reason` and in its arguments
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]


async def kafka_fault(
    addresses: Sequence[tuple[str, int]], security: Mapping[str, Any], timeout_s: float
) -> Exception | None:
    """The first error of a connection to a broker, with all that is said to it; None where one
    comes about.
    """
    first: Exception | None = None
    for host, port in addresses:
        try:
            connection = await create_conn(
                host,
                port,
                client_id="meterline",
                request_timeout_ms=int(timeout_s * 1_000),
                **security,
            )
        except (KafkaError, OSError, TimeoutError) as error:
            first = first or error
        else:
            connection.close()
            return None
    return first
