"""How soon what was accepted can be queried, while many events come in and many readers ask: from a
202 to the answer that has its event, and events a second, without readers and with them.

`python -m tests.bench.bench_fresh embedded` (or `distributed`: the roles against a real Kafka,
ClickHouse and PostgreSQL). All runs on the same cores: the generator, the readers and the product.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import aiohttp

from meterline.window import rfc3339
from tests.bench.bench_aggregator import say
from tests.journey.setups import Servers, SetUp, distributed, embedded
from tests.services.choose import open_service

EVENTS_PER_S: Final = 10_000
BATCH: Final = 500
READS_PER_S: Final = 20
SENDERS: Final = 4
PHASE_S: Final = 25
PROBE_EVERY_S: Final = 0.5
LOOK_EVERY_S: Final = 0.1
SUBJECTS: Final = 1_000
METER: Final[dict[str, Any]] = {
    "name": "Tokens",
    "key": "tokens",
    "aggregation": "sum",
    "event_type": "request",
    "value_property": "$.tokens",
    "dimensions": {"path": "$.path"},
}
PROBE_METER: Final = {"name": "P", "key": "probes", "aggregation": "count", "event_type": "probe"}
QUESTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"granularity": "PT1H"},
    {"granularity": "P1D", "group_by_dimensions": ["path"]},
    {"filters": {"dimensions": {"subject": {"eq": "customer-7"}}}, "granularity": "P1D"},
    {"group_by_dimensions": ["subject"]},
)


@dataclass(slots=True)
class Seen:
    """Of one phase; seconds."""

    sent: int = 0
    refused: int = 0
    fresh: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    told: int = 0  # readers that were told to come back


class Bench:
    """Everything that is asked of one set-up."""

    def __init__(self, setup: SetUp, session: aiohttp.ClientSession) -> None:
        self._events = f"{setup.ingest.url}/api/v3/metering/events"
        self._meters = f"{setup.control.url}/api/v3/metering/meters"
        self._session = session

    async def phase(self, name: str, *, readers: bool) -> None:
        """Send, look, and read if there are readers; print what was seen."""
        seen, until = Seen(), time.monotonic() + PHASE_S
        work: list[Coroutine[Any, Any, None]] = [self._send(seen, until) for _ in range(SENDERS)]
        work.append(self._probe(seen, until))
        if readers:
            work.append(self._read(seen, until))
        begun = time.monotonic()
        await asyncio.gather(*work)
        fresh, took = sorted(seen.fresh), time.monotonic() - begun
        line = (
            f"{name:14} {seen.sent / PHASE_S:7,.0f} events/s ({seen.refused} requests refused);"
            f" 2xx to queryable median {median(fresh):.2f} s, p99"
            f" {fresh[min(len(fresh) - 1, len(fresh) * 99 // 100)]:.2f} s (of {len(fresh)})"
        )
        if seen.read:
            read = sorted(seen.read)
            line += (
                f"; {len(read) / took:.1f} reads/s, median {median(read) * 1000:.0f} ms, p99"
                f" {read[len(read) * 99 // 100] * 1000:.0f} ms, {seen.told} told to come back"
            )
        say(line)

    async def _send(self, seen: Seen, until: float) -> None:
        """Batches at a steady pace, each sender its share."""
        pause, number = BATCH * SENDERS / EVENTS_PER_S, 0
        due, own = time.monotonic(), uuid4().hex[:8]
        while time.monotonic() < until:
            now = rfc3339(int(time.time() * 1000))
            events = [
                {
                    "specversion": "1.0",
                    "id": f"{own}-{number + at}",
                    "source": "bench",
                    "type": "request",
                    "subject": f"customer-{(number + at) % SUBJECTS}",
                    "time": now,
                    "data": {"tokens": at, "path": f"/p/{at % 5}"},
                }
                for at in range(BATCH)
            ]
            status = await self._post("application/cloudevents-batch+json", events)
            number += BATCH
            seen.sent += BATCH * (status < 300)
            seen.refused += status >= 300
            due += pause
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _post(self, media: str, body: object) -> int:
        headers = {"Content-Type": media}
        data = json.dumps(body).encode()
        async with self._session.post(self._events, data=data, headers=headers) as answer:
            return answer.status

    async def _probe(self, seen: Seen, until: float) -> None:
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < until:
                group.create_task(self._look(seen))
                await asyncio.sleep(PROBE_EVERY_S)

    async def _look(self, seen: Seen) -> None:
        """One event, and when an answer has it."""
        subject = uuid4().hex
        event = {"specversion": "1.0", "id": subject, "source": "b", "type": "probe"}
        if await self._post("application/cloudevents+json", event | {"subject": subject}) >= 300:
            return
        begun = time.monotonic()
        body = {"filters": {"dimensions": {"subject": {"eq": subject}}}}
        while True:
            found = await self._asked("probes", body)
            if found is not None and found["data"]:
                seen.fresh.append(time.monotonic() - begun)
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _asked(self, key: str, body: dict[str, Any]) -> Any:
        """The answer; None for who is told to come back."""
        async with self._session.post(f"{self._meters}/{key}/query", json=body) as answer:
            return await answer.json() if answer.ok else None

    async def _read(self, seen: Seen, until: float) -> None:
        number = 0
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < until:
                group.create_task(self._one_read(seen, QUESTIONS[number % len(QUESTIONS)]))
                number += 1
                await asyncio.sleep(1 / READS_PER_S)

    async def _one_read(self, seen: Seen, body: dict[str, Any]) -> None:
        begun = time.monotonic()
        if await self._asked("tokens", body) is None:
            seen.told += 1
        else:
            seen.read.append(time.monotonic() - begun)


async def measure(setup: SetUp) -> None:
    """A moment to warm up, then without readers, with them, and both again."""
    setup.control.made("/api/v3/metering/meters", METER)
    setup.control.made("/api/v3/metering/meters", PROBE_METER)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        bench = Bench(setup, session)
        await bench.phase("warming up", readers=False)
        for _ in range(2):
            await bench.phase("no readers", readers=False)
            await bench.phase("readers", readers=True)


@contextmanager
def set_up(name: str, folder: Path) -> Iterator[SetUp]:
    """A set-up, with its servers if it has some."""
    with ExitStack() as stack:
        if name == "embedded":
            made = embedded(folder)
        else:
            urls = []
            for kind in ("kafka", "clickhouse", "postgres"):
                service = open_service(kind, lambda words: say(f"# {words}"))
                stack.callback(service.stop)
                service.start()
                urls.append(service.url)
            made = distributed(folder, Servers(*urls))
        stack.callback(made.kill)
        made.start()
        yield made


def main() -> None:
    """Print the figures of the set-ups that are named, of both without a name."""
    with contextlib.suppress(PermissionError):
        os.nice(-15)  # what else runs here would be measured, too
    names = [name for name in sys.argv[1:] if name in ("embedded", "distributed")]
    for name in names or ["embedded", "distributed"]:
        say(f"# 2xx to queryable, {name}: {EVENTS_PER_S:,} events/s, {READS_PER_S} reads/s")
        with tempfile.TemporaryDirectory() as folder, set_up(name, Path(folder)) as setup:
            asyncio.run(measure(setup))


if __name__ == "__main__":
    main()
