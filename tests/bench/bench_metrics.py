"""What metrics cost: a request, the gateway and counting with and without them, in turns on one
machine. With `METERLINE_BENCH_BEFORE`, a checkout of an older build, its requests too.

Processor time is compared, not the rate: it changes less with what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
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
TURNS = 8  # of each way, in a round
SECONDS = 0.5  # of a turn
EVENTS = 200_000
WAYS = ((), ("measured",))
BEFORE = "METERLINE_BENCH_BEFORE"
Figures = dict[tuple[str, ...], list[float]]


def of_a_request(rounds: int = ROUNDS) -> None:
    """Say what metrics cost a request, of this build and of an older one by turns."""
    builds = {"": str(Path.cwd())}
    if BEFORE in os.environ:
        builds[" before"] = os.environ.pop(BEFORE)  # no role knows it
    found: dict[str, list[dict[str, float]]] = {name: [] for name in builds}
    script = str(Path(__file__).with_name("request_process.py"))
    for _ in range(rounds):
        for name, checkout in builds.items():
            told = subprocess.run(
                [sys.executable, script],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": checkout},
            ).stdout
            found[name].append(json.loads(told))
    for name, them in found.items():
        plain = [(it["without"] + it["without again"]) / 2 for it in them]
        costs = sorted(it["with"] - without for it, without in zip(them, plain, strict=True))
        chance = median(abs(it["without"] - it["without again"]) for it in them)
        sys.stdout.write(
            f"a request of one event{name}: metrics cost {median(costs):,.0f} ns of"
            f" {median(plain):,.0f} (rounds {costs[0]:,.0f} to {costs[-1]:,.0f}; two without differ"
            f" by {chance:,.0f})\n"
        )
        sys.stdout.flush()


def at_the_gateway(size: int) -> tuple[Figures, Figures]:
    """Events a second, and microseconds of processor time an event. In a round both gateways stand,
    and are asked by turns: so what else the machine does meets both.
    """
    requests = requests_of(size)
    rates: Figures = {way: [] for way in WAYS}
    costs: Figures = {way: [] for way in WAYS}
    for number in range(ROUNDS):
        order = WAYS if number % 2 else WAYS[::-1]
        with ExitStack() as stack:
            doors = {}
            for way in order:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                doors[way] = stack.enter_context(gateway(f"sqlite:{folder}", *way))
                uvloop.run(run_load(doors[way][0], requests, CONNECTIONS[size], SECONDS))
            before_s = {way: cpu_s(process) for way, (_, process) in doors.items()}
            events, seconds = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0.0)
            for _ in range(TURNS):
                for way in order:
                    port, _process = doors[way]
                    load = uvloop.run(run_load(port, requests, CONNECTIONS[size], SECONDS))
                    assert load.refused == 0
                    events[way] += load.requests * size
                    seconds[way] += load.seconds
            for way, (_, process) in doors.items():
                costs[way].append((cpu_s(process) - before_s[way]) / events[way] * 1e6)
                rates[way].append(events[way] / seconds[way])
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
    """Print the figures; takes about eight minutes."""
    of_a_request()
    with beside_the_gateway():
        for size in CONNECTIONS:
            rates, costs = at_the_gateway(size)
            say(f"gateway, batch of {size}", rates, "events/s")
            say(f"gateway, batch of {size}", costs, "us an event")
    say("counting", of_counting(), "us an event")


if __name__ == "__main__":
    main()
