"""TLS in front of a server that has none, as an ingress has it: it asks for certificates of clients
and passes on what is in the connection.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tests.contract.connections.authority import Authority, Pair
from tests.services.local import free_port

CHUNK_BYTES: Final = 1 << 16


class TlsProxy:
    """Runs in a thread of its own; `shown` are the names of the clients that connected."""

    def __init__(self, upstream: tuple[str, int], server: Pair, trusted: Authority) -> None:
        self.port = free_port()
        self.shown: list[str] = []
        self._upstream = upstream
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=trusted.file)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_cert_chain(server.cert, server.key)
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()

    @contextmanager
    def running(self) -> Iterator["TlsProxy"]:
        """It takes connections for the length of the block."""
        started = asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._context, backlog=100
        )
        server = self._loop.run_until_complete(started)
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._end(server), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def cut(self) -> None:
        """End every connection that is open: clients have to come again."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    async def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        await self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peercert")
        self.shown.append(dict(part[0] for part in peer["subject"])["commonName"])
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        self._open |= {writer, up_writer}
        try:
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
        finally:
            for one in (writer, up_writer):
                self._open.discard(one)
                one.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    writer.transport.abort()
