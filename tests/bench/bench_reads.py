"""How long usage takes to be read over HTTP, one client, and the same questions asked of raw events
in ClickHouse in turn: medians and 99th percentiles, beside what the medians should be.

`python -m tests.bench.bench_reads EVENTS SUBJECTS DAYS LATE_SHARE STORE` makes one such store, with
STORE `server` or `embedded`. It is filled by SQL while the product stands; a share comes through
the door. Up to ten million events, the product makes the blocks; of more, SQL puts them in too.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meterline.backends.clickhouse.connection import Connection
from meterline.window import rfc3339
from tests.bench import reads_blocks, reads_fill
from tests.bench.bench_aggregator import say
from tests.bench.reads_fill import BEGIN_MS, Shape
from tests.bench.reads_questions import (
    RAW_TIMES,
    YEAR_DAYS,
    Timed,
    of_raw,
    over_http,
    questions,
    raw_asked,
    report,
    report_raw,
    timed,
)
from tests.journey.client import Server
from tests.journey.processes import role_process
from tests.services.clickhouse import local_clickhouse
from tests.services.local import LocalService, free_port

METER: Final = {
    "name": "Tokens",
    "key": "tokens",
    "aggregation": "sum",
    "event_type": "request",
    "value_property": "$.tokens",
    "dimensions": {"path": "$.path", "region": "$.region"},
}
DOOR_EVENTS: Final = 20_000
MADE_BY_US_MAX: Final = 10_000_000  # events whose blocks the product makes: minutes, not hours
REPORT_MS: Final = 1_000
RATIO_FROM_MS: Final = 1_000  # raw events that take so long are told as a ratio that must be small
LARGE: Final = (
    "100000000 1000 30 0 server",
    "100000000 1000 30 0.2 server",
    "100000000 1000000 365 0 server",
)


@dataclass(frozen=True, slots=True)
class Store:
    """Where what was filled in lies."""

    url: str
    control: Path
    shape: Shape

    @property
    def embedded(self) -> bool:
        """Whether one process at a time may open it."""
        return self.url.startswith("chdb")

    def apart(self, what: str) -> subprocess.Popen[bytes]:
        """Work on it in a process of its own."""
        it = self.shape
        shaped = [str(one) for one in (it.events, it.subjects, it.days, it.late_share)]
        module = (sys.executable, "-m", "tests.bench.bench_reads")
        return subprocess.Popen([*module, *shaped, what, self.url, str(self.control)])

    def done(self, what: str) -> None:
        """The same, to its end."""
        if code := self.apart(what).wait():
            sys.exit(f"{what} ended with code {code}")


Ask = Callable[[Store, str], None]  # of a store, at the URL of the product


def through_the_door(server: Server) -> None:
    """A share of the events, as producers send them."""
    for first in range(0, DOOR_EVENTS, 1_000):
        events = [
            {
                "specversion": "1.0",
                "id": f"d{number}",
                "source": "bench",
                "type": "request",
                "subject": f"customer-{number % 1_000}",
                "time": rfc3339(BEGIN_MS + number * 1_000),
                "data": {"tokens": 1, "path": "/path/1", "region": "region-1"},
            }
            for number in range(first, first + 1_000)
        ]
        request = urllib.request.Request(f"{server.url}/api/v1/events", json.dumps(events).encode())
        request.add_header("Content-Type", "application/cloudevents-batch+json")
        with urllib.request.urlopen(request, timeout=60):
            pass


def counted(server: Server) -> int:
    """What the meter says of everything."""
    with urllib.request.urlopen(f"{server.url}/api/v1/meters/tokens/query", timeout=600) as answer:
        rows: list[Any] = json.loads(answer.read())["data"]
    return int(sum(row["value"] for row in rows))


def one_store(shape: Shape, url: str, folder: Path, ask: Ask) -> None:
    """Fill it, make its blocks, ask."""
    data = folder / "data"
    settings = {"METERLINE_DATA_DIR": str(data), "METERLINE_USAGE_URL": url}
    up = role_process("up", ["up"], folder / "up", free_port(), settings)
    with running(up):
        server = Server(up.url)
        server.made("/api/v3/metering/meters", METER)
        through_the_door(server)
        while counted(server) < DOOR_EVENTS:
            time.sleep(0.5)
    where = url if url != "chdb" else f"chdb:{data / 'usage'}"
    store = Store(where, data / "control.db", shape)
    begun = time.perf_counter()
    store.done("fill")
    say(f"  filled in {time.perf_counter() - begun:.0f} s")
    store.done("blocks" if shape.events <= MADE_BY_US_MAX else "put")
    control = role_process("control", ["control"], folder / "c", free_port(), settings)
    if ask is ask_all:
        store.done("report")
    with running(control):
        ask(store, control.url)


@contextmanager
def running(service: LocalService) -> Iterator[None]:
    """A process, for the length of the block."""
    service.start()
    try:
        yield
    finally:
        service.kill()


def ask_all(store: Store, url: str) -> None:
    """Every question, ours and raw in turn."""
    say(f"  {counted(Server(url)):,} counted in all")
    for question in questions(store.shape):
        act = over_http(url, question)
        ours, again = timed(act), timed(act)
        raw = None if store.embedded else timed(of_raw(store.url, question), RAW_TIMES)
        tell(question.name, question.target_ms, ours, raw, again)
    if not store.embedded and store.shape.events <= MADE_BY_US_MAX:
        while_merging(store, url)


def while_merging(store: Store, url: str) -> None:
    """The same beside a process that merges all blocks, by twos."""
    say("  while blocks are merged:")
    merging = store.apart("merge")
    for question in questions(store.shape):
        ours = timed(over_http(url, question))
        still = "" if merging.poll() is None else " (merging had ended)"
        tell(question.name + still, question.target_ms, ours, None)
    merging.terminate()
    merging.wait()


def tell(
    name: str, target_ms: int, ours: Timed, raw: Timed | None, again: Timed | None = None
) -> None:
    """One line of the table."""
    told = f"  {name:52} {ours.median:8.1f} ms (of {target_ms:5}), p99 {ours.p99:8.1f}"
    if again is not None:
        told += f"; asked again {again.median:8.1f} ms"
    if raw is not None:
        told += f"; raw events {raw.median:8.1f} ms"
        if raw.median > RATIO_FROM_MS:
            told += f", ratio {ours.median / raw.median:.4f}"
    say(told)


def tell_report(url: str, control: Path, shape: Shape) -> None:
    """The usage of one day, as a report reads it, and of raw events in turn."""
    rows, ours = report(url, str(control), shape)
    sql = report_raw(shape)
    raw = None if url.startswith("chdb") else timed(raw_asked(url, lambda _: sql), RAW_TIMES)
    tell(f"a report of {rows:,} subjects, one day", REPORT_MS, ours, raw)


def main() -> None:
    """Five million events on a server, with late ones, and embedded."""
    for late, store in ((0.0, "server"), (0.2, "server"), (0.0, "embedded")):
        run(Shape(5_000_000, 1_000, 30, late), store)
    say("# the large stores take 20 to 40 minutes, 10 GB of memory and 30 GB of disk each:")
    for arguments in LARGE:
        say(f"  .venv/bin/python -m tests.bench.bench_reads {arguments}")


def run(shape: Shape, store: str, ask: Ask = ask_all) -> None:
    """One store of this shape."""
    say(
        f"# {shape.events:,} events of {shape.subjects:,} subjects over {shape.days} days,"
        f" {shape.late_share:.0%} late, {store}"
    )
    with tempfile.TemporaryDirectory() as folder:
        if store == "embedded":
            one_store(shape, "chdb", Path(folder), ask)
            return
        server = local_clickhouse(say)
        try:
            with running(server):
                one_store(shape, f"{server.url}/reads", Path(folder), ask)
        finally:
            server.stop()


def work(what: str, shape: Shape, url: str, control: Path) -> None:
    """What is done in a process of its own."""
    begun = time.perf_counter()
    if what == "fill":
        counts = reads_fill.fill(Connection(url), shape, 1)
        reads_fill.seal(control, shape, 1, counts)
    elif what == "put":
        hours = shape.days < YEAR_DAYS
        made = asyncio.run(reads_blocks.put_blocks(url, control, shape, hours=hours))
        say(f"  {made} blocks put in by SQL in {time.perf_counter() - begun:.0f} s")
        if not url.startswith("chdb"):
            rest_s = asyncio.run(reads_fill.merges_ended(url))
            say(f"  {rest_s:.0f} s later, the store has merged what was put in")
    elif what == "report":
        tell_report(url, control, shape)
    elif what == "merge":
        asyncio.run(reads_fill.make_blocks(url, control, fan=2))
    else:
        made, took = asyncio.run(reads_fill.make_blocks(url, control))
        rate = shape.events / took
        say(f"  {made} blocks made in {took:.0f} s, {rate:,.0f} tallies a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind in (("events", int), ("subjects", int), ("days", int), ("late", float)):
        parser.add_argument(name, type=kind)
    parser.add_argument("what")
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args()
    asked_for = Shape(given.events, given.subjects, given.days, given.late)
    if given.rest:
        work(given.what, asked_for, given.rest[0], Path(given.rest[1]))
    else:
        run(asked_for, given.what)
