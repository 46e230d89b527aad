"""Counting in steady traffic: the log grows at a pace, all partitions together, while one Faust
worker with three meters counts. Events a second, tally rows an event, CPU an event of the worker
and of ClickHouse, and seconds from an append to counted. By turns as counting is set, with a flush
after 20,000 events, and with a tenant that changes a meter every 10 seconds.

`python -m tests.bench.bench_steady 30000 25` for 30,000 events a second and 25 s for each turn;
`usual`, `early`, `changing` after these name the turns. A later turn has more slices to seal and
blocks to make than the first: so turns are compared in this order and the reverse of it.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import clickhouse_connect
import msgspec
import psutil

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.kafka.log import KafkaLog
from meterline.event import encode_pack, identity_key, partition_of
from meterline.limits import PACK_EVENTS_MAX
from meterline.meter import Aggregation, MeterDraft
from meterline.runtime.settings.reading import load_settings
from meterline.runtime.wiring import adapters
from meterline.window import rfc3339_ms
from tests.bench.bench_aggregator import METERS, role, running, say, services

SUBJECTS: Final = 1_000
TURN_S: Final = 0.1  # between two packs of a partition
WARM_S: Final = 6.0
CHANGE_EVERY_S: Final = 10.0
TURNS: Final = ("usual", "early", "changing", "changing", "early", "usual")
# Without FINAL: in a store with many slices that took twice as long as this.
RECEIVED: Final = """SELECT sum(newest) FROM (
    SELECT partition, slice, argMax(received, version) AS newest FROM accounts
    WHERE log = 1 AND partition IN {partitions:Array(UInt16)} AND slice >= {first:UInt64}
    GROUP BY partition, slice)"""
# More often, looking would cost as much as counting: 15 ms each time in an old store.
LOOK_S: Final = 0.25
SETTINGS: Final = {"early": {"METERLINE_FLUSH_EVENTS": "20000"}}


@dataclass(slots=True)
class Seen:
    """Of one turn."""

    sent: int = 0
    marks: deque[tuple[int, float]] = field(default_factory=deque)  # so many events were there by
    fresh: list[float] = field(default_factory=list)
    changes: int = 0


def event_text(name: str, number: int, now: str) -> bytes:
    """An event of about 280 bytes, as it stands in the log."""
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": name,
            "source": "bench",
            "type": "request",
            "subject": f"customer-{number * 2654435761 % 2**32 % SUBJECTS}",
            "time": now,
            "data": {"tokens": number % 4096, "model": f"m{number % 5}", "took": "12.5"},
            "namespace": "default",
            "recordedtime": now,
        }
    )


async def appended(log: KafkaLog, partition: int, events: Sequence[bytes]) -> None:
    """One after the other, as many to a pack as a gateway puts there."""
    for begin in range(0, len(events), PACK_EVENTS_MAX):
        await log.append(partition, encode_pack(events[begin : begin + PACK_EVENTS_MAX]))


async def feed(log: KafkaLog, seen: Seen, rate: int, until: float, counted: int) -> None:
    """Append at this pace, a pack to each partition in a turn."""
    due = time.monotonic()
    while (now := time.monotonic()) < until:
        text, packs = rfc3339_ms(int(time.time() * 1000)), [[] for _ in range(log.partitions)]  # type: ignore[var-annotated]
        for _ in range(int(rate * TURN_S)):
            name = f"{counted + seen.sent:012d}"
            place = partition_of(identity_key("default", "bench", name), log.partitions)
            packs[place].append(event_text(name, seen.sent, text))
            seen.sent += 1
        await asyncio.gather(*(appended(log, n, it) for n, it in enumerate(packs)))
        seen.marks.append((counted + seen.sent, time.monotonic()))
        due = max(due + TURN_S, now)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def look(working: "Working", seen: Seen, fed: "asyncio.Task[None]", first: int) -> float:
    """Note when what was appended is counted, from an offset on; when all of it is."""
    asked = {"first": first, "partitions": list(range(working.log.partitions))}
    while seen.marks or not fed.done():
        ((received,),) = await working.usage.connection.query(RECEIVED, asked)
        now = time.monotonic()
        while seen.marks and seen.marks[0][0] <= received:
            seen.fresh.append(now - seen.marks.popleft()[1])
        await asyncio.sleep(LOOK_S)
    return time.monotonic()


Beside = Callable[[SqlCatalogueStore, Seen, "asyncio.Task[None]"], Awaitable[None]]


async def change(store: SqlCatalogueStore, seen: Seen, fed: "asyncio.Task[None]") -> None:
    """Another tenant makes a meter and deletes it, by turns."""
    number = 0
    while not fed.done():
        draft = MeterDraft(f"their-{number}", "", Aggregation.COUNT, "theirs")
        if number % 2:
            await store.delete_meter("another", f"their-{number - 1}", 0)
        else:
            await store.create_meter("another", draft, 0)
        number += 1
        seen.changes += 1
        await asyncio.wait([fed], timeout=CHANGE_EVERY_S)


BESIDE: Final[dict[str, Beside]] = {"changing": change}


async def rows(port: int) -> dict[str, float]:
    """How many rows the worker has written, by table."""
    found: dict[str, float] = {}
    url = f"http://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith("meterline_flush_rows_total{"):
                found[line.split('table="')[1].split('"')[0]] = float(line.rsplit(" ", 1)[1])
    return found


class Bench:
    """One set of servers, on which workers take turns."""

    def __init__(
        self, variables: dict[str, str], folder: Path, counted: int = 0, first: int = 0
    ) -> None:
        self._variables, self._folder = variables, folder
        self._counted = counted  # events that the log holds already, from offset `first` on
        self._first = first
        self._port = 18_751
        parts = urlsplit(variables["METERLINE_USAGE_URL"])
        self._client = clickhouse_connect.get_client(
            host=parts.hostname or "", port=parts.port or 0
        )

    def _clickhouse_us(self) -> float:
        names = "('UserTimeMicroseconds', 'SystemTimeMicroseconds')"
        asked = f"SELECT sum(value) FROM system.events WHERE event IN {names}"
        return float(self._client.query(asked).result_rows[0][0] or 0)

    @asynccontextmanager
    async def working(self, name: str, rate: int) -> AsyncIterator["Working"]:
        """A worker for a turn, that has warmed up."""
        settings = load_settings()
        async with AsyncExitStack() as stack:
            store = SqlCatalogueStore(adapters.open_control_database(settings, stack))
            log = await adapters.open_log(settings, stack)
            usage = await adapters.open_usage(settings, stack)
            assert isinstance(log, KafkaLog)
            variables = {**self._variables, **SETTINGS.get(name, {})}
            process = role("aggregate", variables, self._folder, self._port)
            async with running(process, self._port):
                working = Working(process, log, usage, store)
                await self._phase(working, None, rate, WARM_S)
                yield working

    async def turn(self, name: str, rate: int, seconds: float) -> None:
        """A worker for this turn, and the figures of all but its first seconds."""
        async with self.working(name, rate) as working:
            await self.look(working, name, rate, seconds, BESIDE.get(name))

    async def look(
        self, working: "Working", name: str, rate: int, seconds: float, beside: Beside | None = None
    ) -> None:
        """Print what counting so many events costs, and how fresh it is."""
        pid = working.process.pid
        written, used, theirs = await rows(self._port), process_us(pid), self._clickhouse_us()
        seen, took = await self._phase(working, beside, rate, seconds)
        found = await rows(self._port)
        events = found["events"] - written["events"]
        fresh = sorted(seen.fresh)
        say(
            f"{name:9} {seen.sent / took:8,.0f} events/s counted; append to counted median"
            f" {median(fresh):.2f} s, p99 {fresh[len(fresh) * 99 // 100]:.2f} s;"
            f" {(found['tallies'] - written['tallies']) / events:.2f} tallies an event;"
            f" worker {(process_us(pid) - used) / events:.1f} us an event,"
            f" ClickHouse {(self._clickhouse_us() - theirs) / events:.1f} us;"
            f" {seen.changes} changes of meters;"
            f" {psutil.Process(pid).memory_info().rss / 2**20:,.0f} MiB"
        )

    async def _phase(
        self, working: "Working", beside: Beside | None, rate: int, seconds: float
    ) -> tuple[Seen, float]:
        seen, began = Seen(), time.monotonic()
        until = began + seconds
        fed = asyncio.create_task(feed(working.log, seen, rate, until, self._counted))
        looking = asyncio.create_task(look(working, seen, fed, self._first))
        if beside is not None:
            await beside(working.store, seen, fed)
        ended = await looking
        self._counted += seen.sent
        return seen, ended - began


@dataclass(frozen=True, slots=True)
class Working:
    """A worker of a turn, and the stores that it works on."""

    process: subprocess.Popen[bytes]
    log: KafkaLog
    usage: ClickHouseUsageStore
    store: SqlCatalogueStore


def process_us(pid: int) -> float:
    """CPU that a process has used, in microseconds."""
    times = psutil.Process(pid).cpu_times()
    return (times.user + times.system) * 1e6


async def measure(
    variables: dict[str, str], folder: Path, turns: Sequence[str], rate: int, seconds: float
) -> None:
    """Take the turns."""
    async with AsyncExitStack() as stack:
        database = adapters.open_control_database(load_settings(), stack)
        for draft in METERS:
            await SqlCatalogueStore(database).create_meter("default", draft, 0)
    bench = Bench(variables, folder)
    for name in turns:
        await bench.turn(name, rate, seconds)


def main() -> None:
    """Print the figures; takes about five minutes."""
    numbers = [float(word) for word in sys.argv[1:] if word.replace(".", "").isdigit()]
    rate, seconds = int((numbers + [15_000.0])[0]), (numbers[1:] + [25.0])[0]  # noqa: RUF005
    turns = [word for word in sys.argv[1:] if word in TURNS] or list(TURNS)
    with tempfile.TemporaryDirectory() as folder, services() as variables:
        os.environ.update(variables)
        subprocess.run([sys.executable, "-m", "meterline.runtime", "migrate"], check=True)
        asyncio.run(measure(variables, Path(folder), turns, rate, seconds))


if __name__ == "__main__":
    main()
