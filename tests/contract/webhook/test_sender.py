"""What every WebhookSender promises (meterline/report/ports.py), against receivers on loopback."""

import asyncio
import gzip
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.abc import ResolveResult
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from meterline import limits
from meterline.backends.clock import SystemClock
from meterline.backends.webhook.names import Names
from meterline.backends.webhook.sender import Egress, HttpWebhookSender
from meterline.delivery import AttemptOutcome, WebhookSender
from tests.services.local import nobody_at

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
TIMEOUT_S = 60.0  # of a sender whose patience is not asked for
HASTE_S = 1.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Raw = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def sender() -> AsyncIterator[WebhookSender]:
    made = HttpWebhookSender(SystemClock(), LOOPBACK, timeout_s=TIMEOUT_S)
    yield made
    await made.close()


@pytest.fixture
async def hasty() -> AsyncIterator[WebhookSender]:
    made = HttpWebhookSender(SystemClock(), LOOPBACK, timeout_s=HASTE_S)
    yield made
    await made.close()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Starts a receiver with one handler; gives its URL."""
    servers: list[TestServer] = []

    async def start(handler: Handler) -> str:
        application = web.Application(client_max_size=limits.DELIVERY_BODY_BYTES_MAX + 1)
        application.router.add_route("*", "/{path:.*}", handler)
        server = TestServer(application)
        await server.start_server()
        servers.append(server)
        return str(server.make_url("/hook"))

    yield start
    for server in servers:
        await server.close()


@pytest.fixture
async def serve_raw() -> AsyncIterator[Callable[[Raw], Awaitable[str]]]:
    """Starts a server that speaks bytes; gives its URL."""
    servers: list[asyncio.Server] = []

    async def start(talk: Raw) -> str:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                await talk(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass  # the sender went away, as it should
            finally:
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"

    yield start
    for server in servers:
        server.close()


def answering(status: int, **headers: str) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text="said", headers=named)

    return handle


async def test_the_bytes_and_headers_arrive_as_given(
    sender: WebhookSender, serve: Callable[[Handler], Awaitable[str]]
) -> None:
    seen: list[tuple[str, bytes, dict[str, str]]] = []

    async def handle(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append((request.method, await request.read(), headers))
        response = web.Response(status=204)
        response.set_cookie("session", "of another")
        return response

    url = await serve(handle)
    body = '{"value": 1.000000000000000001, "ü": 1}'.encode()
    headers = {"Content-Type": "application/json", "svix-id": "dlv_1"}
    answers = [await sender.send(url, body, headers) for _ in range(2)]
    assert [(a.outcome, a.status, a.reason) for a in answers] == [
        (AttemptOutcome.DELIVERED, 204, "")
    ] * 2
    for method, content, named in seen:
        assert (method, content) == ("POST", body)
        assert named["svix-id"] == "dlv_1"
        assert named["content-type"] == "application/json"
        assert named["accept-encoding"] == "identity"
        assert "cookie" not in named


async def test_a_large_body_arrives_whole(
    sender: WebhookSender, serve: Callable[[Handler], Awaitable[str]]
) -> None:
    seen: list[tuple[int, str | None]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((len(await request.read()), request.headers.get("Content-Length")))
        return web.Response()

    body = b"x" * limits.DELIVERY_BODY_BYTES_MAX
    answer = await sender.send(await serve(handle), body, {})
    assert answer.outcome is AttemptOutcome.DELIVERED
    assert seen == [(len(body), str(len(body)))]


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
async def test_other_answers_are_refusals_with_their_words(
    sender: WebhookSender, serve: Callable[[Handler], Awaitable[str]], status: int
) -> None:
    answer = await sender.send(await serve(answering(status, Retry_After="17")), b"{}", {})
    assert (answer.outcome, answer.status) == (AttemptOutcome.REFUSED, status)
    assert answer.body == b"said"
    assert answer.retry_after == "17"
    assert str(status) in answer.reason


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(
    sender: WebhookSender, serve: Callable[[Handler], Awaitable[str]], status: int
) -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    answer = await sender.send(await serve(handle), b"{}", {})
    assert (answer.outcome, answer.status) == (AttemptOutcome.REFUSED, status)
    assert "redirects are not followed" in answer.reason
    assert asked == ["/hook"]


@pytest.mark.parametrize(
    "url",
    [
        "http://10.255.255.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
        "http://①⓪.0.0.1/",
    ],
)
async def test_forbidden_addresses_are_not_dialled(sender: WebhookSender, url: str) -> None:
    answer = await sender.send(url, b"{}", {})
    assert answer.status is None
    assert answer.outcome is AttemptOutcome.FORBIDDEN
    assert "may not be dialled" in answer.reason


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_without_an_allowed_network_loopback_is_forbidden_by_literal_and_by_name(
    serve: Callable[[Handler], Awaitable[str]], host: str
) -> None:
    url = (await serve(answering(200))).replace("127.0.0.1", host)
    closed = HttpWebhookSender(SystemClock())
    answer = await closed.send(url, b"{}", {})
    await closed.close()
    assert answer.outcome is AttemptOutcome.FORBIDDEN


async def test_names_are_not_looked_up_where_other_work_is_done(
    serve: Callable[[Handler], Awaitable[str]], sender: WebhookSender
) -> None:
    url = (await serve(answering(200))).replace("127.0.0.1", "localhost")
    with ThreadPoolExecutor(1) as shared:
        asyncio.get_running_loop().set_default_executor(shared)
        ended = threading.Event()
        taken = asyncio.create_task(asyncio.to_thread(ended.wait))
        await asyncio.sleep(0)
        answer = await sender.send(url, b"{}", {})
        ended.set()
        await taken
    assert answer.outcome is AttemptOutcome.DELIVERED


@pytest.mark.parametrize(
    ("lookups_max", "said", "of_receiver"),
    [
        (2, "the host name was not resolved within 0.1 s", True),
        (
            0,
            "the host name was not looked up: too many names that do not resolve are waited for",
            False,
        ),
    ],
)
async def test_a_name_that_nobody_answers_for_is_told_as_such(
    lookups_max: int, said: str, *, of_receiver: bool
) -> None:
    ended = threading.Event()

    def silent(_host: str, _family: int) -> list[ResolveResult]:
        ended.wait()
        return []

    names = Names(silent, deadline_s=0.1, lookups_max=lookups_max)
    made = HttpWebhookSender(SystemClock(), timeout_s=TIMEOUT_S, egress=Egress(resolver=names))
    through = Egress(proxy="http://proxy.example:3128", resolver=names)
    proxied = HttpWebhookSender(SystemClock(), timeout_s=TIMEOUT_S, egress=through)
    answer = await made.send("http://receiver.example/hook", b"{}", {})
    assert (answer.outcome, answer.reason) == (AttemptOutcome.UNREACHED, said)
    assert answer.of_receiver == of_receiver
    answer = await proxied.send("http://receiver.example/hook", b"{}", {})
    words = said.replace("the host name", "the egress proxy cannot be reached: its name")
    assert (answer.reason, answer.of_receiver) == (words, False)
    ended.set()
    await made.close()
    await proxied.close()


async def hang(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1_000):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.05)


async def slow_headers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 1_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("talk", [hang, slow_headers])
async def test_one_deadline_holds_over_all(
    hasty: WebhookSender, serve_raw: Callable[[Raw], Awaitable[str]], talk: Raw
) -> None:
    answer = await hasty.send(await serve_raw(talk), b"{}", {})
    assert answer.outcome is AttemptOutcome.UNREACHED
    assert answer.reason == "no whole answer within 1 s"
    assert answer.duration_ms >= 900
    assert answer.status is None, "the headers, which take minutes, were not waited for"


async def cut(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")


@pytest.mark.parametrize("talk", [trickle, cut])
async def test_a_2xx_is_a_success_whatever_becomes_of_the_rest_of_the_answer(
    hasty: WebhookSender, serve_raw: Callable[[Raw], Awaitable[str]], talk: Raw
) -> None:
    answer = await hasty.send(await serve_raw(talk), b"{}", {})
    assert (answer.outcome, answer.status) == (AttemptOutcome.DELIVERED, 200)
    assert answer.reason == "its answer was cut short"


async def refuse_in_part(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nabc")


async def test_a_body_without_end_is_read_to_a_bound(
    sender: WebhookSender, serve_raw: Callable[[Raw], Awaitable[str]]
) -> None:
    async def pour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    answer = await sender.send(await serve_raw(pour), b"{}", {})
    assert (answer.outcome, answer.status) == (AttemptOutcome.DELIVERED, 200)
    assert answer.body == b"x" * 1_024


async def test_an_answer_is_never_inflated(
    sender: WebhookSender, serve: Callable[[Handler], Awaitable[str]]
) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    answer = await sender.send(await serve(handle), b"{}", {})
    assert answer.outcome is AttemptOutcome.DELIVERED
    assert answer.body == bomb[:1_024]


async def test_what_breaks_on_the_way_is_told_in_words(
    sender: WebhookSender,
    serve: Callable[[Handler], Awaitable[str]],
    serve_raw: Callable[[Raw], Awaitable[str]],
) -> None:
    async def leave(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        return

    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no http at all\r\n\r\n")

    expected = {
        "http://no-such-name.invalid/": "does not resolve",
        await serve_raw(leave): "closed the connection without an answer",
        await serve_raw(babble): "no usable answer",
        await serve_raw(refuse_in_part): "no usable answer",
        (await serve(answering(200))).replace("http:", "https:"): "TLS failed",
        "http://[half/": "no usable answer",
    }
    with nobody_at() as port:
        expected[f"http://127.0.0.1:{port}/"] = "no connection: Connection refused"
        for url, words in expected.items():
            answer = await sender.send(url, b"{}", {})
            assert answer.outcome is AttemptOutcome.UNREACHED, url
            assert words in answer.reason, url
            assert "127.0.0.1" not in answer.reason


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's context whose certificate nobody vouches for."""
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
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_a_certificate_nobody_vouches_for_is_refused(
    sender: WebhookSender, tmp_path: Path
) -> None:
    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = self_signed(tmp_path)
    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    answer = await sender.send(f"https://localhost:{port}/", b"{}", {})
    server.close()
    assert answer.outcome is AttemptOutcome.UNREACHED
    assert answer.reason == "TLS failed: self-signed certificate"
