"""Headers that a report gives to its deliveries: which there may be, and what a value may hold.

What deliveries are signed with, how bodies are framed, and what the machines between here and the
receiver listen to is not for a report to say: a header that a cloud's own services trust would turn
a delivery into a request in this installation's name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from meterline.limits import (
    REPORT_HEADER_NAME_CHARS_MAX,
    REPORT_HEADER_VALUE_CHARS_MAX,
    REPORT_HEADERS_BYTES_MAX,
)

AUTHORIZATION: Final = "authorization"
NAME_PATTERN: Final = rf"[!#$%&'*+.^_`|~0-9A-Za-z-]{{1,{REPORT_HEADER_NAME_CHARS_MAX}}}"
VALUE_PATTERN: Final = r"[!-~]([ \t!-~]*[!-~])?"  # RFC 9110 section 5.5, without obsolete bytes
FORBIDDEN: Final[Mapping[str, str]] = {
    "host": "is the host of the URL",
    "accept-encoding": "is always identity, for an answer is never inflated",
    **dict.fromkeys(
        (
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "expect",
            "http2-settings",
        ),
        "is about the connection, not about the delivery",
    ),
    **dict.fromkeys(
        ("forwarded", "via", "x-real-ip", "x-client-ip", "x-original-url", "x-rewrite-url"),
        "is what proxies say",
    ),
    **dict.fromkeys(("metadata", "metadata-flavor"), "opens metadata services of clouds"),
}
FORBIDDEN_PREFIXES: Final[Mapping[str, str]] = {
    "content-": "follows from the body",
    "svix-": "is part of the signature",
    "webhook-": "is part of the signature",
    "proxy-": "is for proxies",
    "x-forwarded-": "is what proxies say",
    **dict.fromkeys(
        (
            "x-amz-",
            "x-amzn-",
            "x-aws-",
            "x-goog-",
            "x-google-",
            "x-gcp-",
            "x-ms-",
            "x-azure-",
            "x-envoy-",
            "x-appengine-",
            "cf-",
            "cdn-",
            "fly-",
        ),
        "is what clouds say",
    ),
}
_name: Final = re.compile(NAME_PATTERN, re.ASCII)
_value: Final = re.compile(VALUE_PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class SealedHeaders:
    """The headers of a report as they are kept: names to be shown, values to be sent only."""

    names: tuple[str, ...] = ()  # sorted
    sealed: bytes | None = None  # of all, by a `SecretBox`


NO_HEADERS: Final = SealedHeaders()


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a header; None if nothing is."""
    if _name.fullmatch(name) is None:
        return (
            "is no name of a header: letters, digits and hyphens, "
            f"{REPORT_HEADER_NAME_CHARS_MAX} at most"
        )
    lower = name.lower()
    why = FORBIDDEN.get(lower)
    if why is None:
        why = next((w for p, w in FORBIDDEN_PREFIXES.items() if lower.startswith(p)), None)
    return None if why is None else f"{name} cannot be set: it {why}"


def value_fault(value: str) -> str | None:
    """What is wrong with the value of a header, in words that do not repeat it; None if nothing
    is.
    """
    if len(value) > REPORT_HEADER_VALUE_CHARS_MAX:
        return f"has {len(value)} characters, {REPORT_HEADER_VALUE_CHARS_MAX} at most"
    if _value.fullmatch(value) is None:
        return "is not printable ASCII that neither begins nor ends with a space"
    return None


def set_fault(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong with headers together: the name of one, and words; None if nothing is."""
    seen: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        if name.lower() in seen:
            return name, f"{name} is there twice: case makes no difference"
        seen[name.lower()] = name
        size += len(name) + len(value) + len(": \r\n")
        if size > REPORT_HEADERS_BYTES_MAX:
            message = (
                f"the headers up to {name} have {size} bytes, {REPORT_HEADERS_BYTES_MAX} at most"
            )
            return name, message
    return None


def authorizes(names: Iterable[str]) -> bool:
    """Whether one of the headers is `Authorization`."""
    return any(name.lower() == AUTHORIZATION for name in names)


def headers_text(headers: Mapping[str, str]) -> str:
    """Headers as one text, to be sealed."""
    return msgspec.json.encode(dict(headers), order="sorted").decode()


def headers_of(text: str) -> dict[str, str]:
    """The headers of such a text. Raises `ValueError` for any other."""
    return msgspec.json.decode(text, type=dict[str, str])  # its errors are `ValueError`
