"""Events a second from the log to queryable, by one Faust worker; seconds from 2xx to queryable.

The log is filled first, in packs as a busy gateway makes them; then `meterline aggregate` starts,
and the account in the usage store is watched. The rate is that between the first and the last
flush, so the start of the process is not in it. Beside it stands the rate of the least that any
aggregator must do on the same records in the same run: poll, decode, insert the raw rows.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import clickhouse_connect
import msgspec
import psutil
from clickhouse_connect.driver.client import Client

from meterline.backends.control_store.meters.catalogue import SqlCatalogueStore
from meterline.backends.kafka.log import KafkaLog
from meterline.event import encode_pack, identity_key, partition_of
from meterline.meter import Aggregation, MeterDraft
from meterline.runtime.settings.reading import Settings, load_settings
from meterline.runtime.wiring import adapters
from tests.services.choose import open_service

EVENTS = 600_000
PACK = 250  # what a pack holds when a gateway takes batches of 100 at full speed, about
SUBJECTS = 1_000
SAMPLES = 40
METERS = (
    MeterDraft("requests", "", Aggregation.COUNT, "request"),
    MeterDraft("tokens", "", Aggregation.SUM, "request", "$.tokens", "", (("model", "$.model"),)),
    MeterDraft("longest", "", Aggregation.MAX, "request", "$.took"),
)


def say(words: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def services() -> Iterator[dict[str, str]]:
    """Kafka, ClickHouse and PostgreSQL; the settings that lead to them."""
    with contextlib.ExitStack() as stack:
        urls = {}
        for kind in ("kafka", "clickhouse", "postgres"):
            service = open_service(kind, lambda words: say(f"# {words}"))
            stack.callback(service.stop)
            service.start()
            urls[kind] = service.url
        yield {
            "METERLINE_LOG_URL": f"kafka://{urls['kafka']}",
            "METERLINE_USAGE_URL": f"{urls['clickhouse']}/bench{uuid4().hex[:8]}",
            "METERLINE_CONTROL_URL": urls["postgres"].replace("+asyncpg", ""),
            "METERLINE_LOG_TOPIC": f"bench-{uuid4().hex[:8]}",
            "METERLINE_CONSUMER_GROUP": f"bench-{uuid4().hex[:8]}",
            "METERLINE_SECRET_KEY": uuid4().hex * 2,
        }


def role(name: str, variables: dict[str, str], folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A role as a process."""
    command = [sys.executable, "-m", "meterline.runtime", name, "--port", str(port)]
    environment = {**os.environ, **variables, "METERLINE_DATA_DIR": str(folder / name)}
    return started(command, environment)


def started(
    command: list[str], environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A process that runs beside this one."""
    return subprocess.Popen(command, env=environment)


def id_of(number: int) -> str:
    """The id of an event: as long for each, and spread over the partitions."""
    return f"{number:012d}-{number * 2654435761 % 2**32:08x}"


def event_text(number: int, minute: int) -> bytes:
    """An event of about 280 bytes, as it stands in the log."""
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": id_of(number),
            "source": "bench",
            "type": "request",
            "subject": f"customer-{number % SUBJECTS}",
            "time": f"2026-01-31T12:{minute:02d}:00.000Z",
            "data": {"tokens": number % 4096, "model": f"m{number % 5}", "took": "12.5"},
            "namespace": "default",
            "recordedtime": "2026-01-31T12:00:00.000Z",
        }
    )


def packs(
    numbers: Iterable[int], partitions: int, minute_of: Callable[[int], int], size: int = PACK
) -> Iterator[tuple[int, bytes]]:
    """Events of these numbers in packs, each with its partition; what is not full comes at last."""
    open_: list[list[bytes]] = [[] for _ in range(partitions)]
    for number in numbers:
        place = partition_of(identity_key("default", "bench", id_of(number)), partitions)
        open_[place].append(event_text(number, minute_of(number)))
        if len(open_[place]) == size:
            yield place, encode_pack(open_[place])
            open_[place] = []
    yield from ((place, encode_pack(rest)) for place, rest in enumerate(open_) if rest)


async def fill(log: KafkaLog, events: int = EVENTS) -> None:
    """Put the events into the log; two minutes of usage, as 5,000 events a second would be."""
    waiting: set[asyncio.Task[None]] = set()
    for place, value in packs(range(events), log.partitions, lambda number: number * 2 // events):
        waiting.add(asyncio.create_task(log.append(place, value)))
        if len(waiting) >= 64:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)


async def counted(settings: Settings, worker: psutil.Process) -> tuple[float, float, int]:
    """Events a second between the first and the last flush, CPU microseconds an event, and the
    largest resident memory in bytes.
    """
    async with AsyncExitStack() as stack:
        usage = await adapters.open_usage(settings, stack)
        first: tuple[float, float, int] | None = None
        while True:
            account = await usage.accounts(1)
            now, times, memory = time.monotonic(), worker.cpu_times(), worker.memory_info().rss
            cpu = times.user + times.system
            if account.received and first is None:
                first = now, cpu, account.received
            if first is not None and account.received >= EVENTS:
                events = account.received - first[2]
                return events / (now - first[0]), (cpu - first[1]) / events * 1e6, memory
            await asyncio.sleep(0.05)


async def bare(settings: Settings) -> float:
    """Events a second of polling, decoding and inserting raw rows, without any guard."""
    async with AsyncExitStack() as stack:
        log = await adapters.open_log(settings, stack)
        parts = urlsplit(settings.usage_url)
        client = clickhouse_connect.get_client(
            host=parts.hostname, port=parts.port, database=parts.path.strip("/")
        )
        client.command("CREATE TABLE bare (id String, subject String, text String) "
                       "ENGINE = MergeTree ORDER BY (subject, id)")  # fmt: skip
        rows: list[tuple[str, str, bytes]] = []
        decoder = msgspec.json.Decoder(list[msgspec.Raw])
        started = time.monotonic()
        for partition in range(log.partitions):
            offset = 0
            while records := await log.read(partition, offset, 64):
                offset = records[-1].offset + 1
                for record in records:
                    for raw in decoder.decode(record.value):
                        event = msgspec.json.decode(raw)
                        rows.append((event["id"], event["subject"], bytes(raw)))
                if len(rows) >= settings.flush_events:
                    _insert(client, rows)
                    rows = []
        _insert(client, rows)
        return EVENTS / (time.monotonic() - started)


def _insert(client: Client, rows: list[tuple[str, str, bytes]]) -> None:
    if rows:
        columns = list(zip(*rows, strict=True))
        names = ["id", "subject", "text"]
        client.insert(
            "bare",
            columns,
            column_names=names,
            column_oriented=True,
            settings={"async_insert": 0},
        )


async def freshness(url: str) -> list[float]:
    """Seconds from a 2xx to the answer that has the event, over samples at odd moments."""
    found = []
    async with aiohttp.ClientSession(url) as session:
        for sample in range(SAMPLES):
            event = {
                "specversion": "1.0",
                "id": f"fresh-{uuid4().hex}",
                "source": "bench",
                "type": "request",
                "subject": f"fresh-{sample}",
                "data": {"tokens": 1},
            }
            headers = {"Content-Type": "application/cloudevents+json"}
            async with session.post(
                "/api/v3/metering/events", data=msgspec.json.encode(event), headers=headers
            ) as answer:
                assert answer.status == 202, await answer.text()
            accepted = time.monotonic()
            query = {"filters": {"dimensions": {"subject": {"eq": f"fresh-{sample}"}}}}
            while True:
                async with session.post("/api/v3/metering/meters/requests/query", json=query) as r:
                    if (await r.json())["data"]:
                        break
                await asyncio.sleep(0.02)
            found.append(time.monotonic() - accepted)
            await asyncio.sleep(0.137 * (sample % 7))
    return found


async def ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return once a role says that it is ready."""
    async with aiohttp.ClientSession() as session:
        for _ in range(600):
            assert process.poll() is None, "the process ended; its words are above"
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
    raise TimeoutError(url)


@contextlib.asynccontextmanager
async def running(process: subprocess.Popen[bytes], port: int) -> AsyncIterator[str]:
    """A role that serves on this port, ended afterwards."""
    try:
        url = f"http://127.0.0.1:{port}"
        await ready(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(30)


async def made(settings: Settings, meters: Sequence[MeterDraft]) -> int:
    """Make the meters, and fill the log; how many partitions it has."""
    async with AsyncExitStack() as stack:
        database = adapters.open_control_database(settings, stack)
        for draft in meters:
            await SqlCatalogueStore(database).create_meter("default", draft, 0)
        log = await adapters.open_log(settings, stack)
        assert isinstance(log, KafkaLog)
        await fill(log)
        return log.partitions


async def distributed(
    variables: dict[str, str], folder: Path, meters: Sequence[MeterDraft]
) -> None:
    """The figures on Kafka, ClickHouse and PostgreSQL, with so many meters on every event."""
    settings = load_settings()
    await made(settings, meters)
    say(f"# the log holds {EVENTS:,} events")
    floor = await bare(settings)
    process = role("aggregate", variables, folder, 18_701)
    async with running(process, 18_701):
        rate, cost, memory = await counted(settings, psutil.Process(process.pid))
        say(f"aggregator, poll + decode + insert, no guard: {floor:9,.0f} events/s")
        say(
            f"aggregator, one Faust worker, meters: {len(meters)}       {rate:9,.0f} events/s"
            f"   ratio {rate / floor:4.2f}   {cost:5.1f} us CPU an event"
            f"   {memory / 2**20:,.0f} MiB resident"
        )
        async with running(role("control", variables, folder, 18_702), 18_702) as url:
            show_freshness("distributed", await freshness(url))


def show_freshness(name: str, samples: list[float]) -> None:
    """Median and worst of the samples."""
    say(f"2xx to queryable, {name}: median {median(samples):.2f} s, worst {max(samples):.2f} s")


async def embedded(folder: Path) -> None:
    """Freshness and memory of the whole product in one process."""
    config = folder / "meterline.toml"
    config.write_text("".join(
        f'[[meters]]\nkey = "{m.key}"\naggregation = "{m.aggregation}"\nevent_type = "request"\n'
        + (f'value_property = "{m.value_property}"\n' if m.value_property else "")
        for m in METERS
    ))  # fmt: skip
    command = [sys.executable, "-m", "meterline.runtime", "--config", str(config), "up"]
    command += ["--port", "18703", "--data", str(folder / "embedded")]
    process = started(command)
    async with running(process, 18_703) as url:
        show_freshness("embedded", await freshness(url))
        memory = psutil.Process(process.pid).memory_info().rss
        say(f"embedded, the whole product: {memory / 2**20:,.0f} MiB resident")


def main() -> None:
    """Print the figures; takes about three minutes."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(embedded(Path(folder)))
        for meters in (METERS[:1], METERS):
            with services() as variables:
                os.environ.update(variables)
                subprocess.run([sys.executable, "-m", "meterline.runtime", "migrate"], check=True)
                own = Path(folder) / str(len(meters))
                asyncio.run(distributed(variables, own, meters))


if __name__ == "__main__":
    main()
