"""Addresses that deliveries go to: a URL is taken apart once, so that its password is shown
nowhere.
"""

import base64
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from meterline.limits import ENDPOINT_CHARS_MAX

_SCHEMES: Final = ("http", "https")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL fit to be shown, and the `user:password` that was in it, decoded: None where there was
    none, "" where only an `@` was.
    """

    url: str
    user_info: str | None = None


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint of a URL. Raises `ValueError` with words, which never repeat a password.

    Whether its address may be dialled is judged when it is dialled: a name can change its answer.
    """
    if len(text) > ENDPOINT_CHARS_MAX:
        message = f"a URL has at most {ENDPOINT_CHARS_MAX} characters"
        raise ValueError(message)
    if any(character <= " " or character in "\x7f\\" for character in text):
        message = "a URL holds no spaces, control characters or backslashes"
        raise ValueError(message)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        message = "not a URL, such as https://example.com/hook"
        raise ValueError(message) from error
    if parts.scheme not in _SCHEMES or not host or port == 0:
        message = "must be a URL with http or https and a host, such as https://example.com/hook"
        raise ValueError(message)
    if ends_in_a_number(host) and not _is_ipv4(host):
        message = "write the IPv4 address in the URL as four decimal numbers, such as 192.0.2.1"
        raise ValueError(message)
    user_info, at, location = parts.netloc.rpartition("@")
    # What follows # is never sent; kept, it would only look as if it were.
    url = urlunsplit((parts.scheme, location, parts.path or "/", parts.query, ""))
    return Endpoint(url, unquote(user_info) if at else None)


def ends_in_a_number(host: str) -> bool:
    """Whether a host can only be an IPv4 address (WHATWG URL, "ends in a number")."""
    last = host.removesuffix(".").rpartition(".")[2]
    return last.isdecimal() or last.startswith("0x")


def _is_ipv4(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def basic_authorization(user_info: str) -> str:
    """The `Authorization` header of user information (RFC 7617)."""
    if ":" not in user_info:
        user_info += ":"
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"
