"""What a query of a million rows does to others: the longest answer of `/healthz` and to an event
beside it, and by how much the process grows. JSON and CSV, v1 and v3, then three at once.

The product runs as it does for a user; its usage store is filled behind its back while it stands,
for a million counted events would take an hour. The reader is a process of its own.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import clickhouse_connect
import psutil

from tests.bench.bench_aggregator import say
from tests.journey.setups import SetUp, embedded

ROWS: Final = 1_000_000
SUBJECTS: Final = 33_334  # over thirty days
DAYS_FROM: Final = 29_453_760  # 2026-01-01, in minutes since 1970
METER: Final = {
    "name": "Tokens",
    "key": "tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
}
FILL: Final = f"""
INSERT INTO tallies SELECT %d AS revision, concat('customer-', toString(number %% {SUBJECTS})),
    '[]', {DAYS_FROM} + intDiv(number, {SUBJECTS}) * 1440 + number %% 1440 AS window,
    9, number %% 4, 0, number, 1500000000000000000 * number, 1, 0, 1500000000000000000 * number,
    1500000000000000000 * number, window * 60000, window * 60000, toFixedString('0123456789abcdef',
    16), 1500000000000000000 * number FROM numbers({ROWS})
"""
FIRST_REVISION: Final = 1  # of the only meter that there is
FIRST_OF_ALL: Final = -15
PROBE_EVERY_S: Final = 0.01
_READER: Final = """
import sys, urllib.request
url, accept, body = sys.argv[1:]
request = urllib.request.Request(url, body.encode() or None, {"Accept": accept})
if body:
    request.add_header("Content-Type", "application/json")
taken, lines, last = 0, 0, b""
with urllib.request.urlopen(request, timeout=600) as answer:
    while piece := answer.read(1 << 16):
        taken += len(piece)
        lines += (last + piece).count(b"customer-")
        last = piece[-8:]
print(taken, lines)
"""
QUESTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    f"{version} {media.rpartition('/')[2]}": (path, media, body)
    for version, path, body in (
        (
            "v3",
            "/api/v3/metering/meters/tokens/query",
            json.dumps({"granularity": "P1D", "group_by_dimensions": ["subject"]}),
        ),
        ("v1", "/api/v1/meters/tokens/query?windowSize=DAY&groupBy=subject", ""),
    )
    for media in ("application/json", "text/csv")
}


@dataclass(slots=True)
class Probe:
    """What was seen of others meanwhile; seconds, bytes."""

    longest: dict[str, float] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    rss: int = 0


def answering(setup: SetUp) -> psutil.Process:
    """The process that answers queries; it is tethered to another one."""
    service = next(one for name, one in setup.processes.items() if name in ("up", "control"))
    tether = psutil.Process(service.pid)
    family = [tether, *tether.children(recursive=True)]
    return max(family, key=lambda one: one.memory_info().rss)


@contextmanager
def probing(setup: SetUp) -> Iterator[Probe]:
    """Ask for `/healthz` and send events all the time; watch how large the process is."""
    probe = Probe()
    over = threading.Event()
    process = answering(setup)

    def ask(name: str, url: str, number: int) -> None:
        request = urllib.request.Request(url)
        if name == "event":
            event = {"specversion": "1.0", "id": f"{time.time_ns()}-{number}", "source": "bench"}
            event |= {"type": "other", "subject": "s"}
            request.data = json.dumps(event).encode()
            request.add_header("Content-Type", "application/cloudevents+json")
        begun = time.perf_counter()
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        took = time.perf_counter() - begun
        probe.longest[name] = max(probe.longest.get(name, 0.0), took)
        probe.asked[name] = probe.asked.get(name, 0) + 1

    def watch(name: str, url: str) -> None:
        number = 0
        while not over.wait(PROBE_EVERY_S):
            number += 1
            probe.rss = max(probe.rss, process.memory_info().rss)
            ask(name, url, number)

    asked = {
        "healthz": f"{setup.control.url}/healthz",
        "event": f"{setup.ingest.url}/api/v3/metering/events",
    }
    threads = [threading.Thread(target=watch, args=one) for one in asked.items()]
    for thread in threads:
        thread.start()
    try:
        yield probe
    finally:
        over.set()
        for thread in threads:
            thread.join()


def measured(setup: SetUp, name: str, questions: list[str]) -> None:
    """Ask all of them at once and tell what it did to others."""
    before = answering(setup).memory_info().rss
    begun = time.perf_counter()
    with probing(setup) as probe:
        readers = []
        for question in questions:
            path, media, body = QUESTIONS[question]
            command = [sys.executable, "-c", _READER, setup.control.url + path, media, body]
            readers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        outputs = [reader.communicate()[0] for reader in readers]
        if not questions:
            time.sleep(5)
    for output in outputs:
        rows = int(output.split()[1])
        assert rows == ROWS, f"{rows} of {ROWS} rows"
    longest = ", ".join(f"{key} {took * 1000:.0f} ms" for key, took in probe.longest.items())
    say(
        f"{setup.name:12} {name:14} {time.perf_counter() - begun:5.1f} s; longest {longest} "
        f"(of {sum(probe.asked.values())}); memory {before >> 20} MB + {(probe.rss - before) >> 20}"
    )


def fill_embedded(setup: SetUp) -> None:
    """Put rows into the store while the process stands."""
    process = setup.processes["up"]
    process.kill()
    code = "import clickhouse_connect, sys; c = clickhouse_connect.get_client("
    code += "interface='chdb', path=sys.argv[1]); c.command(sys.argv[2])"
    where = setup.folder / "data" / "usage"
    subprocess.run([sys.executable, "-c", code, str(where), FILL % FIRST_REVISION], check=True)
    process.start()


def fill_server(url: str) -> None:
    """Put rows into the store."""
    parts = urlsplit(url)
    client = clickhouse_connect.get_client(
        host=parts.hostname or "", port=parts.port or 0, database=parts.path.strip("/")
    )
    client.command(FILL % FIRST_REVISION)


def measure_all(setup: SetUp) -> None:
    """All questions, one after another, and three at once."""
    measured(setup, "nothing", [])
    measured(setup, "nothing again", [])
    for question in QUESTIONS:
        measured(setup, question, [question])
    measured(setup, "three at once", ["v3 json", "v3 csv", "v1 json"])
    measured(setup, "nothing", [])


@contextmanager
def filled() -> Iterator[SetUp]:
    """The product in one process, with the rows that are asked for; first of all that runs here,
    or that would be measured, too.
    """
    with contextlib.suppress(PermissionError):
        os.nice(FIRST_OF_ALL)
    with tempfile.TemporaryDirectory() as folder:
        setup = embedded(Path(folder) / "embedded")
        try:
            setup.start()
            setup.control.made("/api/v3/metering/meters", METER)
            fill_embedded(setup)
            yield setup
        finally:
            setup.kill()


def main() -> None:
    """Print the figures; takes about five minutes."""
    say(f"# {ROWS:,} rows in an answer")
    with filled() as setup:
        measure_all(setup)
