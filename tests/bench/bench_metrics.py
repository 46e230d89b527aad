"""What metrics cost: the gateway and counting with and without them, in turns on one machine.

Processor time an event is compared, not the rate: it changes less with what else the machine does.
"""

import subprocess
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

ROUNDS = 7
SECONDS = 3.0
EVENTS = 200_000
WAYS = ((), ("measured",))
Figures = dict[tuple[str, ...], list[float]]


def at_the_gateway(size: int) -> tuple[Figures, Figures]:
    """Events a second, and microseconds of processor time an event."""
    requests = requests_of(size)
    rates: Figures = {way: [] for way in WAYS}
    costs: Figures = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            with (
                tempfile.TemporaryDirectory() as folder,
                gateway(f"sqlite:{folder}", *way) as (port, process),
            ):
                uvloop.run(run_load(port, requests, CONNECTIONS[size], 0.5))
                before_s = cpu_s(process)
                load = uvloop.run(run_load(port, requests, CONNECTIONS[size], SECONDS))
                events = load.requests * size
                costs[way].append((cpu_s(process) - before_s) / events * 1e6)
            assert load.refused == 0
            rates[way].append(events / load.seconds)
    return rates, costs


def of_counting() -> Figures:
    """Microseconds of processor time an event."""
    costs: Figures = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "tests.bench.counting_process"]
                command += [str(Path(folder) / "data"), str(EVENTS), *way]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                costs[way].append(float(said) / EVENTS * 1e6)
    return costs


def say(what: str, figures: Figures, unit: str) -> None:
    """The medians without and with metrics, and the median of the ratios of all rounds."""
    without, measured = figures[()], figures["measured",]
    ratios = sorted(b / a for a, b in zip(without, measured, strict=True))
    sys.stdout.write(
        f"{what}: {median(without):,.2f} {unit} without metrics, {median(measured):,.2f} with;"
        f" ratio {median(ratios):.3f} (rounds {ratios[0]:.3f} to {ratios[-1]:.3f})\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Print the figures; takes about five minutes."""
    with beside_the_gateway():
        for size in CONNECTIONS:
            rates, costs = at_the_gateway(size)
            say(f"gateway, batch of {size}", rates, "events/s")
            say(f"gateway, batch of {size}", costs, "us an event")
    say("counting", of_counting(), "us an event")


if __name__ == "__main__":
    main()
