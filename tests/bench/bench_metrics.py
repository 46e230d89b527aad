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
from statistics import median, quantiles

import uvloop

from tests.bench.bench_aggregator import say as note
from tests.bench.bench_gateway import (
    CONNECTIONS,
    beside_the_gateway,
    cpu_s,
    gateway,
    requests_of,
)
from tests.bench.load import run_load
from tests.services.choose import open_service

ROUNDS = 7
TURNS = 8  # of each way, in a round
SECONDS = 0.5  # of a turn
SCRAPED_EVERY_S = 15  # as deploy/compose/prometheus.yaml says
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


def of_counting() -> None:
    """Say what metrics cost an event that is counted, and what a scrape costs."""
    service = open_service("clickhouse", lambda words: note(f"# {words}"))
    service.start()
    try:
        command = [sys.executable, "-m", "tests.bench.counting_process", service.url]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        service.stop()
    found: dict[str, list[float]] = json.loads(said)
    turns = list(zip(found["without"], found["with"], found["without again"], strict=True))
    plain = median((first + again) / 2 for first, _, again in turns)
    costs = sorted(within - (first + again) / 2 for first, within, again in turns)
    chance = median(abs(first - again) for first, _, again in turns)
    (told,), (scrape,) = found["told"], found["scrape"]
    low, high = quantiles(costs, n=4)[0], quantiles(costs, n=4)[-1]
    sys.stdout.write(
        f"an event that is counted: telling metrics takes {told:,.1f} ns of {plain:,.0f}"
        f" ({told / plain:.3%}). By turns it differs by {median(costs):,.0f} ns (half of the turns"
        f" {low:,.0f} to {high:,.0f}; two without differ by {chance:,.0f})\n"
        f"a scrape of an aggregator: {scrape / 1e6:,.1f} ms; every {SCRAPED_EVERY_S} s that is"
        f" {scrape / 1e9 / SCRAPED_EVERY_S:.3%} of a core\n"
    )


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
    of_counting()


if __name__ == "__main__":
    main()
