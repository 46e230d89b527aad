"""`meterline send`: CloudEvents from a file or a pipe to a server, as fast as it takes them."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import aiohttp
import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from meterline.backends.clock import SystemClock
from meterline.limits import BATCH_EVENTS_MAX
from meterline.ports import Clock
from meterline.runtime.commands.send.batches import (
    Batch,
    InputError,
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
EVENTS_PATH: Final = "/api/v3/metering/events"
STATUS_PATH: Final = "/api/v3/metering/status"
API_KEY_VARIABLE: Final = "METERLINE_API_KEY"


@dataclass(frozen=True, slots=True)
class Input:
    """What to read and how: NDJSON, or CSV where there are entries of a mapping."""

    source: BinaryIO
    name: str
    bytes: int | None  # None for a pipe
    entries: Sequence[Entry] = ()
    nulls: Sequence[str] = ("",)
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to send, and how."""

    server: str
    status_server: str
    batch: int
    in_flight: int
    compressed: bool
    patience_s: int
    wait: bool
    wait_s: int
    api_key: str | None = field(default=None, repr=False)


class NotCounted(Exception):
    """Everything was accepted, and it is not known that everything counts."""


async def send_all(given: Input, plan: Plan, clock: Clock, bar: Bar) -> str:
    """Send the whole input and, if asked to, wait until it counts. Returns the summary.

    Raises `InputError`, `Refused`, `Unreachable` (with what was accepted until then), `NotCounted`.
    """
    lines = (
        csv_lines(given.source, given.entries, given.nulls, given.delimiter)
        if given.entries
        else ndjson_lines(given.source)
    )
    source = batches(lines, given.source, plan.batch, BATCH_BYTES_MAX)
    with closing(lines), closing(source):
        return await _send_batches(source, given, plan, clock, bar)


async def _send_batches(
    source: Iterator[Batch], given: Input, plan: Plan, clock: Clock, bar: Bar
) -> str:
    task = bar.add_task("sending", total=given.bytes, events=0)

    def told(progress: Progress) -> None:
        bar.update(task, completed=progress.read, events=progress.events)

    terms = Terms(
        plan.server + EVENTS_PATH, plan.in_flight, plan.patience_s * 1_000, plan.compressed
    )
    started_ms = clock.now_ms()
    connector = aiohttp.TCPConnector(limit=plan.in_flight)
    headers = {"Authorization": f"Bearer {plan.api_key}"} if plan.api_key else {}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        sender = Sender(session, terms, clock, told)
        try:
            await sender.send(source)
        except (InputError, Refused, Unreachable) as error:
            accepted = f"{sender.progress.events:,} events were accepted before. {SAFE}"
            raise type(error)(f"{given.name}: {error}\n{accepted}") from error
        sent_ms = clock.now_ms()
        summary = _summary(sender.progress, sent_ms - started_ms)
        if plan.wait:
            bar.update(task, description="waiting until all are counted")
            await wait_until_counted(session, plan, clock)
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


async def wait_until_counted(session: aiohttp.ClientSession, plan: Plan, clock: Clock) -> None:
    """Ask until everything that was accepted counts in every meter. Raises `NotCounted`."""
    url = plan.status_server + STATUS_PATH
    deadline_ms = clock.now_ms() + plan.wait_s * 1_000
    while True:
        caught_up, words = await _ask(session, url)
        if caught_up:
            return
        if clock.now_ms() > deadline_ms:
            raise NotCounted(f"not all events were counted after {plan.wait_s} s: {words}")
        await asyncio.sleep(POLL_S)


async def _ask(session: aiohttp.ClientSession, url: str) -> tuple[bool, str]:
    timeout = aiohttp.ClientTimeout(total=POLL_TIMEOUT_S)
    try:
        async with session.get(url, timeout=timeout) as response:
            said = await response.read()
            code = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return False, f"{url}: {str(error) or type(error).__name__}"
    if 400 <= code < 500:  # noqa: PLR2004 - the class of errors that stay
        raise NotCounted(f"{url} answered {code}: name the control server with --status")
    if code != 200:  # noqa: PLR2004 - the one good answer
        return False, f"{url} answered {code}"
    try:
        status = msgspec.json.decode(said, type=Status)
    except msgspec.DecodeError as error:
        raise NotCounted(f"{url} did not answer as Meterline does: {error}") from error
    if status.caught_up is None:
        return False, "a store of the server does not respond"
    return status.caught_up, f"{status.lag_records} records of the log are not counted yet"


def _bar(console: Console) -> Bar:
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=False),
        TextColumn("{task.fields[events]:,} events"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


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
    def plan(self) -> Plan:
        """Where and how to send."""
        server = self.server.rstrip("/")
        return Plan(
            server,
            (self.status_server or server).rstrip("/"),
            self.batch,
            self.in_flight,
            self.compressed,
            self.patience_s,
            self.wait,
            self.wait_s,
            self.api_key,
        )

    @contextmanager
    def opened(self) -> Iterator[Input]:
        """The input, closed afterwards. Raises `MappingError`."""
        entries = parse_mapping(self.mapping)
        if self.file.endswith(".csv") and not entries:
            raise MappingError("a CSV file needs a mapping: see meterline send --help")
        if self.file == "-":
            stdin = click.get_binary_stream("stdin")
            yield Input(stdin, "standard input", None, entries, self.nulls, self.delimiter)
            return
        path = Path(self.file)
        with path.open("rb") as source:
            size = path.stat().st_size if path.is_file() else None
            yield Input(source, self.file, size, entries, self.nulls, self.delimiter)


@click.command("send")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--to", "server", default="http://127.0.0.1:8888", show_default=True, help="Address.")
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
@click.option(
    "--api-key",
    envvar=API_KEY_VARIABLE,
    help="API key with the scope events:write, and with --wait also status:read. Set it in"
    f" {API_KEY_VARIABLE}: other users of this machine can see command lines.",
)
def send(**given: Any) -> None:
    """Send the events of FILE: CloudEvents, one JSON object per line, or the rows of a CSV file.

    - is standard input. Temporary errors are retried, after Retry-After. You can send the same file
    again: duplicates are never counted. Exit codes: 1 refused, 2 wrong usage, 3 the server does
    not respond, 4 sent, but with --wait not all events were counted in time.
    """
    options = Options(**given)
    if len(options.delimiter) != 1:
        raise click.BadParameter("must be one character", param_hint="--delimiter")
    console = Console(stderr=True, quiet=options.quiet)
    try:
        with options.opened() as opened, _bar(console) as bar:
            summary = asyncio.run(send_all(opened, options.plan, SystemClock(), bar))
    except MappingError as error:
        raise click.BadParameter(str(error), param_hint="--map") from error
    except (InputError, Refused) as error:
        _fail(str(error), EXIT_REFUSED)
    except Unreachable as error:
        _fail(str(error), EXIT_UNREACHABLE)
    except NotCounted as error:
        _fail(str(error), EXIT_NOT_COUNTED)
    else:
        if not options.quiet:
            click.echo(summary)


def _fail(words: str, code: int) -> None:
    click.echo(f"meterline send: {words}", err=True)
    sys.exit(code)
