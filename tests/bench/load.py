"""A load generator: keep-alive connections over raw sockets, one request at a time on each."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast


@dataclass(slots=True)
class Load:
    """What a run of the generator saw; latencies in seconds."""

    requests: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Latency in milliseconds that this share of the requests kept below."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


def request_bytes(path: str, content_type: str, body: bytes) -> bytes:
    """A whole POST."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """Sends its requests in turn until told to stop; every answer must have an empty body."""

    def __init__(self, requests: Sequence[bytes], first: int, load: Load, stop_at: float) -> None:
        self._requests = requests
        self._next = first
        self._load = load
        self._stop_at = stop_at
        self._sent_at = 0.0
        self._received = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._send()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        if self._sent_at >= self._stop_at:
            self._transport.close()
            return
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" not in self._received:
            return
        if self._received.startswith((b"HTTP/1.1 202", b"HTTP/1.1 204")):
            self._load.requests += 1
            self._load.latencies.append(time.perf_counter() - self._sent_at)
        else:
            self._load.refused += 1
        self._received = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        if not self.done.done():
            self.done.set_result(None)


async def run_load(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    """Send for some seconds over so many connections."""
    load = Load()
    loop = asyncio.get_running_loop()
    started_at = time.perf_counter()
    made = [
        await loop.create_connection(
            lambda first=number: _Connection(requests, first, load, started_at + seconds),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        for number in range(connections)
    ]
    async with asyncio.timeout(seconds + 15):
        await asyncio.gather(*(protocol.done for _, protocol in made))
    load.seconds = time.perf_counter() - started_at
    return load
