"""What `meterline up` costs while nobody sends and nobody asks: the share of a core, over a minute.

Asked of a new folder, and again after events of a while were counted for many meters.
`python -m tests.bench.bench_idle 20 100` looks for 20 seconds, with 100 meters.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
import psutil

from tests.bench.bench_aggregator import say
from tests.bench.bench_answers import answering
from tests.journey.setups import SetUp, embedded

LOOK_S: Final = 60
METERS: Final = 100
REST_S: Final = 20  # what was counted is flushed, told and merged
BATCHES: Final = 50
BATCH: Final = 200


def worked_s(process: psutil.Process) -> float:
    """Seconds of a core that a process and its children used."""
    used = [it.cpu_times() for it in (process, *process.children(recursive=True))]
    return sum(it.user + it.system for it in used)


async def looked(words: str, process: psutil.Process, seconds: float) -> None:
    """Say what it used in a while in which nothing was asked of it."""
    await asyncio.sleep(REST_S)
    before, begun = worked_s(process), time.monotonic()
    switches = process.num_ctx_switches().voluntary
    await asyncio.sleep(seconds)
    took = time.monotonic() - begun
    woken = (process.num_ctx_switches().voluntary - switches) / took
    share = (worked_s(process) - before) / took
    say(f"{words}: {share:.4f} of a core over {took:.0f} s; its first thread woke {woken:.0f}/s")


async def lived(setup: SetUp, session: aiohttp.ClientSession, meters: int) -> None:
    """Meters are made and events counted."""
    at = f"{setup.control.url}/api/v3/metering/meters"
    for number in range(meters):
        meter = {
            "name": f"M{number}",
            "key": f"m{number}",
            "aggregation": "sum",
            "event_type": f"t{number % 5}",
            "value_property": "$.n",
        }
        async with session.post(at, json=meter) as answer:
            assert answer.status == 201, await answer.text()
    events = f"{setup.ingest.url}/api/v3/metering/events"
    for batch in range(BATCHES):
        body = [
            {
                "specversion": "1.0",
                "id": f"{batch}-{number}",
                "source": "bench",
                "type": f"t{number % 5}",
                "subject": f"customer-{number}",
                "data": {"n": number},
            }
            for number in range(BATCH)
        ]
        kind = {"Content-Type": "application/cloudevents-batch+json"}
        async with session.post(events, data=json.dumps(body), headers=kind) as answer:
            assert answer.status == 202, await answer.text()
        await asyncio.sleep(0.1)


async def measured(setup: SetUp, seconds: float, meters: int) -> None:
    """A new folder, then one that counted."""
    process = answering(setup)
    await looked("a new folder", process, seconds)
    async with aiohttp.ClientSession() as session:
        await lived(setup, session, meters)
    await looked(f"after {BATCHES * BATCH:,} events for {meters} meters", process, seconds)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures."""
    seconds, meters = map(int, arguments or (LOOK_S, METERS))
    with tempfile.TemporaryDirectory() as folder:
        setup = embedded(Path(folder))
        try:
            setup.start()
            asyncio.run(measured(setup, seconds, meters))
        finally:
            setup.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
