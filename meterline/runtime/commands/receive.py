"""`meterline receive`: a receiver of deliveries, as the contract asks for one (4.5), for a look
at what arrives.

It verifies each delivery with the svix library before it reads it, answers 400 to a bad
signature or an unknown type and 405 to other methods than POST, and takes a delivery that comes
again for what it is.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import click
import msgspec
from aiohttp import web
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meterline.limits import DELIVERY_BODY_BYTES_MAX

MESSAGE_TYPE: Final = "report.meter"  # contract section 6
IDS_KEPT_MAX: Final = 1_000_000  # ids of deliveries by which copies are known
VALUES_SHOWN_MAX: Final = 4  # of one delivery, in its row
PIPED_WIDTH: Final = 200  # characters of a row in a file or a pipe
_WIDTHS: Final = {"report": 20, "from": 24, "to": 24, "subject": 20}


class Refused(Exception):
    """A request that is no delivery for us; the text says why. Answered with 400."""


@dataclass(frozen=True, slots=True)
class Received:
    """A verified delivery: its id, the exact bytes, and what they say."""

    id: str
    body: bytes
    members: Mapping[str, object]


def verified(secrets: Sequence[str], headers: Mapping[str, str], body: bytes) -> Received:
    """The delivery in a request, if one of the secrets signed it. Raises `Refused`."""
    # Imported when first used: the package takes 0.3 s, which every command would pay.
    from svix.webhooks import Webhook, WebhookVerificationError  # noqa: PLC0415

    named = {name.lower(): value for name, value in headers.items()}
    reason = "no secret"
    for secret in secrets:
        try:
            Webhook(secret).verify(body, named)
        # The library lets errors of its parsing through: bad base64, odd tokens, bytes that are no
        # text (Standard Webhooks). Each is a signature that does not verify.
        except (WebhookVerificationError, ValueError, OverflowError) as error:
            reason = str(error) or type(error).__name__
        else:
            name = named.get("svix-id") or named["webhook-id"]
            return Received(name, body, _members(body))
    raise Refused(f"the signature is invalid: {reason}")


def _members(body: bytes) -> Mapping[str, object]:
    try:
        members = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the body is not a JSON object: {error}") from error
    if members.get("type") != MESSAGE_TYPE:
        raise Refused(f"unknown type {members.get('type')!r}; expected {MESSAGE_TYPE!r}")
    return members


class Receiver:
    """The application of a receiver: hands each new delivery to `keep` before it answers 200."""

    def __init__(
        self,
        secrets: Sequence[str],
        keep: Callable[[Received], None],
        refuse: Callable[[str], None],
    ) -> None:
        self._secrets = tuple(secrets)
        self._keep = keep
        self._refuse = refuse
        self._ids: dict[str, None] = {}
        self.duplicates = 0

    def application(self) -> web.Application:
        """It takes deliveries at every path."""
        application = web.Application(client_max_size=DELIVERY_BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._receive)
        return application

    async def _receive(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            raise web.HTTPMethodNotAllowed(request.method, ["POST"])
        body = await request.read()
        try:
            received = verified(self._secrets, request.headers, body)
        except Refused as error:
            self._refuse(str(error))
            return web.json_response({"error": str(error)}, status=400)
        if received.id in self._ids:
            self.duplicates += 1
            return web.json_response({})
        self._keep(received)
        # After it is kept: a delivery whose keeping failed may come again.
        self._ids[received.id] = None
        if len(self._ids) > IDS_KEPT_MAX:
            del self._ids[next(iter(self._ids))]
        return web.json_response({})


class Printer:
    """Prints deliveries, one row each, and keeps their bodies in a file if there is one."""

    def __init__(self, console: Console, out: BinaryIO | None, count: int | None) -> None:
        self._console = console
        self._out = out
        self._count = count
        self._printed = 0
        self.done = asyncio.Event()

    def keep(self, received: Received) -> None:
        """Take one delivery."""
        if self._out is not None:
            # Line breaks in JSON text stand between tokens only: inside strings they are escaped.
            line = received.body.replace(b"\r", b" ").replace(b"\n", b" ")
            self._out.write(line + b"\n")
            self._out.flush()
        self._console.print(_row(received, header=not self._printed))
        self._printed += 1
        if self._printed == self._count:
            self.done.set()

    def refuse(self, reason: str) -> None:
        """Tell what was refused."""
        self._console.print(f"refused: {reason}", style="red", markup=False, highlight=False)


def _row(received: Received, *, header: bool) -> Table:
    members = received.members
    table = Table(box=None, show_header=header, pad_edge=False)
    for name, width in _WIDTHS.items():
        table.add_column(name, width=width, no_wrap=True, overflow="ellipsis")
    table.add_column("values", overflow="fold")
    table.add_row(
        _plain(_member(members, "report", "slug")),
        _plain(_member(members, "query", "from")),
        _plain(_member(members, "query", "to")),
        _plain(_member(members, "query", "subject")),
        _plain(_values(members.get("usage"))),
    )
    return table


def _plain(text: str) -> Text:
    # What others sent must be shown, not interpreted, neither by rich nor by the terminal.
    return Text("".join(one if one.isprintable() else "\ufffd" for one in text))


def _member(members: Mapping[str, object], outer: str, inner: str) -> str:
    value = members.get(outer)
    return str(value.get(inner, "")) if isinstance(value, dict) else ""


def _values(usage: object) -> str:
    entries = (
        [entry for entry in usage if isinstance(entry, dict)] if isinstance(usage, list) else []
    )
    shown = []
    for entry in entries[:VALUES_SHOWN_MAX]:
        value = str(entry.get("valueText", entry.get("value", "")))
        groups = entry.get("groupBy")
        named = ",".join(f"{k}={v}" for k, v in groups.items()) if isinstance(groups, dict) else ""
        shown.append(f"{value} ({named})" if named else value)
    more = len(entries) - len(shown)
    return "  ".join(shown) + (f"  and {more} more" if more else "")


def _checked(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    for secret in given:
        try:
            key = base64.b64decode(secret.removeprefix("whsec_") + "==", validate=False)
        except (binascii.Error, ValueError) as error:
            raise click.BadParameter("must be whsec_ and base64") from error
        if not key:
            raise click.BadParameter("is empty: it must be whsec_ and base64")
    return given


@click.command()
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    required=True,
    envvar="METERLINE_RECEIVE_SECRET",
    callback=_checked,
    help="Signing secret of a report (whsec_...). Repeat it for several reports.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9000, show_default=True, help="Port to listen on; 0: a free one.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many deliveries.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append each body to this file, one per line (NDJSON).",
)
def receive(
    secrets: tuple[str, ...], host: str, port: int, count: int | None, out: Path | None
) -> None:
    """Run a receiver: verify deliveries, and print them.

    It answers 200 to valid deliveries, and 400 to others. Ctrl-C stops it.
    """
    try:
        asyncio.run(_serve(secrets, host, port, count, out))
    except KeyboardInterrupt:
        return
    except OSError as error:
        raise click.ClickException(f"cannot receive: {error}") from error


async def _serve(
    secrets: Sequence[str], host: str, port: int, count: int | None, out: Path | None
) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    file = None if out is None else out.open("ab")
    printer = Printer(console, file, count)
    receiver = Receiver(secrets, printer.keep, printer.refuse)
    runner = web.AppRunner(receiver.application(), access_log=None)
    try:
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0][1]
        console.print(f"receiving on http://{host}:{bound}/", highlight=False)
        await printer.done.wait()
    finally:
        await runner.cleanup()
        if file is not None:
            file.close()
