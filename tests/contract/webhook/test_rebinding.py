"""A name whose answers change, or that has several addresses: what was judged is what is dialled.

Everything is real but the answers of the name server: listeners of the kernel, the sender's own
connector and its own resolver. 127.0.0.2 and ::1 stand for public addresses; the other listeners
stand for what must not be reached, and each test's control reaches them.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest
from aiohttp.abc import ResolveResult

from meterline.backends.clock import SystemClock
from meterline.backends.webhook.dialable import Network
from meterline.backends.webhook.names import Names
from meterline.backends.webhook.sender import Egress, HttpWebhookSender
from meterline.delivery import Answer, AttemptOutcome
from tests.contract.webhook.test_addresses import EVERYTHING, REASON

PUBLIC: tuple[Network, ...] = (IPv4Network("127.0.0.2/32"), IPv6Network("::1/128"))
ADDRESSES = ("127.0.0.1", "127.0.0.2", "::1")
METADATA = "169.254.169.254"
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Listeners:
    """One port of three addresses of this machine, and which of them a connection came to."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.answer = ANSWER
        self.port = 0
        self._servers: dict[str, asyncio.Server] = {}

    async def open(self) -> None:
        for address in ADDRESSES:
            server = await asyncio.start_server(self._connected, address, self.port)
            self.port = server.sockets[0].getsockname()[1]
            self._servers[address] = server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = ip_address(writer.get_extra_info("sockname")[0])
        self.reached.append(str(getattr(at, "ipv4_mapped", None) or at))
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(len(b"{}"))
                writer.write(self.answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the sender went away
        finally:
            writer.close()

    async def leave(self, address: str) -> None:
        """Nobody listens there any more."""
        self._servers.pop(address).close()

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()


class NameServer:
    """What is told of any name: one list of addresses after the other, the last for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = answers
        self.asked = 0

    def look_up(self, host: str, _family: int) -> list[ResolveResult]:
        self.asked += 1
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=0,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._answers[min(self.asked, len(self._answers)) - 1]
        ]


@pytest.fixture
async def listeners() -> AsyncIterator[Listeners]:
    made = Listeners()
    await made.open()
    yield made
    await made.close()


class Senders:
    """Senders that ask a name server of the test; each is closed afterwards."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._opened: list[HttpWebhookSender] = []

    def open(self, server: NameServer, allowed: Sequence[Network] = PUBLIC) -> HttpWebhookSender:
        egress = Egress(resolver=Names(server.look_up))
        self._opened.append(HttpWebhookSender(SystemClock(), allowed, timeout_s=20, egress=egress))
        return self._opened[-1]

    async def send(self, sender: HttpWebhookSender, name: str = "receiver.example") -> Answer:
        return await sender.send(f"http://{name}:{self._port}/hook", b"{}", {})

    async def close(self) -> None:
        for sender in self._opened:
            await sender.close()


@pytest.fixture
async def senders(listeners: Listeners) -> AsyncIterator[Senders]:
    made = Senders(listeners.port)
    yield made
    await made.close()


@pytest.mark.parametrize("public", ["127.0.0.2", "::1"])
@pytest.mark.parametrize(
    "private", ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", METADATA, f"::ffff:{METADATA}"]
)
async def test_an_answer_that_turns_private_is_not_dialled(
    listeners: Listeners, senders: Senders, public: str, private: str
) -> None:
    server = NameServer([public], [private])
    sender = senders.open(server)
    first = await senders.send(sender)
    # One lookup for one connection: no second one could have told another address.
    assert (first.outcome, server.asked) == (AttemptOutcome.DELIVERED, 1)
    assert listeners.reached == [public]
    for number in range(3):  # other names: the answer of the first is kept for a while
        again = await senders.send(sender, f"r{number}.example")
        assert (again.outcome, again.reason, again.status) == (
            AttemptOutcome.FORBIDDEN,
            REASON,
            None,
        )
    assert listeners.reached == [public]
    assert server.asked == 4


@pytest.mark.parametrize("private", ["127.0.0.1", "::ffff:127.0.0.1"])
async def test_control_without_the_guard_the_private_listener_is_reached(
    listeners: Listeners, senders: Senders, private: str
) -> None:
    sender = senders.open(NameServer(["127.0.0.2"], [private]), EVERYTHING)
    for name in ("one.example", "two.example"):
        assert (await senders.send(sender, name)).outcome is AttemptOutcome.DELIVERED
    assert listeners.reached == ["127.0.0.2", "127.0.0.1"]


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1", "127.0.0.2"],
        ["127.0.0.2", "127.0.0.1"],
        ["::ffff:127.0.0.1", "127.0.0.2"],
        ["::ffff:127.0.0.1", "::1", "127.0.0.1"],
        ["127.0.0.1", "::1"],
        ["10.0.0.1", "fd00::1", METADATA, "127.0.0.2"],
    ],
)
async def test_of_several_addresses_only_public_ones_are_dialled(
    listeners: Listeners, senders: Senders, addresses: list[str]
) -> None:
    answer = await senders.send(senders.open(NameServer(addresses)))
    assert answer.outcome is AttemptOutcome.DELIVERED
    assert listeners.reached == [next(one for one in addresses if one in ("127.0.0.2", "::1"))]


@pytest.mark.parametrize("private", ["127.0.0.1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("public", ["127.0.0.2", "::1"])
@pytest.mark.parametrize("first", ["public", "private"])
async def test_a_public_address_that_fails_makes_no_way_for_a_private_one(
    listeners: Listeners, senders: Senders, private: str, public: str, first: str
) -> None:
    await listeners.leave(public)
    both = [public, private] if first == "public" else [private, public]
    answer = await senders.send(senders.open(NameServer(both)))
    assert listeners.reached == []
    assert answer.status is None
    assert answer.outcome in (AttemptOutcome.UNREACHED, AttemptOutcome.FORBIDDEN)
    assert "127.0.0" not in answer.reason
    reached = await senders.send(senders.open(NameServer(both), EVERYTHING))
    assert reached.outcome is AttemptOutcome.DELIVERED
    assert listeners.reached == ["127.0.0.1"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_private_address_is_not_followed(
    listeners: Listeners, senders: Senders, status: int
) -> None:
    server = NameServer(["127.0.0.2"], ["127.0.0.1"])
    sender = senders.open(server)
    for place in (f"http://127.0.0.1:{listeners.port}/", f"//inside.example:{listeners.port}/"):
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n"
        listeners.answer = head.encode()
        answer = await senders.send(sender)
        assert (answer.outcome, answer.status) == (AttemptOutcome.REFUSED, status)
    assert set(listeners.reached) == {"127.0.0.2"}
    assert server.asked == 1
