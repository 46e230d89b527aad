"""Which addresses may be dialled: a webhook must not reach what only this machine's network can
reach.

The lists are explicit: `ipaddress.is_global` calls several ways to a private address global
(NAT64, 6to4, IPv4-compatible). Of IPv6 only global unicast is open at all, so what is new
tomorrow is closed.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from socket import inet_aton, inet_ntoa
from typing import Final

Network = IPv4Network | IPv6Network

FORBIDDEN_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, metadata of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
OPEN_V6: Final = IPv6Network("2000::/3")  # global unicast: everything else is closed
FORBIDDEN_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, among them Teredo, which carries IPv4 addresses
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries IPv4 addresses
        "3fff::/20",  # documentation
    )
)


def may_dial(address: str, allowed: Sequence[Network]) -> bool:
    """Whether the host part of a socket address may be connected to; what cannot be read may
    not.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped  # the kernel dials the IPv4 address
    if any(parsed.version == network.version and parsed in network for network in allowed):
        return True
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in FORBIDDEN_V4)
    return parsed in OPEN_V6 and not any(parsed in network for network in FORBIDDEN_V6)


def may_name(host: str, allowed: Sequence[Network]) -> bool:
    """Whether a proxy may be told to connect to a host: as far as its name tells. What is an
    address in any of the spellings that systems read as one is judged as that; another name is
    not resolved.
    """
    bare = host.strip("[]").rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        bare = "127.0.0.1"
    try:
        bare = inet_ntoa(inet_aton(bare))  # short, decimal, octal and hexadecimal spellings
    except OSError:
        if ":" not in bare:
            return bool(bare)
    return may_dial(bare, allowed)
