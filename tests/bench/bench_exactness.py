"""What exactness costs: events a second of one Faust worker with all guards, and without any.

The same log, the same engine, the same meters; runs with and without follow each other, so that
whatever the machine does meanwhile befalls both. The ratio is that of the medians.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit
from uuid import uuid4

import clickhouse_connect
import psutil

from meterline.backends.kafka_log import KafkaLog
from meterline.backends.sql.catalogue import SqlCatalogueStore
from meterline.backends.sql.engine import open_database
from meterline.runtime import wiring
from meterline.runtime.settings import load_settings
from tests.bench.bench_aggregator import METERS, fill, running, say, services, started
from tests.journey.setups import fresh_database
from tests.services.local import free_port

EVENTS = 1_280_000  # each partition has more than fit into a slice: its border is in the figure
ROUNDS = 3
GUARDED = "meterline.runtime"
UNGUARDED = "tests.bench.unguarded"
COUNTED_WITHIN_S = 600.0


def migrated(variables: dict[str, str], postgres: str) -> dict[str, str]:
    """Settings of a fresh installation over the log of `variables`, with meters."""
    name = f"exact_{uuid4().hex[:8]}"
    server = variables["METERLINE_USAGE_URL"].rpartition("/")[0]
    own = {
        **variables,
        "METERLINE_USAGE_URL": f"{server}/{name}",
        "METERLINE_CONTROL_URL": fresh_database(postgres, name),
        "METERLINE_CONSUMER_GROUP": name,
    }
    command = [sys.executable, "-m", "meterline.runtime", "migrate"]
    subprocess.run(command, check=True, env={**os.environ, **own}, stderr=subprocess.DEVNULL)
    asyncio.run(make_meters(own["METERLINE_CONTROL_URL"]))
    return own


async def make_meters(url: str) -> None:
    """Define the meters of the benchmark."""
    database = open_database(url)
    try:
        for draft in METERS:
            await SqlCatalogueStore(database).create_meter("default", draft, 0)
    finally:
        await database.close()


async def filled() -> None:
    """Make the log, and fill it."""
    async with AsyncExitStack() as stack:
        log = await wiring.open_log(load_settings(), stack)
        assert isinstance(log, KafkaLog)
        await fill(log, EVENTS)


async def rate(module: str, variables: dict[str, str], folder: Path) -> tuple[float, float]:
    """Events a second and CPU microseconds an event, between the first and the last flush."""
    own = {**variables, "METERLINE_DATA_DIR": str(folder / uuid4().hex)}
    port = free_port()
    command = [sys.executable, "-m", module, "aggregate", "--port", str(port)]
    process = started(command, {**os.environ, **own})
    async with running(process, port):
        return await asyncio.to_thread(counted, variables, psutil.Process(process.pid))


def counted(variables: dict[str, str], worker: psutil.Process) -> tuple[float, float]:
    """Watch the raw events come in: with and without guards they are written alike."""
    parts = urlsplit(variables["METERLINE_USAGE_URL"])
    client = clickhouse_connect.get_client(
        host=parts.hostname, port=parts.port, database=parts.path.strip("/")
    )
    first: tuple[float, float, int] | None = None
    deadline = time.monotonic() + COUNTED_WITHIN_S
    while time.monotonic() < deadline:
        events = int(client.query("SELECT count() FROM events").result_rows[0][0])
        now, times = time.monotonic(), worker.cpu_times()
        cpu = times.user + times.system
        if events and first is None:
            first = now, cpu, events
        if first is not None and events >= EVENTS:
            done = events - first[2]
            return done / (now - first[0]), (cpu - first[1]) / done * 1e6
        time.sleep(0.05)
    raise TimeoutError(f"{EVENTS} events were not counted")


def main() -> None:
    """Print the figures and their ratio; takes about seven minutes."""
    found: dict[str, list[tuple[float, float]]] = {GUARDED: [], UNGUARDED: []}
    with tempfile.TemporaryDirectory() as folder, services() as variables:
        os.environ.update(variables)
        asyncio.run(filled())
        say(f"# the log holds {EVENTS:,} events")
        postgres = variables["METERLINE_CONTROL_URL"]
        for number in range(ROUNDS):
            order = list(found)[:: 1 if number % 2 else -1]
            for module in order:
                own = migrated(variables, postgres)
                found[module].append(asyncio.run(rate(module, own, Path(folder))))
                say(f"#   {module}: {found[module][-1][0]:,.0f} events/s")
    rates = {module: median(one[0] for one in runs) for module, runs in found.items()}
    costs = {module: median(one[1] for one in runs) for module, runs in found.items()}
    say(f"aggregator with all guards:    {rates[GUARDED]:9,.0f} events/s, {costs[GUARDED]:5.1f} us")
    say(
        f"aggregator without any:        {rates[UNGUARDED]:9,.0f} events/s,"
        f" {costs[UNGUARDED]:5.1f} us"
    )
    say(
        f"exactness: ratio {rates[GUARDED] / rates[UNGUARDED]:.2f} of the rates,"
        f" {costs[UNGUARDED] / costs[GUARDED]:.2f} of the CPU an event (medians of {ROUNDS})"
    )


if __name__ == "__main__":
    main()
