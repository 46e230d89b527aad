"""Addresses that may be dialled."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.webhook.dialable import may_dial

FORBIDDEN = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
OPEN = [
    "8.8.8.8",
    "1.1.1.1",
    "100.63.255.255",
    "172.32.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
]
NO_ADDRESS = ["", "localhost", "127.1", "2130706433", "0x7f000001", "①27.0.0.1", "8.8.8.8:80"]


@pytest.mark.parametrize("address", FORBIDDEN + NO_ADDRESS)
def test_what_leads_inside_is_forbidden(address: str) -> None:
    assert not may_dial(address, ())


@pytest.mark.parametrize("address", OPEN)
def test_what_is_public_is_open(address: str) -> None:
    assert may_dial(address, ())


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_open(address: IPv4Address | IPv6Address) -> None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if not (mapped or address).is_global:
        assert not may_dial(str(address), ())


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_what_is_dialled(address: IPv4Address) -> None:
    assert may_dial(f"::ffff:{address}", ()) == may_dial(str(address), ())


def test_networks_can_be_allowed() -> None:
    loopback = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert may_dial(address, loopback)
    for address in ("10.0.0.1", "::2", "fe80::1", "::ffff:10.0.0.1"):
        assert not may_dial(address, loopback)
