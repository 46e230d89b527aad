"""Twelve readers of 300,000 rows each at once, and what they do to the process and to an event that
is sent beside them: its memory at most, and how long a 202 takes, without readers and with them.

One `meterline up` on its own folder. A reader that is told to come back does so.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from meterline.window import DAY_MS, MINUTE_MS, rfc3339
from tests.bench.bench_aggregator import say
from tests.bench.bench_answers import (
    DAYS_FROM,
    SUBJECTS,
    answering,
    filled,
)
from tests.journey.setups import SetUp

READERS: Final = 12
DAYS: Final = 9  # of SUBJECTS rows each
ROWS: Final = DAYS * SUBJECTS
EVENT_EVERY_S: Final = 0.02
WATCH_EVERY_S: Final = 0.02
QUIET_S: Final = 8
_READER: Final = """
import sys, time, urllib.error, urllib.request
url, body = sys.argv[1:]
refused = lines = 0
while not lines:
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            last = b""
            while piece := answer.read(1 << 16):
                lines += (last + piece).count(b"customer-")
                last = piece[-8:]
    except urllib.error.HTTPError as error:
        refused += 1
        time.sleep(int(error.headers["Retry-After"]))
print(lines, refused)
"""


@dataclass(slots=True)
class Beside:
    """What was seen meanwhile: seconds of each 202; bytes of the process, and of them what it has
    for itself, without the pages of its program.
    """

    took: list[float] = field(default_factory=list)
    rss: int = 0
    own: int = 0


@contextmanager
def beside(setup: SetUp) -> Iterator[Beside]:
    """Send an event at a time, and watch how large the process is."""
    found, over = Beside(), threading.Event()
    process = answering(setup)

    def watch() -> None:
        while not over.wait(WATCH_EVERY_S):
            found.rss = max(found.rss, process.memory_info().rss)
            found.own = max(found.own, own_bytes(process.pid))

    def send() -> None:
        number = 0
        while not over.wait(EVENT_EVERY_S):
            number += 1
            event = {"specversion": "1.0", "id": f"{time.time_ns()}-{number}", "source": "bench"}
            event |= {"type": "other", "subject": "s"}
            url = f"{setup.ingest.url}/api/v3/metering/events"
            request = urllib.request.Request(url, json.dumps(event).encode())
            request.add_header("Content-Type", "application/cloudevents+json")
            begun = time.perf_counter()
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()
            found.took.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=one) for one in (watch, send)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        over.set()
        for thread in threads:
            thread.join()


def own_bytes(pid: int) -> int:
    """Anonymous memory of a process, by the kernel."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


def quiet(setup: SetUp) -> None:
    """Nobody reads."""
    with beside(setup) as found:
        time.sleep(QUIET_S)
    tell("nobody reads", QUIET_S, found)


def crowd(setup: SetUp) -> None:
    """All readers at once, each until it has its rows."""
    to_ms = DAYS_FROM * MINUTE_MS + DAYS * DAY_MS
    body = {
        "from": rfc3339(DAYS_FROM * MINUTE_MS),
        "to": rfc3339(to_ms),
        "granularity": "P1D",
        "group_by_dimensions": ["subject"],
    }
    url = f"{setup.control.url}/api/v3/metering/meters/tokens/query"
    command = [sys.executable, "-c", _READER, url, json.dumps(body)]
    begun = time.perf_counter()
    with beside(setup) as found:
        readers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(READERS)
        ]
        said = [reader.communicate()[0].split() for reader in readers]
    refused = 0
    for rows, times in said:
        assert int(rows) == ROWS, f"{rows} of {ROWS} rows"
        refused += int(times)
    tell(f"{READERS} readers ({refused} told to come back)", time.perf_counter() - begun, found)


def tell(name: str, took_s: float, found: Beside) -> None:
    """A line of figures."""
    took = sorted(found.took)
    p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
    say(
        f"{name:40} {took_s:5.1f} s; 202 median {statistics.median(took) * 1000:.0f} ms,"
        f" p99 {p99 * 1000:.0f}, longest {took[-1] * 1000:.0f} (of {len(took)});"
        f" memory {found.rss >> 20} MB, {found.own >> 20} of its own"
    )


def main() -> None:
    """Print the figures; takes about two minutes."""
    say(f"# {READERS} readers of {ROWS:,} rows each, embedded")
    with filled() as setup:
        quiet(setup)
        for _ in range(2):
            crowd(setup)
        quiet(setup)


if __name__ == "__main__":
    main()
