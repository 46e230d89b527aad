"""`meterline audit`: follow an audit through a server, to its end.

It works the same on both set-ups: embedded, one process holds the folder, so the server is asked.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from meterline.runtime.commands.asking import (
    RETRY_DELAY_S,
    SERVER,
    V3,
    AskingFailed,
    api_key_option,
    ask,
    authorization,
    fail,
    instant,
    progress,
)
from meterline.window import rfc3339

EXIT_DIFFERS: Final = 1
EXIT_NOT_MADE: Final = 3
STEP_TIMEOUT_S: Final = 900  # a slice that is mended has its table rewritten
_COUNTED: Final = "{task.completed:,}/{task.total} slices and runs, {task.fields[found]} differ"


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
        message = f"expected {self.expected}; found {self.found}{mended}"
        return f"{self.table} {self.place}: {self.name}: {message}"


class Checked(msgspec.Struct):
    """What a step looked at."""

    slices: int = 0
    events: int = 0
    cells: int = 0
    recounted_by_fold: int = 0
    not_filled_in: int = 0
    not_kept: int = 0
    erased: int = 0
    moving: int = 0
    blocks: int = 0
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


_steps: Final = msgspec.json.Decoder(Step)


@dataclass(slots=True)
class Outcome:
    """What came of an audit."""

    checked: Checked = field(default_factory=Checked)
    differences: int = 0
    mended: int = 0

    @property
    def message(self) -> str:
        """It in a few lines."""
        seen = self.checked
        lines = [f"{seen.events:,} events in {seen.slices:,} slices, {seen.cells:,} cells."]
        if seen.blocks:
            lines.append(f"{seen.blocks:,} blocks of sums by hour and day.")
        if seen.runs:
            lines.append(f"Runs: {seen.runs:,}, with deliveries: {seen.deliveries:,}.")
        if seen.recounted_by_fold:
            message = "were recounted without SQL, because SQL cannot read their values exactly."
            lines.append(f"{seen.recounted_by_fold:,} slices of meters {message}")
        if seen.not_filled_in:
            lines.append(f"{seen.not_filled_in:,} slices of meters are not backfilled yet.")
        if seen.not_kept:
            message = "slices were not recounted, because their events are not kept any more."
            lines.append(f"{seen.not_kept:,} {message}")
        if seen.erased:
            lines.append(f"{seen.erased:,} events of erased subjects cannot be recounted.")
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
    """The steps of an audit. Raises `AskingFailed`."""
    url, asked = f"{server}{V3}/audit", body
    while True:
        answer = await ask(session, "POST", url, STEP_TIMEOUT_S, retry_delay_s, json=asked)
        try:
            step = _steps.decode(answer)
        except msgspec.DecodeError as error:
            raise AskingFailed(f"{url} did not answer as Meterline does: {error}") from error
        yield step
        if step.next is None:
            return
        asked = {**body, "after": step.next}


async def run(server: str, body: dict[str, object], api_key: str | None, bar: Progress) -> Outcome:
    """Make the whole audit; a line on stdout for each difference. Raises `AskingFailed`."""
    outcome = Outcome()
    task = bar.add_task("auditing", total=None, found=0)
    async with aiohttp.ClientSession(headers=authorization(api_key)) as session:
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


@click.command("audit")
@click.option("--server", default=SERVER, show_default=True, help="Its address.")
@click.option("--from", "from_", callback=instant, help="Only events that arrived from then on.")
@click.option("--to", callback=instant, help="Only events that arrived before then.")
@click.option("--payloads", is_flag=True, help="Also hash the contents of every event (slow).")
@click.option("--repair", is_flag=True, help="Rebuild rows that differ from the raw events.")
@click.option("--quiet", is_flag=True, help="Print differences only.")
@api_key_option("operate")
def audit(
    server: str,
    from_: int | None,
    to: int | None,
    quiet: bool,  # noqa: FBT001 - the command line's flags
    payloads: bool,  # noqa: FBT001
    repair: bool,  # noqa: FBT001
    api_key: str | None,
) -> None:
    """Recount everything that is stored, and print what differs.

    The audit compares tallies with the raw events, and sums by hour and day with the tallies. It
    compares rows with accounts, seals and log, and deliveries with their digests. It changes
    nothing without --repair. Exit codes: 0 no difference, 1 differences (repaired or not), 2 wrong
    usage, 3 the audit failed.
    """
    body: dict[str, object] = {"payloads": payloads, "repair": repair}
    bounds = (("from", from_), ("to", to))
    body |= {name: rfc3339(at_ms) for name, at_ms in bounds if at_ms is not None}
    console = Console(stderr=True, quiet=quiet)
    columns = BarColumn(), TextColumn(_COUNTED)
    try:
        with progress(console, *columns) as bar:
            outcome = asyncio.run(run(server.rstrip("/"), body, api_key, bar))
    except AskingFailed as error:
        fail("audit", error, EXIT_NOT_MADE)
    if not quiet:
        click.echo(outcome.message, err=True)
    if outcome.differences:
        sys.exit(EXIT_DIFFERS)
