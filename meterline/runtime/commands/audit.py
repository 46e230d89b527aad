"""`meterline audit`: follow an audit through a server, to its end.

It works the same on both set-ups: embedded, one process holds the folder, so the server is asked.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from meterline.runtime.commands.send.command import API_KEY_VARIABLE
from meterline.window import parse_instant, rfc3339

EXIT_DIFFERS: Final = 1
EXIT_NOT_MADE: Final = 3
AUDIT_PATH: Final = "/api/v3/metering/audit"
STEP_TIMEOUT_S: Final = 900  # a slice that is mended has its table rewritten
TRIES_MAX: Final = 5
RETRY_DELAY_S: Final = 2
OK: Final = 200
SERVER_FAULTS: Final = 500


class NotMade(Exception):
    """The audit could not be made, or not to its end."""


class Finding(msgspec.Struct):
    """A difference, as the server shows it."""

    table: str
    place: str
    name: str
    expected: str
    found: str
    mended: bool

    @property
    def line(self) -> str:
        """It in a line."""
        mended = " (mended)" if self.mended else ""
        words = f"expected {self.expected}; found {self.found}{mended}"
        return f"{self.table} {self.place}: {self.name}: {words}"


class Checked(msgspec.Struct):
    """What a step looked at."""

    slices: int = 0
    events: int = 0
    cells: int = 0
    recounted_by_fold: int = 0
    not_filled_in: int = 0
    moving: int = 0
    runs: int = 0
    deliveries: int = 0

    def add(self, other: "Checked") -> None:
        """Both together."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Step(msgspec.Struct):
    """A step's answer, as far as it is read here."""

    findings: list[Finding]
    omitted: int
    checked: Checked
    slices_total: int
    runs_total: int
    next: str | None


@dataclass(slots=True)
class Outcome:
    """What came of an audit."""

    checked: Checked = field(default_factory=Checked)
    differences: int = 0
    mended: int = 0

    @property
    def words(self) -> str:
        """It in a few lines."""
        seen = self.checked
        lines = [f"{seen.events:,} events in {seen.slices:,} slices, {seen.cells:,} cells."]
        if seen.runs:
            lines.append(f"{seen.deliveries:,} deliveries of {seen.runs:,} runs.")
        if seen.recounted_by_fold:
            words = "were recounted without SQL, because SQL cannot read their values exactly."
            lines.append(f"{seen.recounted_by_fold:,} slices of meters {words}")
        if seen.not_filled_in:
            lines.append(f"{seen.not_filled_in:,} slices of meters are not backfilled yet.")
        if self.differences:
            lines.append(f"{self.differences:,} differences, {self.mended:,} of them mended.")
        else:
            lines.append("Clean: no differences.")
        return "\n".join(lines)


async def follow(
    session: aiohttp.ClientSession,
    server: str,
    body: dict[str, object],
    retry_delay_s: float = RETRY_DELAY_S,
) -> AsyncIterator[Step]:
    """The steps of an audit. Raises `NotMade`."""
    cursor: str | None = None
    while True:
        asked = body if cursor is None else {**body, "after": cursor}
        step = await _step(session, server + AUDIT_PATH, asked, retry_delay_s)
        yield step
        cursor = step.next
        if cursor is None:
            return


async def _step(
    session: aiohttp.ClientSession, url: str, body: dict[str, object], retry_delay_s: float
) -> Step:
    words = ""
    for tries in range(TRIES_MAX):
        if tries:
            await asyncio.sleep(retry_delay_s * tries)
        try:
            timeout = aiohttp.ClientTimeout(total=STEP_TIMEOUT_S)
            async with session.post(url, json=body, timeout=timeout) as response:
                said, code = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = f"{url}: {str(error) or type(error).__name__}"
            continue
        if code == OK:
            try:
                return msgspec.json.decode(said, type=Step)
            except msgspec.DecodeError as error:
                raise NotMade(f"{url} did not answer as Meterline does: {error}") from error
        words = f"{url} answered {code}: {_detail(said)}"
        if code < SERVER_FAULTS:
            break
    raise NotMade(words)


def _detail(said: bytes) -> str:
    try:
        return str(msgspec.json.decode(said, type=dict[str, Any]).get("detail", ""))
    except msgspec.DecodeError:
        return said[:200].decode(errors="replace")


async def run(server: str, body: dict[str, object], api_key: str | None, bar: Progress) -> Outcome:
    """Make the whole audit; a line on stdout for each difference. Raises `NotMade`."""
    outcome = Outcome()
    task = bar.add_task("auditing", total=None, found=0)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        async for step in follow(session, server, body):
            outcome.checked.add(step.checked)
            outcome.differences += len(step.findings) + step.omitted
            outcome.mended += sum(one.mended for one in step.findings)
            for one in step.findings:
                click.echo(one.line)
            if step.omitted:
                click.echo(f"... and {step.omitted:,} more differences there")
            done = outcome.checked.slices + outcome.checked.runs
            total = max(done, step.slices_total + step.runs_total)
            bar.update(task, total=total, completed=done, found=outcome.differences)
    return outcome


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total} slices and runs, {task.fields[found]} differ"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _instant(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return rfc3339(parse_instant(text))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from error


@click.command("audit")
@click.option("--server", default="http://127.0.0.1:8888", show_default=True, help="Its address.")
@click.option("--from", "from_", callback=_instant, help="Only events that arrived from then on.")
@click.option("--to", callback=_instant, help="Only events that arrived before then.")
@click.option("--payloads", is_flag=True, help="Also hash the contents of every event (slow).")
@click.option("--repair", is_flag=True, help="Rebuild rows that differ from the raw events.")
@click.option("--quiet", is_flag=True, help="Print differences only.")
@click.option(
    "--api-key",
    envvar=API_KEY_VARIABLE,
    help=f"API key with the scope operate. Set it in {API_KEY_VARIABLE}: other users of this"
    " machine can see command lines.",
)
def audit(
    server: str,
    from_: str | None,
    to: str | None,
    quiet: bool,  # noqa: FBT001 - the command line's flags
    payloads: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
    api_key: str | None,
) -> None:
    """Recount everything that is stored, and print a line for each difference.

    The audit compares tallies with the raw events, rows with accounts, seals and log, and
    deliveries with their digests. It changes nothing without --repair. Exit codes: 0 no
    difference, 1 differences (repaired or not), 2 wrong usage, 3 the audit failed.
    """
    body: dict[str, object] = {"payloads": payloads, "repair": repair}
    body |= {name: at for name, at in (("from", from_), ("to", to)) if at is not None}
    console = Console(stderr=True, quiet=quiet)
    try:
        with _bar(console) as bar:
            outcome = asyncio.run(run(server.rstrip("/"), body, api_key, bar))
    except NotMade as error:
        click.echo(f"meterline audit: {error}", err=True)
        sys.exit(EXIT_NOT_MADE)
    if not quiet:
        click.echo(outcome.words, err=True)
    if outcome.differences:
        sys.exit(EXIT_DIFFERS)
