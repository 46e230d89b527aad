"""What traces cost the gateway: off, off again, and with 1 % sampled, in turns on one machine. With
`METERLINE_BENCH_BEFORE`, a checkout of an older build, that one too.

Processor time an event is compared, as in `bench_metrics`.
"""

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

import uvloop

from tests.bench.bench_gateway import (
    CONNECTIONS,
    beside_the_gateway,
    cpu_s,
    gateway,
    requests_of,
)
from tests.bench.load import run_load
from tests.traced.collector import collecting

ROUNDS = 5
SECONDS = 2.0
BEFORE = "METERLINE_BENCH_BEFORE"


def _costs(size: int, ways: dict[str, tuple[str, ...]]) -> dict[str, list[float]]:
    """Microseconds of processor time an event, of each way and round."""
    requests = requests_of(size)
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (where, *more) in ways.items():
            with (
                tempfile.TemporaryDirectory() as folder,
                gateway(f"sqlite:{folder}", "measured", *more, checkout=where) as (port, process),
            ):
                uvloop.run(run_load(port, requests, CONNECTIONS[size], 0.5))
                before_s = cpu_s(process)
                load = uvloop.run(run_load(port, requests, CONNECTIONS[size], SECONDS))
                costs[name].append((cpu_s(process) - before_s) / (load.requests * size) * 1e6)
            assert load.refused == 0
    return costs


def main() -> None:
    """Print the figures; takes about two minutes."""
    with collecting() as collector, beside_the_gateway():
        here = str(Path.cwd())
        ways = {"off": (here,), "off again": (here,), "1 % sampled": (here, collector.url)}
        if BEFORE in os.environ:
            ways["before"] = (os.environ[BEFORE],)
        for size in CONNECTIONS:
            costs = _costs(size, ways)
            for name, found in costs.items():
                ratios = sorted(b / a for a, b in zip(costs["off"], found, strict=True))
                sys.stdout.write(
                    f"gateway, batch of {size}, traces {name}: {median(found):.2f} us an event"
                    f" (at best {min(found):.2f}), {median(ratios):.3f} times off"
                    f" (rounds {ratios[0]:.3f} to {ratios[-1]:.3f})\n"
                )
                sys.stdout.flush()
        sys.stdout.write(f"{len(collector.spans):,} spans were collected\n")
