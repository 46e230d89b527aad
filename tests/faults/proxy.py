"""A TCP proxy that misbehaves when told to: between the product and ClickHouse or PostgreSQL."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.services.local import free_port

CHUNK_BYTES: Final = 1 << 16
_ABORT: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Mode(StrEnum):
    """What becomes of connections, those that are open too."""

    PASS = "pass"
    REFUSE = "refuse"  # nobody listens
    RESET = "reset"  # taken, and cut off at once
    HANG = "hang"  # taken, and never answered
    DROP = "drop"  # the server does it, and its answer is cut off


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a request that changes something is known, and when the server has done it."""

    asks: Callable[[bytes], bool]  # of what a client sent at once
    answered: Callable[[bytes], bool]  # of all that the server sent since


CLICKHOUSE: Final = Protocol(
    asks=lambda sent: b"INSERT" in sent, answered=lambda said: b"\r\n\r\n" in said
)
POSTGRES: Final = Protocol(
    asks=lambda sent: b"COMMIT" in sent, answered=lambda said: b"COMMIT" in said
)


class Proxy:
    """Listens on a loopback port of its own and passes all on to a server."""

    def __init__(self, host: str, port: int, protocol: Protocol, drop_every: int = 3) -> None:
        self.port = free_port()
        self.asked = 0  # requests that change something, while in mode DROP
        self.hit = 0  # connections that met a mode that is not to pass them on, but for DROP
        self.dropped = 0  # answers to them that were cut off
        self._upstream = (host, port)
        self._protocol = protocol
        self._drop_every = drop_every
        self._mode = Mode.PASS
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def be(self, mode: Mode) -> None:
        """Misbehave so from now on; returns when it holds."""
        asyncio.run_coroutine_threadsafe(self._be(mode), self._loop).result(10)

    @contextmanager
    def being(self, mode: Mode) -> Iterator[None]:
        """Misbehave during the block."""
        self.be(mode)
        try:
            yield
        finally:
            self.be(Mode.PASS)

    @contextmanager
    def running(self) -> Iterator["Proxy"]:
        """Serve during the block, in a thread."""
        thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        thread.start()
        try:
            self.be(Mode.PASS)
            yield self
        finally:
            self.be(Mode.REFUSE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _be(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.HANG:
            self._flows.clear()
        else:
            self._flows.set()
        if mode in (Mode.REFUSE, Mode.RESET, Mode.HANG):
            self.hit += len(self._open)
        if mode in (Mode.REFUSE, Mode.RESET):
            for writer in list(self._open):
                _reset(writer)
        if mode is Mode.REFUSE and self._server is not None:
            self._server.close()
            self._server = None
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        elif mode is not Mode.REFUSE and self._server is None:
            self._server = await asyncio.start_server(self._taken, "127.0.0.1", self.port)

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is a task"
        self._tasks.add(task)
        self._open.add(writer)
        try:
            self.hit += self._mode in (Mode.RESET, Mode.HANG)
            if self._mode is Mode.RESET:
                _reset(writer)
                return
            await self._flows.wait()
            with suppress(OSError, asyncio.CancelledError):  # cut off by either side, or by `be`
                await self._between(reader, writer)
        finally:
            self._tasks.discard(task)
            self._open.discard(writer)
            writer.close()

    async def _between(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._upstream)
        cut = _Cut()
        pumps = [
            asyncio.create_task(self._forth(reader, back, cut)),
            asyncio.create_task(self._back(there, writer, cut)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            back.close()

    async def _forth(
        self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, cut: "_Cut"
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._flows.wait()
            if self._mode is Mode.DROP and not cut.due and self._protocol.asks(chunk):
                self.asked += 1
                cut.due = self.asked % self._drop_every == 0
            back.write(chunk)
            await back.drain()

    async def _back(
        self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: "_Cut"
    ) -> None:
        while chunk := await there.read(CHUNK_BYTES):
            await self._flows.wait()
            if cut.due:
                cut.held += chunk
                if self._protocol.answered(cut.held):
                    self.dropped += 1
                    _reset(writer)
                    return
                continue
            writer.write(chunk)
            await writer.drain()


@dataclass(slots=True)
class _Cut:
    """A connection on which the next answer is to be cut off, and what was held back of it."""

    due: bool = False
    held: bytes = b""


def _reset(writer: asyncio.StreamWriter) -> None:
    own = writer.get_extra_info("socket")
    if own is not None:
        with suppress(OSError):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    writer.transport.abort()
