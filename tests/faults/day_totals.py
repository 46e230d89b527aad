"""What a day came to: the product's totals beside those of the generator, and the audit."""

import os
import subprocess
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tests.faults.day_events import HOUR_MS, HOURS, METERS, Day, DayOracle
from tests.journey.client import Server
from tests.journey.processes import PROGRAM
from tests.nursery.forked import ROOT

AUDIT_WITHIN_S: Final = 7_200.0


def compared(api: Server, day: Day) -> list[str]:
    """What differs between the totals and those of the columns, in words."""
    oracle = DayOracle(day)
    account = api.get("/api/v3/metering/status").json["account"]
    found = []
    if account["new"] != oracle.identities:
        found.append(f"account: {account['new']:,} new, expected {oracle.identities:,}")
    if account["received"] != account["new"] + account["duplicate"]:
        found.append(f"account: {account}")
    if account["duplicate"] < day.events - oracle.identities:
        found.append(f"account: {account['duplicate']:,} copies")
    return found + [words for meter in METERS for words in _figures(api, day, oracle, meter)]


def _figures(api: Server, day: Day, oracle: DayOracle, meter: dict[str, Any]) -> Iterator[str]:
    key, dimensions = meter["key"], list(meter.get("dimensions", ()))
    asked = {
        "from": _instant(day.first_hour),
        "to": _instant(day.first_hour + HOURS),
        "granularity": "PT1H",
        "group_by_dimensions": ["subject", *dimensions],
    }
    answer = api.ask("POST", f"/api/v3/metering/meters/{key}/query", asked)
    assert answer.status == 200, f"{key}: {answer.status} {answer.body[:500]!r}"
    scale = 1 if key == "events" else 1_000
    shown = {
        (row["from"], *(row["dimensions"][name] for name in ("subject", *dimensions))): (
            Fraction(row["value"]) * scale,
            row["counted"],
            row["rejected"],
        )
        for row in answer.json["data"]
    }
    wanted = {
        _named(cell, key, day): (Fraction(value), counted, rejected)
        for cell, (value, counted, rejected) in oracle.cells(key)
    }
    for cell in sorted(wanted.keys() | shown.keys()):
        if wanted.get(cell) != shown.get(cell):
            yield f"{key} {cell}: expected {wanted.get(cell)}, found {shown.get(cell)}"


def _named(cell: tuple[int, ...], key: str, day: Day) -> tuple[str, ...]:
    hour, subject, *region = cell
    names = (_instant(day.first_hour + hour), f"s-{subject}")
    return (*names, f"r-{region[0]}") if key == "amounts" else names


def _instant(hour: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(hour * HOUR_MS // 1_000))


def audited(api: Server, folder: Path, console: Console) -> list[str]:
    """Run `meterline audit` against the API; what it finds."""
    command = [str(PROGRAM), "audit", "--server", api.url]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=AUDIT_WITHIN_S,
    )
    console.print(done.stdout, markup=False, highlight=False)
    return [f"the audit ended with code {done.returncode}"] if done.returncode else []
