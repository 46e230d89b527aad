"""This build and an older one by turns, each role a process on servers: events a second that are
taken and counted, as many as go, and then at 0.8 of the older build's rate; the processor time of
each role for an event.

`METERLINE_BENCH_BEFORE=CHECKOUT python -m tests.bench.bench_builds 16` for 16 partitions, `16/8`
for 16 of the older build and 8 of this one, which are the defaults on Kafka. The older checkout has
an environment of its own (`make install`).
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from tests.bench.bench_aggregator import say
from tests.bench.bench_metrics import BEFORE
from tests.faults.day_delivery import Delivery
from tests.faults.day_events import Day
from tests.faults.own_servers import own_servers
from tests.journey.setups import Servers, SetUp, distributed, started
from tests.services.local import spawned
from tests.soak.load import TOP_EVENTS, followed, make_meters

BATCH: Final = 200  # events of a request
AHEAD: Final = 400_000  # sent and not counted yet; with fewer, senders wait for flushes
WARM_S: Final = 20.0
TURN_S: Final = 45.0
STEADY_SHARE: Final = 0.8
SECOND_AGGREGATOR: Final = "aggregate-2"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a turn: events a second, and microseconds of the processor for an event by role."""

    rate: float
    used: dict[str, float]


@contextmanager
def _ready(build: Path, servers: Servers, partitions: int) -> Iterator[SetUp]:
    """One process of each role, with the meters of the day."""
    with tempfile.TemporaryDirectory(prefix="meterline-builds-") as folder:
        setup = distributed(
            Path(folder),
            servers,
            {"METERLINE_PARTITIONS": str(partitions)},
            program=(str(build / ".venv/bin/meterline"),),
            begin=spawned,
        )
        processes = {n: it for n, it in setup.processes.items() if n != SECOND_AGGREGATOR}
        with started(replace(setup, processes=processes)) as ready:
            make_meters(ready.control)
            yield ready


def _used_s(setup: SetUp) -> dict[str, float]:
    """Processor time of each role so far."""
    times = {name: psutil.Process(it.pid).cpu_times() for name, it in setup.processes.items()}
    return {name: it.user + it.system for name, it in times.items()}


def turn(build: Path, servers: Servers, partitions: int, rate: float | None = None) -> Figures:
    """A new installation takes events at a rate, else as many as it counts."""
    with _ready(build, servers, partitions) as setup:
        day = Day(TOP_EVENTS, partitions, int(time.time() * 1_000))
        delivery = Delivery(day, [setup.ingest.url], rate=rate, ahead=AHEAD, batch=BATCH)
        with delivery.running():
            followed(setup.control, delivery, WARM_S)
            counted, began_s, used = delivery.counted, time.monotonic(), _used_s(setup)
            followed(setup.control, delivery, TURN_S)
            events, took_s = delivery.counted - counted, time.monotonic() - began_s
            more = {name: it - used[name] for name, it in _used_s(setup).items()}
    return Figures(events / took_s, {name: it / events * 1e6 for name, it in more.items()})


def _told(name: str, figures: Figures) -> None:
    used = ", ".join(f"{role} {it:.1f}" for role, it in figures.used.items())
    say(f"  {name:7} {figures.rate:8,.0f} events/s; us an event: {used}")


def compare(builds: dict[str, Path], servers: Servers, partitions: dict[str, int]) -> None:
    """Take the turns and say what came of them."""
    numbers = " and ".join(f"{number} {name}" for name, number in partitions.items())
    say(f"partitions: {numbers}; as many events as are counted:")
    found: dict[str, list[Figures]] = {name: [] for name in builds}
    for name in (*builds, *builds):
        found[name].append(turn(builds[name], servers, partitions[name]))
        _told(name, found[name][-1])
    before, now = (median(it.rate for it in found[name]) for name in builds)
    say(f"  {now / before:.2f} times the rate")
    say(f"at {STEADY_SHARE:.1f} of the older build's rate:")
    for name, build in builds.items():
        _told(name, turn(build, servers, partitions[name], STEADY_SHARE * before))


def main() -> None:
    """Print the figures; takes about eight minutes for each number of partitions."""
    if BEFORE not in os.environ:
        sys.exit(f"{BEFORE} is not set. Set it to the checkout of an older build.")
    builds = {"before": Path(os.environ.pop(BEFORE)), "now": Path.cwd()}  # no role knows it
    with own_servers() as own:
        servers = Servers(own.kafka.url, own.clickhouse.url, own.postgres.url)
        for word in sys.argv[1:] or ["16"]:
            first, _, second = word.partition("/")
            compare(builds, servers, {"before": int(first), "now": int(second or first)})


if __name__ == "__main__":
    main()
