"""Which hosts and origins are answered where nobody is asked for a key (mode `none`).

A browser lets any web page send requests to this machine. Two rules keep such a page out. `Host`
must be an address, `localhost` or a host that the settings name: a page that points a name of its
own at this machine (DNS rebinding) sends that name. And a request that may change something must
not come from a page of another origin.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Middleware

from meterline.delivery import ends_in_a_number
from meterline.http.answers import Handler
from meterline.limits import HOST_CHARS_MAX
from meterline.problem import Problem, ProblemType

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PROBES: Final = frozenset({"/healthz", "/readyz"})
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_PORT_DIGITS_MAX: Final = 5
_PORT_MAX: Final = 65_535


class Authority(NamedTuple):
    """A host in its one spelling, and the port if one is given."""

    host: str
    port: int | None = None


def parse_authority(text: str) -> Authority:
    """`host` or `host:port`: lower case, no dot at the end, addresses in their shortest form.

    Raises `ValueError` for everything else: user names, paths, short or octal IPv4 addresses.
    """
    if len(text) > HOST_CHARS_MAX:
        raise ValueError(f"has more than {HOST_CHARS_MAX} characters")
    if text.startswith("["):
        address, closed, rest = text[1:].partition("]")
        if not closed or "%" in address:
            raise ValueError("is not an IPv6 address in brackets")
        return Authority(IPv6Address(address).compressed, _port(rest))
    name, colon, _ = text.partition(":")
    host = name.lower().removesuffix(".")
    port = _port(text[len(name) :]) if colon else None
    if ends_in_a_number(host):
        return Authority(str(ip_address(host)), port)
    if not host or ".." in f".{host}" or not _NAME_CHARACTERS.issuperset(host):
        raise ValueError("is not a host, such as meter.example.com")
    return Authority(host, port)


def _port(text: str) -> int | None:
    if not text:
        return None
    digits = text.removeprefix(":")
    fits = text.startswith(":") and digits.isascii() and digits.isdecimal()
    if not fits or len(digits) > _PORT_DIGITS_MAX or int(digits) > _PORT_MAX:
        raise ValueError("has a port that is not a number up to 65535")
    return int(digits)


@dataclass(frozen=True, slots=True)
class HostRule:
    """What is answered. `allowed` names further hosts: without a port any port of theirs.
    `any_host` is for set-ups whose hosts are not known; the rule of origins holds there, too.
    """

    allowed: frozenset[Authority] = frozenset()
    any_host: bool = False

    def refusal(
        self,
        method: str,
        hosts: Sequence[str],
        origins: Sequence[str] = (),
        fetch_sites: Collection[str] = (),
    ) -> str | None:
        """Why a request is refused, with what to do about it; None where it is answered.

        The last three are all values of `Host`, `Origin` and `Sec-Fetch-Site`. A request without
        `Host` is answered: every browser sends one.
        """
        if len(hosts) > 1 or len(origins) > 1:
            return "Send one Host header and at most one Origin header."
        host = _authority(hosts[0]) if hosts else None
        if hosts and not self.any_host and (host is None or not self._known(host)):
            return (
                f"Meterline does not answer for the host {hosts[0][:HOST_CHARS_MAX]!r}. Use "
                "127.0.0.1 or localhost, or add the host to the setting allowed_hosts."
            )
        if method in _READING:
            return None
        if origins:
            return self._refused_origin(origins[0], host, fetch_sites)
        return _CROSS_SITE if "cross-site" in fetch_sites else None

    def _known(self, host: Authority) -> bool:
        if _is_localhost(host.host) or self._allows(host):
            return True
        with suppress(ValueError):
            return bool(ip_address(host.host))
        return False

    def _allows(self, host: Authority) -> bool:
        return host in self.allowed or Authority(host.host) in self.allowed

    def _refused_origin(
        self, text: str, host: Authority | None, fetch_sites: Collection[str]
    ) -> str | None:
        scheme, separator, rest = text.partition("://")
        default = _DEFAULT_PORTS.get(scheme.lower())
        origin = _authority(rest) if separator and default else None
        if origin is not None:
            origin = Authority(origin.host, default if origin.port is None else origin.port)
            if self._allows(origin):
                return None
            if host == origin or (host == Authority(origin.host) and origin.port == default):
                return _CROSS_SITE if "cross-site" in fetch_sites else None
        return (
            f"A page of the origin {text[:HOST_CHARS_MAX]!r} may not change anything here. Add "
            "its host to the setting allowed_hosts if it may."
        )


_CROSS_SITE: Final = (
    "A page of another site may not change anything here. Add its host to the setting "
    "allowed_hosts if it may."
)


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def is_loopback(host: str) -> bool:
    """Whether a browser takes a host for this machine, and so for secure without TLS."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return _is_localhost(host)


def _authority(text: str) -> Authority | None:
    try:
        return parse_authority(text)
    except ValueError:
        return None


def host_middleware(rule: HostRule) -> Middleware:
    """Refuses by the rule, with a problem: 403 forbidden. Probes are open to every host."""

    @web.middleware
    async def judge(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        why = rule.refusal(
            request.method,
            headers.getall("Host", ()),
            headers.getall("Origin", ()),
            headers.getall("Sec-Fetch-Site", ()),
        )
        if why is not None and not (request.path in _PROBES and request.method in _READING):
            raise Problem(ProblemType.FORBIDDEN, why)
        return await handler(request)

    return judge
