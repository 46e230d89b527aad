"""Messages between the parent and one worker, over a pair of sockets."""

import asyncio
import socket
import struct
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

import msgspec

_LENGTH: Final = struct.Struct(">I")
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024  # metrics of all workers: far below it


class Kind(StrEnum):
    """What a message is for."""

    READY = "ready"  # worker to parent: it takes requests
    STOP = "stop"  # parent to worker: the whole installation of workers ends
    RETIRE = "retire"  # parent to worker: another one has taken its place
    SCRAPE = "scrape"  # worker to parent: what do all workers measure?
    MEASURE = "measure"  # parent to worker: what do you measure?
    MEASURED = "measured"  # the answer to either of these


class Message(msgspec.Struct, array_like=True):
    """`number` tells which question is asked, or answered."""

    kind: Kind
    number: int = 0
    body: Any = None


_messages: Final = msgspec.msgpack.Decoder(Message)


class Channel:
    """One end. When the other process ends, however it does, `receive` returns None."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._encoder = msgspec.msgpack.Encoder()  # JSON has no NaN

    @classmethod
    async def open(cls, end: socket.socket) -> "Channel":
        """Of one of two connected sockets; it belongs to the channel from now on."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, kind: Kind, number: int = 0, body: Any = None) -> None:
        """Send, sooner or later; to one that has ended, nothing."""
        content = self._encoder.encode(Message(kind, number, body))
        if not self._writer.is_closing():
            self._writer.write(_LENGTH.pack(len(content)) + content)

    async def receive(self) -> Message | None:
        """The next message; None at the end."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            assert length <= MESSAGE_BYTES_MAX, "both ends are ours"
            return _messages.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def close(self) -> None:
        """Let go of it."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
