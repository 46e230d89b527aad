"""What a number of partitions costs: one Faust worker with three meters counts a log that is full,
as fast as it can, then one that grows at a pace. Events a second, tally rows an event, CPU an event
of the worker and of ClickHouse, by turns with each number.

`python -m tests.bench.bench_partitions 8 16` for these numbers; one takes a minute and a half.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import psutil

from meterline.runtime.settings.reading import load_settings
from tests.bench.bench_aggregator import (
    EVENTS,
    METERS,
    counted,
    made,
    role,
    running,
    say,
    services,
)
from tests.bench.bench_steady import Bench

NUMBERS: Final = (4, 8, 16)
RATE: Final = 10_000
STEADY_S: Final = 20.0
PORT: Final = 18_761


async def measure(variables: dict[str, str], folder: Path, number: int) -> None:
    """The figures with so many partitions."""
    settings = load_settings()
    assert await made(settings, METERS) == number
    process = role("aggregate", variables, folder, PORT)
    async with running(process, PORT):
        rate, cost, memory = await counted(settings, psutil.Process(process.pid))
    say(
        f"{number:3} partitions, full log: {rate:9,.0f} events/s, {cost:5.1f} us CPU an event,"
        f" {memory / 2**20:,.0f} MiB"
    )
    bench = Bench(variables, folder, EVENTS)
    await bench.turn("usual", RATE, STEADY_S)


def main() -> None:
    """Print the figures."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()] or [*NUMBERS, *NUMBERS[::-1]]
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder, services() as variables:
            os.environ.update(variables, METERLINE_PARTITIONS=str(number))
            subprocess.run([sys.executable, "-m", "meterline.runtime", "migrate"], check=True)
            asyncio.run(measure(variables, Path(folder), number))
    os.environ.pop("METERLINE_PARTITIONS")


if __name__ == "__main__":
    main()
