"""`meterline send`: CloudEvents from a file or a pipe to a server, as fast as it takes them."""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import aiohttp
import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar

from meterline.backends.clock import SystemClock
from meterline.limits import BATCH_EVENTS_MAX
from meterline.ports import Clock
from meterline.runtime.commands.asking import (
    SERVER,
    V3,
    api_key_option,
    authorization,
    fail,
    failed_message,
    progress,
)
from meterline.runtime.commands.send.batches import (
    Batch,
    InputError,
    Line,
    batches,
    csv_lines,
    ndjson_lines,
)
from meterline.runtime.commands.send.mapping import Entry, MappingError, parse_mapping
from meterline.runtime.commands.send.posts import (
    SAFE,
    Progress,
    Refused,
    Sender,
    Terms,
    Unreachable,
)

EXIT_REFUSED: Final = 1  # the input or what the server says of it
EXIT_UNREACHABLE: Final = 3
EXIT_NOT_COUNTED: Final = 4
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024  # well below what a server takes in one body
IN_FLIGHT_MAX: Final = 64
POLL_S: Final = 0.2
POLL_TIMEOUT_S: Final = 10
_COUNTED: Final = "{task.fields[events]:,} events"


@dataclass(frozen=True, slots=True)
class Input:
    """What to read: the events of a source, which are closed after it."""

    source: BinaryIO
    name: str
    bytes: int | None  # None for a pipe
    lines: Generator[Line]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    file: str
    mapping: tuple[str, ...]
    nulls: tuple[str, ...]
    delimiter: str
    server: str
    status_server: str | None
    batch: int
    in_flight: int
    compressed: bool
    patience_s: int
    wait: bool
    wait_s: int
    quiet: bool
    api_key: str | None = field(repr=False)

    @property
    def events_url(self) -> str:
        """Where events are sent to."""
        return f"{self.server.rstrip('/')}{V3}/events"

    @property
    def status_url(self) -> str:
        """Where it is asked how far they count."""
        return f"{(self.status_server or self.server).rstrip('/')}{V3}/status"

    @contextmanager
    def opened(self) -> Iterator[Input]:
        """The input, closed afterwards. Raises `MappingError`."""
        entries = parse_mapping(self.mapping)
        if self.file.endswith(".csv") and not entries:
            raise MappingError("a CSV file needs a mapping: see meterline send --help")
        if self.file == "-":
            stdin = click.get_binary_stream("stdin")
            yield Input(stdin, "standard input", None, self._lines(stdin, entries))
            return
        path = Path(self.file)
        with path.open("rb") as source:
            size = path.stat().st_size if path.is_file() else None
            yield Input(source, self.file, size, self._lines(source, entries))

    def _lines(self, source: BinaryIO, entries: Sequence[Entry]) -> Generator[Line]:
        if entries:
            return csv_lines(source, entries, self.nulls, self.delimiter)
        return ndjson_lines(source)


class NotCounted(Exception):
    """Everything was accepted, and it is not known that everything counts."""


async def send_all(given: Input, options: Options, clock: Clock, bar: Bar) -> str:
    """Send the whole input and, if asked to, wait until it counts. Returns the summary.

    Raises `InputError`, `Refused`, `Unreachable` (with what was accepted until then), `NotCounted`.
    """
    source = batches(given.lines, given.source, options.batch, BATCH_BYTES_MAX)
    with closing(given.lines), closing(source):
        return await _send_batches(source, given, options, clock, bar)


async def _send_batches(
    source: Iterator[Batch], given: Input, options: Options, clock: Clock, bar: Bar
) -> str:
    task = bar.add_task("sending", total=given.bytes, events=0)

    def show_progress(sent: Progress) -> None:
        bar.update(task, completed=sent.read, events=sent.events)

    patience_ms = options.patience_s * 1_000
    terms = Terms(options.events_url, options.in_flight, patience_ms, options.compressed)
    started_ms = clock.now_ms()
    connector = aiohttp.TCPConnector(limit=options.in_flight)
    headers = authorization(options.api_key)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        sender = Sender(session, terms, clock, show_progress)
        try:
            await sender.send(source)
        except (InputError, Refused, Unreachable) as error:
            accepted = f"{sender.progress.events:,} events were accepted before. {SAFE}"
            raise type(error)(f"{given.name}: {error}\n{accepted}") from error
        sent_ms = clock.now_ms()
        summary = _summary(sender.progress, sent_ms - started_ms)
        if options.wait:
            bar.update(task, description="waiting until all are counted")
            await wait_until_counted(session, options, clock)
            summary += f"\nAll were counted {(clock.now_ms() - sent_ms) / 1000:.1f} s later."
    return summary


def _summary(progress: Progress, took_ms: int) -> str:
    took_s = max(took_ms, 1) / 1000
    again = f", {progress.retries:,} retries" if progress.retries else ""
    noun = "request" if progress.requests == 1 else "requests"
    return (
        f"{progress.events:,} events in {progress.requests:,} {noun}{again}: "
        f"{took_s:.1f} s, {progress.events / took_s:,.0f} events/s."
    )


class Status(msgspec.Struct):
    """The server's status, as far as it is read here."""

    caught_up: bool | None = None
    lag_records: int | None = None


_statuses: Final = msgspec.json.Decoder(Status)


async def wait_until_counted(
    session: aiohttp.ClientSession, options: Options, clock: Clock
) -> None:
    """Ask until everything that was accepted counts in every meter. Raises `NotCounted`."""
    deadline_ms = clock.now_ms() + options.wait_s * 1_000
    while True:
        caught_up, message = await _ask(session, options.status_url)
        if caught_up:
            return
        if clock.now_ms() > deadline_ms:
            raise NotCounted(f"not all events were counted after {options.wait_s} s: {message}")
        await asyncio.sleep(POLL_S)


async def _ask(session: aiohttp.ClientSession, url: str) -> tuple[bool, str]:
    timeout = aiohttp.ClientTimeout(total=POLL_TIMEOUT_S)
    try:
        async with session.get(url, timeout=timeout) as response:
            body = await response.read()
            code = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return False, f"{url}: {failed_message(error)}"
    if 400 <= code < 500:  # noqa: PLR2004 - the class of errors that stay
        raise NotCounted(f"{url} answered {code}: name the control server with --status")
    if code != 200:  # noqa: PLR2004 - the one good answer
        return False, f"{url} answered {code}"
    try:
        status = _statuses.decode(body)
    except msgspec.DecodeError as error:
        raise NotCounted(f"{url} did not answer as Meterline does: {error}") from error
    if status.caught_up is None:
        return False, "a store of the server does not respond"
    return status.caught_up, f"{status.lag_records} records of the log are not counted yet"


@click.command("send")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--to", "server", default=SERVER, show_default=True, help="Address.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    help="Required for CSV: how a row becomes an event. Entries are target=column[:type] or "
    "target='text {column}', separated by commas. Targets: id, source, type, subject, time, "
    "data.NAME. Types: string, number, boolean, json, time, unix, unix_ms. {#} is the row number. "
    "Example: id='{date}-{flight}',source='airport',type='flight',subject=carrier,"
    "time=time_hour:time,data.distance=distance:number",
)
@click.option(
    "--null",
    "nulls",
    multiple=True,
    default=("",),
    help="Text of a cell that means null. Repeat it for several. [default: the empty cell]",
)
@click.option("--delimiter", default=",", show_default=True, help="Character between CSV cells.")
@click.option(
    "--batch",
    type=click.IntRange(1, BATCH_EVENTS_MAX),
    default=500,
    show_default=True,
    help="Events per request.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, IN_FLIGHT_MAX),
    default=4,
    show_default=True,
    help="Requests at the same time.",
)
@click.option("--gzip", "compressed", is_flag=True, help="Compress requests.")
@click.option(
    "--give-up-after",
    "patience_s",
    type=click.IntRange(min=0),
    default=300,
    show_default=True,
    help="How many seconds a request is retried if the server fails or does not respond.",
)
@click.option("--wait", is_flag=True, help="Wait until all events are counted in every meter.")
@click.option(
    "--wait-for",
    "wait_s",
    type=click.IntRange(min=0),
    default=300,
    show_default=True,
    help="With --wait: the longest wait, in seconds.",
)
@click.option("--status", "status_server", help="Address of the control server. [default: --to]")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@api_key_option("events:write, and with --wait also status:read")
def send(**given: Any) -> None:
    """Send the events of FILE, from NDJSON or CSV.

    FILE has CloudEvents, one JSON object per line, or is a CSV file with a --map. - is standard
    input. Temporary errors are retried, after Retry-After. You can send the same file again:
    duplicates are never counted. Exit codes: 1 refused, 2 wrong usage, 3 the server does not
    respond, 4 sent, but with --wait not all events were counted in time.
    """
    options = Options(**given)
    if len(options.delimiter) != 1:
        raise click.BadParameter("must be one character", param_hint="--delimiter")
    console = Console(stderr=True, quiet=options.quiet)
    columns = BarColumn(), TaskProgressColumn(show_speed=False), TextColumn(_COUNTED)
    try:
        with options.opened() as opened, progress(console, *columns) as bar:
            summary = asyncio.run(send_all(opened, options, SystemClock(), bar))
    except MappingError as error:
        raise click.BadParameter(str(error), param_hint="--map") from error
    except (InputError, Refused) as error:
        fail("send", error, EXIT_REFUSED)
    except Unreachable as error:
        fail("send", error, EXIT_UNREACHABLE)
    except NotCounted as error:
        fail("send", error, EXIT_NOT_COUNTED)
    else:
        if not options.quiet:
            click.echo(summary)
