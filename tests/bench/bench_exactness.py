"""What exactness costs: events a second of one Faust worker with all guards, and without any.

The same log, the same engine, the same meters; runs with and without follow each other, short
ones, so that whatever the machine does meanwhile befalls both. Each pair of neighbours has its
ratio; told is the median of them, and how far they lie apart. Whatever disturbs a run only adds to
it: so the least CPU time of each is compared too.
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

from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.kafka.log import KafkaLog
from meterline.runtime.settings.reading import load_settings
from meterline.runtime.wiring import adapters
from tests.bench.bench_aggregator import METERS, fill, running, say, services, started
from tests.journey.setups import fresh_database
from tests.services.local import free_port

PARTITIONS = 4
EVENTS = PARTITIONS * 80_000  # each has more than fit into a slice: its border is in the figure
PAIRS = 9
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


async def filled() -> str:
    """Make the log, and fill it. Its id: each pair has new stores, which must accept it."""
    async with AsyncExitStack() as stack:
        log = await adapters.open_log(load_settings(), stack)
        assert isinstance(log, KafkaLog)
        await fill(log, EVENTS)
        return log.id


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


def spread(ratios: list[float]) -> str:
    """The median, and the lowest and the highest."""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Print the figures and their ratios; takes about seven minutes."""
    found: dict[str, list[tuple[float, float]]] = {GUARDED: [], UNGUARDED: []}
    with tempfile.TemporaryDirectory() as folder, services() as variables:
        variables["METERLINE_PARTITIONS"] = str(PARTITIONS)
        os.environ.update(variables)
        variables["METERLINE_LOG_ACCEPTED"] = asyncio.run(filled())
        say(f"# the log holds {EVENTS:,} events")
        postgres = variables["METERLINE_CONTROL_URL"]
        for number in range(PAIRS):
            order = list(found)[:: 1 if number % 2 else -1]
            for module in order:
                own = migrated(variables, postgres)
                found[module].append(asyncio.run(rate(module, own, Path(folder))))
                told, cost = found[module][-1]
                say(f"#   {number + 1} of {PAIRS}: {module}: {told:,.0f} events/s, {cost:.1f} us")
    for module, name in ((GUARDED, "with all guards"), (UNGUARDED, "without any")):
        told, cost = (median(one[at] for one in found[module]) for at in (0, 1))
        say(f"aggregator {name + ':':16} {told:9,.0f} events/s, {cost:5.1f} us")
    pairs = list(zip(found[GUARDED], found[UNGUARDED], strict=True))
    say(f"exactness: {spread([one[0] / other[0] for one, other in pairs])} of the rates,")
    say(f"           {spread([other[1] / one[1] for one, other in pairs])} of the CPU an event")
    best = {module: min(cost for _, cost in runs) for module, runs in found.items()}
    say(
        f"least CPU an event: {best[GUARDED]:.1f} and {best[UNGUARDED]:.1f} us,"
        f" ratio {best[UNGUARDED] / best[GUARDED]:.2f}"
    )


if __name__ == "__main__":
    main()
