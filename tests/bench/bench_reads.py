"""How long usage takes to be read over HTTP, one client, and the same questions asked of raw events
in ClickHouse in turn: medians and 99th percentiles.

`python -m tests.bench.bench_reads EVENTS SUBJECTS DAYS LATE_SHARE STORE` makes one such store, with
STORE `server` or `embedded`. It is filled by SQL while the product stands; a share comes through
the door.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from meterline.backends.clickhouse.connection import Connection
from meterline.window import DAY_MS, rfc3339
from tests.bench import reads_fill
from tests.bench.bench_aggregator import say
from tests.bench.reads_fill import BEGIN_MS, Shape
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
TIMES: Final = 60  # that each question is asked


def questions(shape: Shape) -> dict[str, tuple[dict[str, str], str]]:
    """By name: parameters of a v1 query, and the same in SQL over raw events."""
    end_ms = BEGIN_MS + shape.days * DAY_MS
    whole = {"from": rfc3339(BEGIN_MS), "to": rfc3339(end_ms)}
    day = {"from": rfc3339(end_ms - 3 * DAY_MS), "to": rfc3339(end_ms - 2 * DAY_MS)}
    value = "sum(toDecimal128(JSONExtractFloat(data, 'tokens'), 9))"
    times = "time >= toDateTime64('{0}', 3, 'UTC') AND time < toDateTime64('{1}', 3, 'UTC')"

    def raw(what: str, span: dict[str, str], more: str = "", by: str = "") -> str:
        ends = [span[end].replace("T", " ").replace("Z", "") for end in ("from", "to")]
        where = f"namespace = 'default' AND type = 'request' AND {times.format(*ends)}{more}"
        return f"SELECT {what}{value} FROM raw WHERE {where}{f' GROUP BY {by}' if by else ''}"

    one = " AND subject = 'customer-7'"
    groups = "JSONExtractString(data, 'path') AS p, JSONExtractString(data, 'region') AS r, "
    month = "MONTH" if shape.days > 60 else "DAY"
    unit = "toStartOfMonth(time)" if shape.days > 60 else "toStartOfDay(time)"
    return {
        f"a one subject, {shape.days} days by {month.lower()}": (
            {**whole, "windowSize": month, "subject": "customer-7"},
            raw(f"{unit} AS w, ", whole, one, "w"),
        ),
        "b all subjects, one day, by subject": (
            {**day, "groupBy": "subject"},
            raw("subject, ", day, by="subject"),
        ),
        f"c {shape.days} days by hour": (
            {**whole, "windowSize": "HOUR"},
            raw("toStartOfHour(time) AS w, ", whole, by="w"),
        ),
        f"d {shape.days} days, total by two groups": (
            {**whole, "groupBy": "path,region"},
            raw(groups, whole, by="p, r"),
        ),
    }


def timed(act: Callable[[], object], times: int = TIMES) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds, behind a few that are not counted."""
    took = []
    for at in range(times + 3):
        begun = time.perf_counter()
        act()
        if at >= 3:
            took.append((time.perf_counter() - begun) * 1_000)
    took.sort()
    return statistics.median(took), took[min(len(took) - 1, int(len(took) * 0.99))]


def asked(server: Server, parameters: dict[str, str]) -> Callable[[], bytes]:
    """One query over HTTP, all of its answer read."""
    pairs = [f"{name}={quote(value)}" for name, value in parameters.items() if name != "groupBy"]
    pairs += [f"groupBy={name}" for name in parameters.get("groupBy", "").split(",") if name]
    url = f"{server.url}/api/v1/meters/tokens/query?{'&'.join(pairs)}"

    def act() -> bytes:
        with urllib.request.urlopen(url, timeout=600) as answer:
            body: bytes = answer.read()
        return body

    return act


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


def one_store(
    shape: Shape, url: str, folder: Path, ask: Callable[[Shape, Server, str], None]
) -> None:
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
    store = url if url != "chdb" else f"chdb:{data / 'usage'}"
    begun = time.perf_counter()
    _apart("fill", store, shape, data / "control.db")
    say(f"  filled in {time.perf_counter() - begun:.0f} s")
    _apart("blocks", store, shape, data / "control.db")
    control = role_process("control", ["control"], folder / "c", free_port(), settings)
    with running(control):
        ask(shape, Server(control.url), store)


@contextmanager
def running(service: LocalService) -> Iterator[None]:
    """A process, for the length of the block."""
    service.start()
    try:
        yield
    finally:
        service.kill()


def _apart(what: str, store: str, shape: Shape, control: Path) -> None:
    """In a process of its own: an embedded store is opened by one at a time."""
    shaped = [str(it) for it in (shape.events, shape.subjects, shape.days, shape.late_share)]
    command = [sys.executable, "-m", "tests.bench.bench_reads", *shaped, what, store, str(control)]
    subprocess.run(command, check=True)


def ask_all(shape: Shape, server: Server, store: str) -> None:
    """Every question, ours and raw in turn."""
    say(f"  {counted(server):,} counted in all")
    for name, (parameters, sql) in questions(shape).items():
        ours = timed(asked(server, parameters))
        told = f"  {name:40} {ours[0]:8.1f} ms, p99 {ours[1]:8.1f}"
        if not store.startswith("chdb"):
            raw = timed(asked_raw(store, sql), 5)
            told += f"; raw events {raw[0]:8.1f} ms, ratio {ours[0] / raw[0]:.4f}"
        say(told)


def asked_raw(store: str, sql: str) -> Callable[[], bytes]:
    """The same question of raw events, over the store's own HTTP interface."""
    where, _, database = store.rpartition("/")

    def act() -> bytes:
        url = f"{where}/?database={database}"
        with urllib.request.urlopen(url, sql.encode(), timeout=600) as answer:
            body: bytes = answer.read()
        return body

    return act


def main() -> None:
    """Five million events on a server, and embedded."""
    for store in ("server", "embedded"):
        run(Shape(5_000_000, 1_000, 30), store)


def run(shape: Shape, store: str, ask: Callable[[Shape, Server, str], None] = ask_all) -> None:
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
        with running(server):
            one_store(shape, f"{server.url}/reads", Path(folder), ask)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind in (("events", int), ("subjects", int), ("days", int), ("late", float)):
        parser.add_argument(name, type=kind)
    parser.add_argument("what")
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args()
    asked_for = Shape(given.events, given.subjects, given.days, given.late)
    if given.what == "fill":
        counts = reads_fill.fill(Connection(given.rest[0]), asked_for, 1)
        reads_fill.seal(Path(given.rest[1]), asked_for, 1, counts)
    elif given.what == "blocks":
        made, took = asyncio.run(reads_fill.make_blocks(given.rest[0], Path(given.rest[1])))
        say(
            f"  {made} blocks made in {took:.0f} s, {asked_for.events / took:,.0f} tallies a second"
        )
    else:
        run(asked_for, given.what)
