"""What making blocks costs: events a second of one Faust worker that makes blocks beside counting,
and of one that makes none.

Two installations count one log, in turn, so that whatever the machine does befalls both; the order
changes with each pair. `young`: their stores are empty at first. `filled`: both have counted many
events before without blocks, so blocks of all these are due while it is measured.

`python -m tests.bench.bench_blocks young filled --events 640000 --history 4000000 --pairs 5`
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import clickhouse_connect
import psutil

from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.kafka.log import KafkaLog
from meterline.runtime.settings.reading import load_settings
from meterline.runtime.wiring import adapters
from meterline.usage import COUNTED_STATES
from tests.bench.bench_aggregator import packs, running, say, services, started
from tests.bench.bench_exactness import migrated, spread
from tests.services.local import free_port

PARTITIONS: Final = 4
EVENTS: Final = 640_000  # of one run: each partition seals two slices or three
HISTORY: Final = 4_000_000
PAIRS: Final = 5
WITH: Final = "meterline.runtime"
WITHOUT: Final = "tests.bench.unblocked"
COUNTED_WITHIN_S: Final = 3_600.0
DUE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the two installations."""

    module: str
    variables: dict[str, str]
    folder: Path

    async def counts(self, module: str, events: int) -> tuple[float, float]:
        """Run a worker until so many events are counted, all together: events a second and CPU
        microseconds an event, between its first and its last flush.
        """
        own = {**os.environ, **self.variables, "METERLINE_DATA_DIR": str(self.folder)}
        port = free_port()
        command = [sys.executable, "-m", module, "aggregate", "--port", str(port)]
        process = started(command, own)
        async with running(process, port):
            return await asyncio.to_thread(self._watched, events, psutil.Process(process.pid))

    def _watched(self, events: int, worker: psutil.Process) -> tuple[float, float]:
        parts = urlsplit(self.variables["METERLINE_USAGE_URL"])
        client = clickhouse_connect.get_client(
            host=parts.hostname, port=parts.port, database=parts.path.strip("/")
        )
        at_first: int | None = None
        began: tuple[float, float, int] | None = None
        deadline = time.monotonic() + COUNTED_WITHIN_S
        while time.monotonic() < deadline:
            # Parts, not rows: a question over all rows would cost as much as counting.
            there = int(client.query(_COUNT).result_rows[0][0] or 0)
            now, times = time.monotonic(), worker.cpu_times()
            cpu = times.user + times.system
            at_first = there if at_first is None else at_first
            if began is None and there > at_first:
                began = now, cpu, there
            if began is not None and there >= events:
                done = there - began[2]
                return done / (now - began[0]), (cpu - began[1]) / done * 1e6
            time.sleep(0.05)
        raise TimeoutError(f"{events} events were not counted")

    async def blocks(self) -> int:
        """How many blocks were made readable so far, those that were merged since too."""
        database = open_database(self.variables["METERLINE_CONTROL_URL"])
        try:
            there = await SqlBlockLedger(database).blocks(1)
        finally:
            await database.close()
        return sum(one.state in COUNTED_STATES for one in there)


_COUNT: Final = "SELECT sum(new) FROM accounts FINAL"


async def filled(first: int, events: int) -> str:
    """Put events [first, first + events) into the log; its id."""
    async with AsyncExitStack() as stack:
        log = await adapters.open_log(load_settings(), stack)
        assert isinstance(log, KafkaLog)
        end = first + events
        for place, value in packs(range(first, end), log.partitions, lambda it: it * 60 // end):
            await log.append(place, value)
        return log.id


def measure(history: int, events: int, pairs: int) -> None:
    """Print the figures of one store, young or filled."""
    with tempfile.TemporaryDirectory() as folder, services() as variables:
        variables["METERLINE_PARTITIONS"] = str(PARTITIONS)
        os.environ.update(variables)
        total = history
        variables["METERLINE_LOG_ACCEPTED"] = asyncio.run(filled(0, history))
        postgres = variables["METERLINE_CONTROL_URL"]
        arms = [
            Arm(module, migrated(variables, postgres), Path(folder) / uuid4().hex)
            for module in (WITH, WITHOUT)
        ]
        if history:
            for arm in arms:
                asyncio.run(arm.counts(WITHOUT, history))
            say(f"# each store has {history:,} events, and no block")
        found: dict[str, list[tuple[float, float]]] = {WITH: [], WITHOUT: []}
        for number in range(pairs):
            asyncio.run(filled(total, events))
            total += events
            for arm in arms[:: 1 if number % 2 else -1]:
                found[arm.module].append(asyncio.run(arm.counts(arm.module, total)))
                rate, cost = found[arm.module][-1]
                blocks = asyncio.run(arm.blocks())
                say(
                    f"#   {number + 1} of {pairs}: {arm.module}: {rate:,.0f} events/s,"
                    f" {cost:.1f} us, {blocks} blocks"
                )
        made, none = (asyncio.run(arm.blocks()) for arm in arms)
        assert made, "no block was made: the figures tell nothing"
        assert not none, "blocks were made where none were to be"
    _tell(found, history)


def _tell(found: dict[str, list[tuple[float, float]]], history: int) -> None:
    pairs = list(zip(found[WITH], found[WITHOUT], strict=True))
    ratios = [one[0] / other[0] for one, other in pairs]
    costs = [other[1] / one[1] for one, other in pairs]
    say(
        f"counting with blocks / without, a store of {history:,} events: {spread(ratios)} of the"
        f" rates, {spread(costs)} of the CPU an event; due {DUE}:"
        f" {'met' if median(ratios) >= DUE else 'missed'}"
    )


def main() -> None:
    """Print the figures of a young store and of a filled one; takes about an hour."""
    named = sys.argv[1:] if sys.argv[0].endswith("bench_blocks.py") else []
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_blocks")
    parser.add_argument("stores", nargs="*", default=[])
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--history", type=int, default=HISTORY)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    asked = parser.parse_args(named)
    for store in asked.stores or ("young", "filled"):
        measure(asked.history if store == "filled" else 0, asked.events, asked.pairs)


if __name__ == "__main__":
    main()
