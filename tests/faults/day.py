"""`python -m tests.faults.day`: a day of 10,000,000 events with 20 kills -9 on the way; then the
totals are compared with the generator's own columns, and the audit must be clean.
"""

import argparse
import http.client
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tests.faults.day_events import HOUR_MS, LATE_HOURS_MAX, METERS, START_MS, Day, DayOracle
from tests.faults.installation import Installation, installed, make_meters
from tests.faults.labels import LEASE_VARIABLE, SLICE_VARIABLE
from tests.faults.own_servers import own_servers
from tests.faults.senders import ACCEPTED, MEDIA, PATH
from tests.journey.client import Server
from tests.journey.processes import PROGRAM
from tests.nursery.forked import ROOT

EVENTS: Final = 10_000_000
BATCH: Final = 2_000
SENDERS: Final = 2
AHEAD: Final = 8  # of the day, one part in so many may be sent and not counted yet
ANSWER_WITHIN_S: Final = 30.0
STANDS_STILL_S: Final = 300.0
AUDIT_WITHIN_S: Final = 7_200.0
# How the product comes: nothing is shortened.
AS_IT_COMES: Final = {
    SLICE_VARIABLE: "",
    LEASE_VARIABLE: "",
    "METERLINE_PRODUCE_DEADLINE_MS": "",
    "METERLINE_DELIVERY_TIMEOUT_S": "",
    "METERLINE_FLUSH_INTERVAL_MS": "",
    "METERLINE_RETRY_DELAYS_S": "",
}
VICTIMS: Final = (
    *("aggregator-1", "aggregator-2") * 4,
    *("gateway-1", "gateway-2", "gateway-1", "gateway-2"),
    *("clickhouse",) * 3,
    *("kafka",) * 2,
    *("postgres",) * 2,
    "control",
)


@dataclass(slots=True)
class Delivery:
    """The day on its way through the doors."""

    day: Day
    doors: Sequence[str]
    counted: int = 0
    acknowledged: int = 0
    again: int = 0  # requests that were not answered with 202
    failure: str = ""
    _next: int = 0
    _ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send during the block."""
        workers = [threading.Thread(target=self._work, args=(n,)) for n in range(SENDERS)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._ended = True
            for worker in workers:
                worker.join()

    def _work(self, number: int) -> None:
        door = number
        connections = [_connection(url) for url in self.doors]
        while not self._ended and (span := self._span()) is not None:
            body = self.day.body(*span)
            while not self._ended:
                status = _posted(connections[door % len(connections)], body)
                if status == ACCEPTED:
                    break
                if status not in (None, 503):
                    self.failure = f"{self.doors[door % len(connections)]} answers {status}"
                    return
                door += 1
                self.again += 1
                time.sleep(0.1)
            with self._lock:
                self.acknowledged += span[1] - span[0]

    def _span(self) -> tuple[int, int] | None:
        while self._next - self.counted > self.day.events // AHEAD and not self._ended:
            time.sleep(0.1)
        with self._lock:
            first = self._next
            self._next = min(first + BATCH, self.day.events)
            return (first, self._next) if first < self._next else None


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_WITHIN_S)


def _posted(connection: http.client.HTTPConnection, body: bytes) -> int | None:
    try:
        connection.request("POST", PATH, body, MEDIA)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()
        return None
    return answer.status


def main() -> None:
    """See the module. Exits with 1 where anything differs."""
    asked = _asked()
    seed = asked.seed
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"a day of {asked.events:,} events, seed {seed}, {len(VICTIMS)} kills")
    day = Day(asked.events, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meterline-day-")))
        servers = stack.enter_context(own_servers())
        product = stack.enter_context(installed(servers, folder, AS_IT_COMES))
        product.start()
        make_meters(product.api, METERS)
        try:
            found = _lived(product, day, console)
        except AssertionError as error:
            found = [str(error), product.words()]
    for words in found[:20]:
        console.print(words, markup=False, highlight=False)
    if found:
        sys.exit(f"{len(found)} differences")
    console.print("totals equal those of the columns, the account holds, the audit is clean")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.day", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=20_260_105)
    return parser.parse_args()


def _lived(product: Installation, day: Day, console: Console) -> list[str]:
    """Send, kill, count, compare, audit; what differs, in words."""
    began_s = time.monotonic()
    delivery = Delivery(day, [one.url for one in product.those("gateway")])
    with _bar(console) as bar, delivery.running():
        task = bar.add_task("", total=day.events, kills=0)
        kills = _counted(product, delivery, random.Random(day.seed), bar, task)
    took_s = time.monotonic() - began_s
    told = ", ".join(f"{number} {name}" for name, number in kills.items())
    console.print(
        f"{day.events:,} events sent and counted in {took_s / 60:.1f} minutes,"
        f" {day.events / took_s:,.0f} events/s; {delivery.again:,} requests were sent again;"
        f" {kills.total()} kills: {told}",
        highlight=False,
    )
    began_s = time.monotonic()
    found = _compared(product, DayOracle(day), day)
    console.print(f"compared in {time.monotonic() - began_s:.0f} s", highlight=False)
    began_s = time.monotonic()
    found += _audited(product, console)
    console.print(f"audited in {time.monotonic() - began_s:.0f} s", highlight=False)
    return found


def _counted(
    product: Installation, delivery: Delivery, rng: random.Random, bar: Progress, task: TaskID
) -> Counter[str]:
    """Return when all is counted; kill on the way, at even steps of the account."""
    events = delivery.day.events
    victims = list(VICTIMS)
    rng.shuffle(victims)
    due = [(n + 1) * events // (len(victims) + 1) for n in range(len(victims))]
    kills: Counter[str] = Counter()
    moved_s = time.monotonic()
    while True:
        assert not delivery.failure, delivery.failure
        counted, caught_up = _account(product.api)
        if counted > delivery.counted:
            delivery.counted, moved_s = counted, time.monotonic()
        bar.update(task, completed=min(counted, events), kills=kills.total())
        all_in = delivery.acknowledged == events
        if all_in and caught_up and not victims:
            return kills
        assert time.monotonic() - moved_s < STANDS_STILL_S, f"it stands still at {counted:,}"
        while victims and (delivery.counted >= due[0] or (all_in and caught_up)):
            due.pop(0)
            victim = _killed(product, victims.pop(0))
            kills[victim] += 1
            words = f"{delivery.counted:,} counted, kill {kills.total()}: {victim}"
            bar.console.print(words, highlight=False)
        time.sleep(0.3)


def _account(api: Server) -> tuple[int, bool]:
    """How many events are counted, copies too, and whether these are all of the log."""
    try:
        status: Any = api.get("/api/v3/metering/status").json
    except (OSError, http.client.HTTPException, AssertionError):
        return 0, False  # it was killed
    account = status["account"]
    return (account["received"] if account else 0), bool(status["caught_up"])


def _killed(product: Installation, victim: str) -> str:
    if victim in product.slots:
        slot = product.slots[victim]
        slot.kill()
        slot.start()
        return victim[:-2] if victim[-1].isdigit() else victim
    assert product.servers is not None, "distributed"
    server = getattr(product.servers, victim)
    server.kill()
    server.start()
    return victim


def _compared(product: Installation, oracle: DayOracle, day: Day) -> list[str]:
    account = product.status["account"]
    found = []
    if account["new"] != oracle.identities:
        found.append(f"account: {account['new']:,} new, expected {oracle.identities:,}")
    if account["received"] != account["new"] + account["duplicate"]:
        found.append(f"account: {account}")
    if account["duplicate"] < day.events - oracle.identities:
        found.append(f"account: {account['duplicate']:,} copies")
    return found + [words for meter in METERS for words in _figures(product.api, oracle, meter)]


def _figures(api: Server, oracle: DayOracle, meter: dict[str, Any]) -> Iterator[str]:
    key, dimensions = meter["key"], list(meter.get("dimensions", ()))
    asked = {
        "from": "2026-01-04T00:00:00Z",
        "to": "2026-01-07T00:00:00Z",
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
        _named(cell, key): (Fraction(value), counted, rejected)
        for cell, (value, counted, rejected) in oracle.cells(key)
    }
    for cell in sorted(wanted.keys() | shown.keys()):
        if wanted.get(cell) != shown.get(cell):
            yield f"{key} {cell}: expected {wanted.get(cell)}, found {shown.get(cell)}"


def _named(cell: tuple[int, ...], key: str) -> tuple[str, ...]:
    hour, subject, *region = cell
    moment = time.gmtime(START_MS // 1_000 + (hour - LATE_HOURS_MAX) * HOUR_MS // 1_000)
    names = (time.strftime("%Y-%m-%dT%H:%M:%SZ", moment), f"s-{subject}")
    return (*names, f"r-{region[0]}") if key == "amounts" else names


def _audited(product: Installation, console: Console) -> list[str]:
    """Run `meterline audit` against the API; what it finds."""
    command = [str(PROGRAM), "audit", "--server", product.those("control")[0].url]
    done = subprocess.run(
        command,
        cwd=product.folder,
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


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.completed:,} of {task.total:,}"),
        BarColumn(30),
        TextColumn("{task.fields[kills]} kills"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


if __name__ == "__main__":
    main()
