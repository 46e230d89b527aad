"""Backups of a folder that a process holds: it makes them for who asks by a socket in it.

One process owns the log and the engine of the embedded set-up, so nobody else can read them. Who
may open the socket may read the folder anyway: it is the same user.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from meterline.limits import ARCHIVE_ORDER_BYTES_MAX
from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.archive.files import Tell

logger = structlog.get_logger()
SOCKET_NAME: Final = "backup.sock"
Make = Callable[[Path, Tell], Awaitable[None]]


class Order(msgspec.Struct, frozen=True):
    """What is asked for: an archive in this folder."""

    folder: str


class Message(msgspec.Struct, frozen=True):
    """A line of the answer: of progress, or the last one."""

    line: str = ""
    error: str | None = None
    done: bool = False


_orders: Final = msgspec.json.Decoder(Order)
_messages: Final = msgspec.json.Decoder(Message)


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A path of the socket that is short enough for one, however long that of the folder is."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}/{SOCKET_NAME}"
    finally:
        os.close(number)


def _bound(folder: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.fchmod(listening.fileno(), 0o600)  # of the entry that `bind` makes
    # one of a process that was killed: the folder is ours
    (folder / SOCKET_NAME).unlink(missing_ok=True)
    with _short(folder) as path:
        listening.bind(path)
    return listening


async def serve_backups(stack: AsyncExitStack, folder: Path, make: Make) -> None:
    """Make backups for who asks, until the stack is closed. One at a time."""
    turn = asyncio.Lock()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _answer(reader, writer, make, turn)
        except (OSError, msgspec.DecodeError, asyncio.LimitOverrunError, ValueError):
            pass  # whoever asked is gone, or never spoke our words
        finally:
            writer.close()

    listening = _bound(folder)
    server = await asyncio.start_unix_server(answer, sock=listening, limit=ARCHIVE_ORDER_BYTES_MAX)
    stack.callback((folder / SOCKET_NAME).unlink, missing_ok=True)
    stack.callback(server.close)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, make: Make, turn: asyncio.Lock
) -> None:
    order = _orders.decode(await reader.readline())

    def tell(line: str) -> None:
        _say(writer, Message(line))

    if turn.locked():
        _say(writer, Message(error="another backup of this folder is being made: wait for its end"))
        return
    async with turn:
        logger.info("backup_begun", folder=order.folder)
        making = asyncio.ensure_future(make(Path(order.folder), tell))
        gone = asyncio.ensure_future(reader.read())  # nothing more is said: it is closed
        try:
            await asyncio.wait([making, gone], return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                logger.warning("backup_given_up", folder=order.folder)
                return
            making.result()
        except (Unavailable, Unsuitable, OSError) as error:
            logger.warning("backup_failed", folder=order.folder, error=str(error))
            _say(writer, Message(error=str(error)))
        except Exception as error:
            logger.exception("backup_failed", folder=order.folder)
            _say(writer, Message(error=f"the server failed, see its log: {error!r}"))
        else:
            logger.info("backup_made", folder=order.folder)
            _say(writer, Message(done=True))
        finally:
            making.cancel()
            gone.cancel()
            await asyncio.gather(making, gone, return_exceptions=True)
            with suppress(OSError):
                await writer.drain()


def _say(writer: asyncio.StreamWriter, message: Message) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")


async def ask_for_backup(data: Path, folder: Path, tell: Tell) -> bool:
    """Let the process that holds the folder `data` make a backup in `folder`, an absolute path;
    False where there is no such process.

    Raises `Unavailable` with its words.
    """
    try:
        with _short(data) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=ARCHIVE_ORDER_BYTES_MAX)
    except OSError:  # no folder, no socket, or nobody behind it
        return False
    try:
        writer.write(msgspec.json.encode(Order(str(folder))) + b"\n")
        while line := await reader.readline():
            message = _messages.decode(line)
            if message.error is not None:
                raise Unavailable(message.error)
            if message.done:
                return True
            tell(message.line)
        raise Unavailable("the server ended while it made the backup: start it, and begin anew")
    finally:
        writer.close()
