"""Events a second through the gateway, each answer durable: on SQLite and on Kafka.

The gateway is a process of its own on one core; the load comes from this one. Beside each figure
stands its ratio to an aiohttp handler that only decodes, and the gateway's own CPU time per event:
that tells more than the rate where other work, such as the broker's, shares the machine.
"""

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import msgspec
import psutil
import uvloop

from tests.bench.load import Load, request_bytes, run_load
from tests.services.choose import open_service

ROUNDS = 5
SECONDS = 3.0
BATCH = 100
SINGLE_PATH = "/api/v3/metering/events"
CORE = 0  # the gateway's; everything else leaves it
CONNECTIONS = {1: 64, BATCH: 64}


def event(number: int) -> dict[str, object]:
    """An event of about 220 bytes."""
    return {
        "specversion": "1.0",
        "id": str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)),
        "source": "bench",
        "type": "request",
        "subject": f"customer-{number % 1000}",
        "time": "2026-01-31T12:00:00.000Z",
        "data": {"tokens": number % 4096, "model": "large", "route": "/v1/chat", "took": "12.5"},
    }


def requests_of(size: int) -> list[bytes]:
    """A few hundred different requests of so many events."""
    made = []
    for number in range(200 if size > 1 else 2_000):
        events = [event(number * size + place) for place in range(size)]
        if size == 1:
            body, media = msgspec.json.encode(events[0]), "application/cloudevents+json"
        else:
            body, media = msgspec.json.encode(events), "application/cloudevents-batch+json"
        made.append(request_bytes(SINGLE_PATH, media, body))
    return made


@contextmanager
def gateway(
    behind: str, *more: str, checkout: str | None = None
) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a gateway with this behind it, of this build or another one's."""
    command = [sys.executable, "-m", "tests.bench.gateway_process", behind, str(CORE), *more]
    with subprocess.Popen(
        command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), psutil.Process(process.pid)
        finally:
            process.communicate()


def measured(behind: dict[str, str], size: int, say: Callable[[str], None]) -> None:
    """Rounds in turn over all that may stand behind the gateway; medians are said."""
    requests = requests_of(size)
    loads: dict[str, list[Load]] = {name: [] for name in behind}
    costs: dict[str, list[float]] = {name: [] for name in behind}
    for _ in range(ROUNDS):
        for name, argument in behind.items():
            with gateway(argument) as (port, process):
                uvloop.run(run_load(port, requests, CONNECTIONS[size], 0.5))
                before_s = cpu_s(process)
                load = uvloop.run(run_load(port, requests, CONNECTIONS[size], SECONDS))
                costs[name].append((cpu_s(process) - before_s) / (load.requests * size) * 1e6)
            assert load.refused == 0, f"{name}: {load.refused} requests were refused"
            loads[name].append(load)
    rates = {n: median(x.requests * size / x.seconds for x in runs) for n, runs in loads.items()}
    for name, runs in loads.items():
        p50 = median(run.percentile(0.5) for run in runs)
        p99 = median(run.percentile(0.99) for run in runs)
        ratio = rates[name] / rates["decode only"]
        say(
            f"gateway, batch of {size:3}, {name:11}: {rates[name]:9,.0f} events/s"
            f"   ratio {ratio:4.2f}   p50 {p50:5.1f} ms   p99 {p99:5.1f} ms"
            f"   {median(costs[name]):5.1f} us CPU an event"
        )


def cpu_s(process: psutil.Process) -> float:
    """CPU time of a process so far, in seconds."""
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    """Print the figures; takes about two minutes."""

    def say(words: str) -> None:
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()

    with beside_the_gateway():
        measure_all(say)


@contextmanager
def beside_the_gateway() -> Iterator[None]:
    """This process, and those it starts, leave its core to the gateway, where they can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores - {CORE} or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def measure_all(say: Callable[[str], None]) -> None:
    """Both logs and the handler that only decodes, at both sizes of request."""
    kafka = open_service("kafka", lambda words: say(f"# {words}"))
    kafka.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            behind = {
                "decode only": "decode",
                "SQLite": f"sqlite:{folder}",
                "Kafka": f"kafka:{kafka.url}/bench_{uuid.uuid4().hex}",
            }
            for size in CONNECTIONS:
                measured(behind, size, say)
    finally:
        kafka.stop()
