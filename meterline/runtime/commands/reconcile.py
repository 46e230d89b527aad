"""`meterline reconcile`: compare what a receiver booked with what it was sent, for its own side."""

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any, Final, TextIO

import aiohttp
import click
from rich.console import Console
from rich.progress import Progress, TextColumn

from meterline.runtime.commands.asking import (
    SERVER,
    AskingFailed,
    api_key_option,
    authorization,
    fail,
    instant,
    progress,
)
from meterline.runtime.commands.booked import Unreadable, bookings
from meterline.runtime.commands.pulling import Puller
from meterline.runtime.commands.reconciliation import (
    Booking,
    Difference,
    DifferenceKind,
    Elsewhere,
    Reconciliation,
    Scope,
    SentDelivery,
    reconcile,
    standing,
    unknown,
)
from meterline.window import rfc3339

EXIT_DIFFERS: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_MADE: Final = 3
SECRET_VARIABLE: Final = "METERLINE_RECEIVE_SECRET"  # noqa: S105 - its name, as `receive` has it
LOOKED_UP_MAX: Final = 200  # ids whose place is asked for, one request each


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    server: str
    report: str
    secret: str | None
    api_key: str | None
    from_ms: int | None
    to_ms: int | None


async def compare(booked: list[Booking], asked: Asked, bar: Progress) -> Reconciliation:
    """Pull everything that was asked for and compare. Raises `AskingFailed`."""
    async with aiohttp.ClientSession(headers=authorization(asked.api_key)) as session:
        puller = Puller(session, asked.server, asked.report, asked.secret)
        return await _compared(booked, puller, asked.from_ms, asked.to_ms, bar)


async def _compared(
    booked: list[Booking],
    puller: Puller,
    from_ms: int | None,
    to_ms: int | None,
    bar: Progress,
) -> Reconciliation:
    task = bar.add_task("pulling", total=None)
    bounds = (("from", from_ms), ("to", to_ms))
    window = {name: rfc3339(at_ms) for name, at_ms in bounds if at_ms is not None}
    scope = Scope(await puller.names(), from_ms, to_ms)
    sent: list[SentDelivery] = []
    async for page in puller.pages(window):
        sent += page
        bar.update(task, completed=len(sent))
    elsewhere: dict[str, Elsewhere | None] = {}
    for name in unknown(booked, sent, scope)[:LOOKED_UP_MAX]:
        elsewhere[name] = await puller.elsewhere(name)
    return reconcile(booked, sent, scope, elsewhere)


def summary(found: Reconciliation) -> dict[str, int]:
    """Its figures."""
    kinds = {kind.value: found.count(kind) for kind in DifferenceKind}
    rest = {"replaced": found.replaced, "outside": found.outside}
    return {"sent": found.sent, "equal": found.equal, **kinds, **rest}


def document(found: Reconciliation) -> dict[str, Any]:
    """All of it, for `--json`."""
    return {"summary": summary(found), "differences": [_shown(one) for one in found.differences]}


def _shown(one: Difference) -> dict[str, str]:
    members = {
        "kind": one.kind.value,
        "delivery_id": one.delivery_id,
        "subject": one.subject,
        "from": None if one.from_ms is None else rfc3339(one.from_ms),
        "to": None if one.to_ms is None else rfc3339(one.to_ms),
        "booked": one.booked,
        "sent": one.sent,
        "cause": one.cause,
    }
    return {name: value for name, value in members.items() if value}


def summary_of(found: Reconciliation) -> str:
    """Its figures, for people."""
    lines = [f"{found.sent:,} deliveries, {found.equal:,} booked as sent."]
    if found.replaced:
        lines.append(f"{found.replaced:,} superseded deliveries are not booked: this is correct.")
    if found.outside:
        lines.append(f"{found.outside:,} bookings are for other reports or windows: not compared.")
    counts = [(kind, found.count(kind)) for kind in DifferenceKind]
    by_kind = ", ".join(f"{count:,} {kind.value}" for kind, count in counts if count)
    lines.append(f"Differences: {by_kind}." if by_kind else "No differences.")
    return "\n".join(lines)


@click.command("reconcile")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--server", default=SERVER, show_default=True, help="Its address.")
@click.option("--report", required=True, help="Id or slug of the report.")
@click.option("--from", "from_ms", callback=instant, help="Only windows that start from then on.")
@click.option("--to", "to_ms", callback=instant, help="Only windows that end by then.")
@click.option(
    "--secret",
    envvar=SECRET_VARIABLE,
    help="Signing secret of the report: verifies the signature of each delivery. Set it in"
    f" {SECRET_VARIABLE}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
@api_key_option("reports:read")
def reconcile_booked(
    file: TextIO,
    server: str,
    report: str,
    from_ms: int | None,
    to_ms: int | None,
    secret: str | None,
    as_json: bool,  # noqa: FBT001 - the command line's flag
    api_key: str | None,
) -> None:
    """Compare what a receiver booked with what was sent to it. Print a line for each difference.

    FILE has one booking per line (- is standard input): CSV with a header line, or NDJSON. Each
    has delivery_id, and any of value, report, subject, from, to, revision, digest, sha256.
    Exit codes: 0 no difference, 1 differences, 2 wrong usage, 3 the comparison failed.
    """
    asked = Asked(server.rstrip("/"), report, secret, api_key, from_ms, to_ms)
    console = Console(stderr=True)
    try:
        booked = standing(bookings(file))
        with progress(console, TextColumn("{task.completed:,} deliveries")) as bar:
            found = asyncio.run(compare(booked, asked, bar))
    except (Unreadable, UnicodeDecodeError) as error:
        fail("reconcile", f"{file.name}: {error}", EXIT_USAGE)
    except AskingFailed as error:
        fail("reconcile", error, EXIT_NOT_MADE)
    if as_json:
        click.echo(json.dumps(document(found), ensure_ascii=False, indent=2))
    else:
        for one in found.differences:
            click.echo(one.line)
    click.echo(summary_of(found), err=True)
    if found.differences:
        sys.exit(EXIT_DIFFERS)
