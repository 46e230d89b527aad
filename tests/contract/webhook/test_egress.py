"""How deliveries leave: an authority of one's own, and a proxy whose faults are told as its own."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from meterline.backends.clock import SystemClock
from meterline.backends.webhook.sender import Egress, HttpWebhookSender, tls_with
from meterline.delivery import Answer, AttemptOutcome
from tests.contract.webhook.test_sender import LOOPBACK

HEADERS = {"Content-Type": "application/json", "svix-id": "dlv_1"}


@dataclass(slots=True)
class Proxy:
    """A forward proxy that relays, or answers what the test says."""

    url: str = ""
    answer: bytes = b""  # instead of relaying
    told: list[str] = field(default_factory=list)  # request lines

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            line = head.split(b"\r\n", 1)[0].decode()
            self.told.append(line)
            if self.answer:
                writer.write(self.answer)
            elif line.startswith("CONNECT "):
                host, _, port = line.split(" ")[1].rpartition(":")
                behind = await asyncio.open_connection(host, int(port))
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_pump(reader, behind[1]), _pump(behind[0], writer))
            else:
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 7\r\n\r\nrelayed")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # either side may go
        finally:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    made = Proxy()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


Send = Callable[[str, Egress], Awaitable[Answer]]


@pytest.fixture
async def send() -> AsyncIterator[Send]:
    """Sends one delivery, with loopback allowed."""
    opened: list[HttpWebhookSender] = []

    async def act(url: str, egress: Egress) -> Answer:
        made = HttpWebhookSender(SystemClock(), LOOPBACK, timeout_s=5, egress=egress)
        opened.append(made)
        return await made.send(url, b"{}", HEADERS)

    yield act
    for made in opened:
        await made.close()


@dataclass(frozen=True, slots=True)
class Secured:
    """A receiver with a certificate that only its own authority vouches for."""

    url: str
    ca_file: Path


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Secured]:
    ca_file, context = authority(tmp_path)

    async def handle(request: web.Request) -> web.Response:
        assert await request.read() == b"{}"
        return web.Response(text="booked")

    application = web.Application()
    application.router.add_post("/hook", handle)
    server = TestServer(application, scheme="https")
    await server.start_server(ssl=context)
    yield Secured(f"https://localhost:{server.port}/hook", ca_file)
    await server.close()


def authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The file of an authority that vouches for itself as localhost, and a server's context."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    ca_file, server_file = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(certificate.public_bytes(pem))
    server_file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    return ca_file, context


async def test_an_authority_of_ones_own_is_trusted_when_told(secured: Secured, send: Send) -> None:
    refused = await send(secured.url, Egress())
    assert refused.outcome is AttemptOutcome.UNREACHED
    assert refused.reason == "TLS failed: self-signed certificate"
    taken = await send(secured.url, Egress(tls_with(secured.ca_file)))
    assert (taken.outcome, taken.body) == (AttemptOutcome.DELIVERED, b"booked")
    # it vouches for its own names only
    other = secured.url.replace("localhost", "127.0.0.1")
    mistaken = await send(other, Egress(tls_with(secured.ca_file)))
    assert mistaken.reason.startswith("TLS failed: ")


def test_those_that_the_machine_trusts_are_trusted_too(tmp_path: Path) -> None:
    ca_file, _ = authority(tmp_path)
    before = ssl.create_default_context().cert_store_stats()["x509"]
    assert tls_with(ca_file).cert_store_stats()["x509"] == before + 1


def test_a_file_without_certificates_is_refused_with_words(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(ValueError, match="holds no certificates in PEM form"):
        tls_with(path)
    with pytest.raises(OSError, match="No such file"):
        tls_with(tmp_path / "none.pem")


async def test_a_delivery_goes_through_the_proxy(proxy: Proxy, send: Send) -> None:
    answer = await send("http://127.0.0.1:9/hook", Egress(proxy=proxy.url))
    assert (answer.outcome, answer.status, answer.body) == (
        AttemptOutcome.DELIVERED,
        202,
        b"relayed",
    )
    assert proxy.told == ["POST http://127.0.0.1:9/hook HTTP/1.1"]


async def test_tls_goes_through_the_proxy_end_to_end(
    proxy: Proxy, secured: Secured, send: Send
) -> None:
    egress = Egress(tls_with(secured.ca_file), proxy.url)
    answer = await send(secured.url, egress)
    assert (answer.outcome, answer.body) == (AttemptOutcome.DELIVERED, b"booked")
    assert proxy.told[0].startswith("CONNECT localhost:")
    # the receiver's certificate is the receiver's fault
    answer = await send(secured.url, Egress(proxy=proxy.url))
    assert answer.reason == "TLS failed: self-signed certificate"
    assert answer.of_receiver


def answered(status: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Length: 0", *headers, "", ""]
    return "\r\n".join(lines).encode()


@pytest.mark.parametrize(
    ("url", "answer", "reason", "of_receiver"),
    [
        ("https", "407 No", "the egress proxy refused to connect: it answered 407", False),
        ("https", "403 No", "the egress proxy refused to connect: it answered 403", False),
        ("https", "500 No", "the egress proxy refused to connect: it answered 500", False),
        (
            "https",
            "502 No",
            "the egress proxy does not reach the receiver: it answered 502",
            True,
        ),
        ("http", "407 No", "the egress proxy failed: it answered 407", False),
        (
            "http",
            "504 No",
            "the receiver, or the egress proxy before it, answered 504; expected 2xx",
            True,
        ),
        ("http", "500 No", "the receiver answered 500; expected 2xx", True),
    ],
)
async def test_faults_of_the_proxy_are_told_as_its_own(
    proxy: Proxy, send: Send, url: str, answer: str, reason: str, *, of_receiver: bool
) -> None:
    proxy.answer = answered(answer)
    found = await send(f"{url}://receiver.example/hook", Egress(proxy=proxy.url))
    assert (found.reason, found.of_receiver) == (reason, of_receiver)


async def test_what_a_proxy_says_of_itself_is_believed(proxy: Proxy, send: Send) -> None:
    proxy.answer = answered("502 No", "Proxy-Status: out; error=destination_unavailable")
    found = await send("http://receiver.example/hook", Egress(proxy=proxy.url))
    assert found.reason == "the egress proxy failed: it answered 502"


async def test_a_proxy_that_is_away_is_named(send: Send, unused_tcp_port: int) -> None:
    away = Egress(proxy=f"http://127.0.0.1:{unused_tcp_port}")
    for url in ("http://receiver.example/hook", "https://receiver.example/hook"):
        found = await send(url, away)
        assert found.reason == "the egress proxy cannot be reached: Connection refused"
        assert (found.outcome, found.of_receiver) == (AttemptOutcome.UNREACHED, False)
    nameless = Egress(proxy="http://no-such-name.invalid:3128")
    found = await send("http://receiver.example/hook", nameless)
    assert found.reason == "the egress proxy cannot be reached: its name does not resolve"
    assert not found.of_receiver


async def test_a_proxy_is_not_asked_for_addresses_that_are_forbidden(proxy: Proxy) -> None:
    made = HttpWebhookSender(SystemClock(), timeout_s=5, egress=Egress(proxy=proxy.url))
    for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "169.254.169.254", "10.0.0.1"):
        found = await made.send(f"http://{host}/hook", b"{}", HEADERS)
        assert found.outcome is AttemptOutcome.FORBIDDEN, host
    await made.close()
    assert proxy.told == []
