"""Addresses that must not be reached, in all the ways they can be spelled, through the real sender
and, where names lead there, through its resolver.

Whether somebody listens at an address says nothing: every connection that this process begins is
seen and stopped before it leaves. So each test also proves that without the guard the address would
have been dialled.
"""

import socket
import sys
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from meterline.backends.clock import SystemClock
from meterline.backends.webhook.dialable import may_name
from meterline.backends.webhook.sender import Egress, HttpWebhookSender
from meterline.delivery import AttemptOutcome
from tests.contract.webhook.test_sender import LOOPBACK

# What a URL's host may be; each is 127.0.0.1, or an address that only this network can reach.
LITERALS = [
    "127.0.0.1",
    "127.1.2.3",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[2001:0:7f00:1::]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[3fff:fff::1]",
    "[5f00::1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "①②⑦.⓪.⓪.①",
    "\uff11\uff12\uff17.0.0.1",  # full-width digits
    "127。0。0。1",
    "user:password@127.0.0.1",
    "example.com@127.0.0.1",
    "example.com:80@127.0.0.1",
    "example.com%2F@127.0.0.1",
]
# What a system's resolver makes an address of, though it looks like none.
NUMERIC = [
    "0x7f000001",
    "0x7f.0.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "0",
    "0xa9fea9fe",
    "2852039166",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
]


# What the HTTP client takes for no URL, with the guard and without it.
NO_HOST = frozenset({"2130706433", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0"})
NO_HOST |= {"2852039166"}
# What a system may or may not have an address for.
RESOLVED_BY_SOME = frozenset({"localhost.", "a.localhost"})
EVERYTHING = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


PORT = 9
REASON = "the endpoint leads to an address that may not be dialled"


class Dials:
    """The addresses that this process began to connect to while it was armed; none was reached."""

    def __init__(self) -> None:
        self.armed = False
        self.addresses: list[str] = []

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        """See `sys.addaudithook`."""
        if self.armed and event == "socket.connect":
            assert isinstance(arguments[1], tuple)
            self.addresses.append(arguments[1][0])
            raise ConnectionRefusedError("stopped by the test")


DIALS = Dials()
sys.addaudithook(DIALS.audit)  # it cannot be removed, so there is one


@pytest.fixture
def dials() -> Iterator[list[str]]:
    """Addresses that are dialled during the test."""
    DIALS.addresses = []
    DIALS.armed = True
    yield DIALS.addresses
    DIALS.armed = False


@pytest.fixture
async def unguarded() -> AsyncIterator[HttpWebhookSender]:
    """A sender that may dial everything."""
    made = HttpWebhookSender(SystemClock(), EVERYTHING, timeout_s=5)
    yield made
    await made.close()


@pytest.fixture
async def sender() -> AsyncIterator[HttpWebhookSender]:
    made = HttpWebhookSender(SystemClock(), timeout_s=5)
    yield made
    await made.close()


def test_there_are_enough_spellings() -> None:
    assert len({*LITERALS, *NUMERIC}) >= 60


@pytest.mark.parametrize("host", LITERALS)
async def test_a_literal_is_not_dialled(
    sender: HttpWebhookSender, dials: list[str], host: str
) -> None:
    answer = await sender.send(f"http://{host}:{PORT}/hook", b"{}", {})
    assert dials == []
    assert answer.outcome is AttemptOutcome.FORBIDDEN
    assert (answer.status, answer.body) == (None, b"")
    assert answer.reason == REASON


@pytest.mark.parametrize("host", NUMERIC)
async def test_a_name_that_systems_read_as_an_address_is_not_dialled(
    sender: HttpWebhookSender, dials: list[str], host: str
) -> None:
    answer = await sender.send(f"http://{host}:{PORT}/hook", b"{}", {})
    assert dials == []
    assert answer.status is None
    if host not in NO_HOST | RESOLVED_BY_SOME:
        assert (answer.outcome, answer.reason) == (AttemptOutcome.FORBIDDEN, REASON)


@pytest.mark.parametrize("host", [*LITERALS, *NUMERIC])
async def test_without_the_guard_it_would_be_dialled(
    unguarded: HttpWebhookSender, dials: list[str], host: str
) -> None:
    answer = await unguarded.send(f"http://{host}:{PORT}/hook", b"{}", {})
    assert answer.status is None
    if host in RESOLVED_BY_SOME:
        assert dials or answer.reason == "the host name does not resolve"
    else:
        assert bool(dials) == (host not in NO_HOST)


class Resolver(AbstractResolver):
    """Every name has these addresses; the answer changes each time it is asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del family
        self.asked += 1
        first = self.addresses[min(self.asked, len(self.addresses)) - 1]
        version = ip_address(first).version
        return [
            ResolveResult(
                hostname=host,
                host=first,
                port=port,
                family=socket.AF_INET if version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    "address", [host.strip("[]") for host in LITERALS if "@" not in host and host.isascii()]
)
async def test_a_name_that_leads_there_is_not_dialled(dials: list[str], address: str) -> None:
    url = f"http://receiver.example:{PORT}/hook"
    egress = Egress(resolver=Resolver(address))
    made = HttpWebhookSender(SystemClock(), timeout_s=5, egress=egress)
    answer = await made.send(url, b"{}", {})
    await made.close()
    assert dials == []
    assert (answer.outcome, answer.reason) == (AttemptOutcome.FORBIDDEN, REASON)
    unguarded = HttpWebhookSender(SystemClock(), EVERYTHING, timeout_s=5, egress=egress)
    await unguarded.send(url, b"{}", {})
    await unguarded.close()
    assert dials == [address]


async def test_a_name_that_changes_its_answer_is_judged_each_time(dials: list[str]) -> None:
    resolver = Resolver("127.0.0.2", "169.254.169.254")
    made = HttpWebhookSender(
        SystemClock(), (LOOPBACK[0],), timeout_s=5, egress=Egress(resolver=resolver)
    )
    # allowed at first, so it is dialled, then no more
    url = f"http://receiver.example:{PORT}/hook"
    first = await made.send(url, b"{}", {})
    assert (first.outcome, dials) == (AttemptOutcome.UNREACHED, ["127.0.0.2"])
    for number in range(3):
        again = await made.send(url.replace("receiver", f"r{number}"), b"{}", {})
        assert again.outcome is AttemptOutcome.FORBIDDEN
    await made.close()
    assert dials == ["127.0.0.2"]
    assert resolver.asked == 4


@pytest.mark.parametrize("host", [one for one in (*LITERALS, *NUMERIC) if one.isascii()])
def test_a_proxy_is_not_told_to_go_there_either(host: str) -> None:
    assert not may_name(host.rpartition("@")[2], ())


@pytest.mark.parametrize("host", ["example.com", "8.8.8.8", "2606:4700::1111", "127.example.com"])
def test_a_proxy_may_be_told_of_others(host: str) -> None:
    assert may_name(host, ())


def test_a_proxy_may_be_told_of_what_is_allowed() -> None:
    assert may_name("127.0.0.1", LOOPBACK)
    assert may_name("localhost", LOOPBACK)
