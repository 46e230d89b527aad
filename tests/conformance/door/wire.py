"""Requests over keep-alive connections, byte for byte as they are made up."""

import asyncio
from typing import Final

from tests.conformance.door.ledger import Answer
from tests.conformance.door.posts import Post

ANSWER_WITHIN_S: Final = 60.0
CHUNK: Final = 1_000


class NoAnswer(Exception):
    """The connection ended before an answer was whole."""


def request_bytes(post: Post) -> bytes:
    """A whole request."""
    lines = [f"POST {post.path} HTTP/1.1", "Host: 127.0.0.1"]
    if post.media_type is not None:
        lines.append(f"Content-Type: {post.media_type}")
    if post.encoding is not None:
        lines.append(f"Content-Encoding: {post.encoding}")
    lines += [f"{name}: {value}" for name, value in post.attributes]
    body = post.body
    if post.chunked:
        lines.append("Transfer-Encoding: chunked")
        parts = [body[at : at + CHUNK] for at in range(0, len(body), CHUNK)]
        body = b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts]) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape") + body


class _Protocol(asyncio.Protocol):
    """One answer at a time."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.answer: asyncio.Future[Answer] | None = None
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.received += data
        found = parsed(self.received)
        if found is not None and self.answer is not None and not self.answer.done():
            self.received.clear()
            self.answer.set_result(found)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(NoAnswer(f"connection lost: {error}"))


def parsed(received: bytearray) -> Answer | None:
    """The answer, once it is whole. Every one of the door's has a length, or no body."""
    head, blank, body = bytes(received).partition(b"\r\n\r\n")
    if not blank:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ", 2)[1])
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    if len(body) < int(headers.get("content-length", "0")):
        return None
    return Answer(status, headers, body)


class Connection:
    """A connection that is opened anew when the server or a request has ended it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._protocol: _Protocol | None = None
        self._transport: asyncio.Transport | None = None

    async def ask(self, post: Post) -> Answer | None:
        """The answer to a request; None where the sender is gone before. Raises `NoAnswer`."""
        if self._protocol is None or self._protocol.lost or self._transport is None:
            await self._open()
        assert self._protocol is not None
        assert self._transport is not None
        raw = request_bytes(post)
        if not post.whole:
            self._transport.write(raw[: -1 - len(post.body) // 2])
            self.close()
            return None
        self._protocol.answer = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S if post.large else ANSWER_WITHIN_S / 2):
                answer = await self._protocol.answer
        except TimeoutError as error:
            raise NoAnswer("no answer in time") from error
        if answer.headers.get("connection", "").lower() == "close" or post.large:
            self.close()  # what was not read of a refused body is still on its way
        return answer

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, self._protocol = await loop.create_connection(
            _Protocol, "127.0.0.1", self._port
        )

    def close(self) -> None:
        """Safe to call at any time."""
        if self._transport is not None:
            self._transport.close()
        self._transport = self._protocol = None
